package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// hop is a first hop as user-data holds it, and the shell commands that put it where cloud-init does, with its token.
func hop(t *testing.T, m minted) (script, files string) {
	t.Helper()
	parts := strings.SplitN(m.UserData, "content: |\n", 3)
	if len(parts) != 3 {
		t.Fatalf("user-data:\n%s", m.UserData)
	}
	script, run, ok := strings.Cut(parts[2], "runcmd:\n")
	token, rest, _ := strings.Cut(parts[1], "\n")
	if strings.TrimSpace(token) != m.Token || !strings.Contains(rest, "/etc/muster/first-hop.sh") ||
		run != "- [sh, /etc/muster/first-hop.sh]\n" || !ok {
		t.Fatalf("user-data:\n%s", m.UserData)
	}
	return script, `mkdir -p /run/systemd/system /etc/muster; (umask 077; echo ` + m.Token +
		` >/etc/muster/bootstrap-token); sed 's/^    //' "$S" >/etc/muster/first-hop.sh; `
}

const (
	runHop = `run sh /etc/muster/first-hop.sh || echo "status $?"; cat /run/muster-bootstrap.status; ls /etc/muster >"$RECORD/conf"`
	once   = "LIMIT='0'" // the first hop gives up after one attempt
)

func limited(script string) string {
	return strings.Replace(script, "LIMIT='86400'", once, 1)
}

// TestBootstrapUserData does what cloud-init does with the user-data: writes the files and runs the command.
func TestBootstrapUserData(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7", "--mode", "cloud-init")
	m := h.bootstrap("gpu-7", "--mode", "cloud-init")
	if text := m.UserData; !strings.HasPrefix(text, "#cloud-config\n") || len(text) >= 16<<10 || strings.Contains(text, "\t") ||
		strings.Count(text, "  permissions: '0") != 2 || !strings.Contains(text, "NODE_ID='"+m.NodeID+"'") || limited(text) == text {
		t.Fatalf("user-data of %d bytes:\n%s", len(m.UserData), m.UserData)
	}
	script, files := hop(t, m)
	lint(t, strings.ReplaceAll(script, "\n    ", "\n")[4:])
	for _, c := range []struct{ name, tool, script, want string }{
		{"changed script", "curl", strings.Replace(limited(script), "SHA256='", "SHA256='0", 1), "1 the script is not the one that was promised"},
		{"unknown token", "curl", strings.Replace(script, "/script'", "0/script'", 1), "22 the gateway refused the script"},
		{"unknown token", "wget", strings.Replace(script, "/script'", "0/script'", 1), "22 the gateway refused the script"},
		{"unknown token", "busybox", strings.Replace(script, "/script'", "0/script'", 1), "22 the gateway refused the script"},
		{"a wget that checks no certificate", "busybox", limited(script), "1 the script failed (1)"},
		{"script fails", "curl", limited(script), "3 the script failed (3)"},
		{"not a script of this size", "curl", strings.Replace(limited(script), "-f 8192", "-f 1", 1), "1 the script cannot be fetched"},
	} {
		b := newRootBox(t, c.tool)
		if c.tool == "busybox" {
			b.tool("wget", `exec busybox wget "$@"`)
		}
		b.env = append(b.env, "RECORD_EXIT=3")
		_, out := b.root(c.script, files+runHop)
		if !strings.Contains(out, "FAILED ("+strings.Fields(c.want)[0]+")") || !strings.Contains(out, "\n"+c.want) ||
			!strings.Contains(out, "status "+strings.Fields(c.want)[0]) {
			t.Errorf("%s %s:\n%s", c.name, c.tool, out)
		}
		if strings.Contains(b.left("files"), "/run/muster-first-hop.") {
			t.Errorf("%s: left:\n%s", c.name, b.left("files"))
		}
		if got := b.record("conf"); !strings.Contains(got, "bootstrap-token\n") || !strings.Contains(got, "first-hop.sh\n") {
			t.Errorf("%s: left in /etc/muster: %s", c.name, got)
		}
	}
	for _, tool := range []string{"curl", "wget"} {
		m := h.bootstrap("gpu-7", "--mode", "cloud-init", "--again")
		script, files := hop(t, m)
		b := newRootBox(t, tool)
		code, out := b.root(script, files+runHop)
		if code != 0 || !strings.Contains(out, "done: this machine is node gpu-7") || !strings.HasSuffix(out, "\n0 joined\n") {
			t.Fatalf("%s: exit %d\n%s", tool, code, out)
		}
		b.settled(m)
		if files := b.left("files"); strings.Contains(files, "muster-bootstrap.sh") || strings.Contains(files, "first-hop") {
			t.Errorf("left:\n%s", files)
		}
	}
}

// TestBootstrapWithoutSystemd: cloud-init's script and its first hop refuse such a machine before they write or fetch anything; the
// script for people takes what there is.
func TestBootstrapWithoutSystemd(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7", "--mode", "cloud-init")
	hop, files := hop(t, m)
	// Two files of one tick of the kernel's clock have the same time: what is written from here on must be newer than the mark.
	const before = `: >/var/lib/mark; until : >/var/lib/now; [ "$(find /var/lib/now -newer /var/lib/mark)" ]; do :; done; rm /var/lib/now; `
	const written = `find /etc /var/lib /run -newer /var/lib/mark -type f; [ ! -e "$RECORD/fetch-argv" ] || echo fetched`
	b := newRootBox(t)
	code, out := b.root(m.Script, before+`run sh "$S" || echo "status $?"; `+written)
	if code != 0 || !strings.Contains(out, "bootstrap: systemd does not run this machine") ||
		!strings.Contains(out, "next: boot an image") || !strings.HasSuffix(out, "\nstatus 1\n") {
		t.Errorf("the script: exit %d\n%s", code, out)
	}
	b = newRootBox(t)
	code, out = b.root(hop, files+`rmdir /run/systemd/system; `+before+`run sh /etc/muster/first-hop.sh || echo "status $?"; `+written)
	if code != 0 || !strings.Contains(out, "FAILED (1): systemd does not run this machine") ||
		!strings.HasSuffix(out, "\nstatus 1\n/run/muster-bootstrap.status\n") {
		t.Errorf("the first hop: exit %d\n%s", code, out)
	}
	b = newRootBox(t)
	if code, out = b.root(h.bootstrap("gpu-7").Script, `run sh "$S"`); code != 0 ||
		!strings.Contains(out, "done: this machine is node gpu-7") {
		t.Errorf("by hand: exit %d\n%s", code, out)
	}
}

// TestBootstrapHopTriesAgain: trouble that may pass by itself is waited for, and said once.
func TestBootstrapHopTriesAgain(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	script, files := hop(t, h.bootstrap("gpu-7", "--mode", "cloud-init"))
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("make test needs curl:", err)
	}
	b := newRootBox(t)
	b.tool("sleep", `echo "$1" >>"$RECORD/slept"`)
	b.tool("curl", `echo x >>"$RECORD/tries"
case $(grep -c x "$RECORD/tries") in
1 | 2 | 3) echo "curl: (22) said 503" >&2; printf 503; exit 22 ;;
4) echo "curl: (7) refused" >&2; printf 000; exit 7 ;;
5) while [ "$1" != -o ]; do shift; done; echo "<html>no such page" >"$2"; printf 404; exit 0 ;; # an edge without its gateway
esac
exec `+curl+` "$@"`)
	code, out := b.root(script, files+runHop)
	if code != 0 || !strings.HasSuffix(out, "\n0 joined\n") || strings.Count(out, "not yet:") != 3 || strings.Count(out, "HTTP 503") != 1 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if slept := b.record("slept"); slept != "2\n4\n8\n16\n32\n" {
		t.Errorf("slept: %s", slept)
	}
}

// TestBootstrapHopEnds: a first hop whose machine lost its clock or its tools ends all the same, and does not spin.
func TestBootstrapHopEnds(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	script, files := hop(t, h.bootstrap("gpu-7", "--mode", "cloud-init"))
	script = strings.Replace(script, "LIMIT='86400'", "LIMIT='200'", 1)
	for _, c := range []struct{ name, lost, sleep, want, slept string }{
		{"no sleep", "", "exit 1", "127 the script cannot be fetched", "2\n"},
		{"no clock", "mount -t tmpfs none /proc; ", ":", "1 the script cannot be fetched", "2\n4\n8\n16\n32\n60\n60\n60\n"},
		{"no sed", `rm "${BOX_PATH%%:*}/sed"; mount -t tmpfs none /proc; `, ":", "1 the script cannot be fetched", "2\n4\n8\n16\n32\n60\n60\n60\n"},
	} {
		b := newRootBox(t)
		b.tool("sleep", `echo "$1" >>"$RECORD/slept"; `+c.sleep)
		b.tool("curl", `printf 000; exit 7`)
		_, out := b.root(script, files+c.lost+runHop)
		if !strings.Contains(out, "\nstatus "+c.want[:strings.Index(c.want, " ")]) || !strings.Contains(out, "\n"+c.want) {
			t.Errorf("%s:\n%s", c.name, out)
		}
		if slept := b.record("slept"); slept != c.slept {
			t.Errorf("%s: slept %q", c.name, slept)
		}
	}
}

// TestBootstrapHopHandsOver: the boot is not held up. A unit goes on with the work, and is removed when the node has joined.
func TestBootstrapHopHandsOver(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	script, files := hop(t, h.bootstrap("gpu-7", "--mode", "cloud-init"))
	const unit = "/etc/systemd/system/muster-first-hop.service"
	for _, c := range []struct{ name, script, env, want, calls string }{
		{"the script fails", script, "RECORD_EXIT=3", "75 the script failed (3)", "start"},
		{"nobody answers", regexp.MustCompile(`http(s?)://[0-9.:]+`).ReplaceAllString(strings.Replace(script, "PATIENCE=180", "PATIENCE=0", 1),
			"https://"+freeAddress(t)), "X=",
			"75 the script cannot be fetched", "start"},
		{"refused", strings.Replace(script, "/script'", "0/script'", 1), "X=", "22 the gateway refused", ""},
	} {
		b := newRootBox(t)
		b.env = append(b.env, c.env)
		b.tool("systemctl", `echo "$*" >>"$RECORD/systemctl"`)
		_, out := b.root(c.script, files+runHop+`; grep ExecStart= `+unit+`; ls -l /etc/systemd/system/multi-user.target.wants`)
		if !strings.Contains(out, "\n"+c.want) || !strings.Contains(out, "status "+strings.Fields(c.want)[0]) ||
			!strings.Contains(out, "\nExecStart=/bin/sh /etc/muster/first-hop.sh unit\n") ||
			!strings.Contains(out, "muster-first-hop.service -> ../muster-first-hop.service") {
			t.Errorf("%s:\n%s", c.name, out)
		}
		calls := ""
		for line := range strings.Lines(b.record("systemctl")) {
			calls += strings.Fields(line)[0] + " "
		}
		if strings.TrimSpace(calls) != c.calls {
			t.Errorf("%s: systemctl %s", c.name, b.record("systemctl"))
		}
	}
	b := newRootBox(t)
	b.tool("systemctl", `echo "$*" >>"$RECORD/systemctl"`)
	code, out := b.root(script,
		files+`RECORD_EXIT=3 run sh /etc/muster/first-hop.sh || :; run sh /etc/muster/first-hop.sh unit; ls /etc/muster `+unit+` 2>&1 || :`)
	if code != 0 || !strings.Contains(out, "muster bootstrap of gpu-7: joined") || strings.Contains(out, "first-hop.sh\n") ||
		!strings.Contains(out, "No such file") ||
		!strings.Contains(b.record("systemctl"), "disable --no-reload muster-first-hop.service") {
		t.Errorf("exit %d\n%s\n%s", code, out, b.record("systemctl"))
	}
}

// TestBootstrapHopJoined: a machine that has joined and gets a new instance id fetches nothing and uses up no token. A machine that is
// another node already is refused.
func TestBootstrapHopJoined(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7", "--mode", "cloud-init")
	script, files := hop(t, m)
	b := newRootBox(t)
	code, out := b.root(script, files+`cp /etc/muster/first-hop.sh /var/lib/again; run sh /etc/muster/first-hop.sh >/dev/null
mkdir -p /var/lib/muster-agent/current; printf '#!/bin/sh\necho "$*" >"$RECORD/joins"\n' >/var/lib/muster-agent/current/muster-agent; `+
		`chmod 755 /var/lib/muster-agent/current/muster-agent
cp /var/lib/again /etc/muster/first-hop.sh; echo used >/etc/muster/bootstrap-token; : >"$RECORD/fetch-argv"; `+runHop)
	if code != 0 || !strings.HasSuffix(out, "\n0 joined\n") || b.record("fetch-argv") != "" ||
		strings.Contains(b.record("conf"), "first-hop") || strings.Contains(b.record("conf"), "token") {
		t.Errorf("exit %d, fetched with %s, left %s\n%s", code, b.record("fetch-argv"), b.record("conf"), out)
	}
	if got := b.record("joins"); got != "join --token-file /etc/muster/bootstrap-token\n" {
		t.Errorf("the agent was called with %s", got)
	}
	b = newRootBox(t)
	_, out = b.root(limited(script),
		files+`mkdir -p /var/lib/muster-agent; echo '{"node_id":"n-other"}' >/var/lib/muster-agent/identity.json; `+runHop)
	if !strings.Contains(out, "this machine is node n-other already") || !strings.Contains(out, "\n1 the script failed (1)") {
		t.Errorf("another node's machine:\n%s", out)
	}
}
