package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/gateway/internal/kit/lab"
)

// TestBootstrapPaste pastes the printed command, in each of its forms.
func TestBootstrapPaste(t *testing.T) {
	t.Parallel()
	public, roots := publicCertificate(t)
	plain := freeAddress(t)
	for _, c := range []struct {
		name  string
		serve []string
		want  string
	}{
		{"public certificate", public, "curl -qfsSL https://"},
		{"own certificate", nil, `curl -fsSLk --pinnedpubkey "sha256//`},
		{"plain HTTP", []string{"--plain-listen", plain, "--public-url", "http://" + plain}, "sha256sum -c -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := agentsHouse(t, recorder(t), c.serve...)
			out := h.muster("node", "create", "gpu-7")
			if !strings.Contains(out, c.want) || !strings.Contains(out, "On the machine, as root:") ||
				!strings.Contains(out, "for 15m from the first fetch on") {
				t.Errorf("node create:\n%s", out)
			}
			m := h.bootstrap("gpu-7")
			if !strings.Contains(m.Command, c.want) || strings.Contains(m.URL, ".") &&
				strings.Contains(strings.SplitN(m.URL, "/nodes/", 2)[1], ".") {
				t.Errorf("command: %s\nurl: %s", m.Command, m.URL)
			}
			b := newRootBox(t)
			b.env = append(b.env, "CURL_CA_BUNDLE="+roots)
			code, out := b.root(m.Command, `run sh "$S"`)
			if code != 0 || !strings.Contains(out, "done: this machine is node gpu-7") {
				t.Fatalf("exit %d\n%s", code, out)
			}
			b.settled(m)
			if n, _ := h.node("gpu-7"); n.State != "deploying" {
				t.Errorf("state %s after the fetch", n.State)
			}
		})
	}
}

// TestBootstrapPasteChanged: a script that is not the promised one is not run, and nothing of it is left.
func TestBootstrapPasteChanged(t *testing.T) {
	t.Parallel()
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain, "--public-url", "http://"+plain)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, s := range []string{"sh", "bash"} {
		b := newBox(t)
		b.env = append(b.env, "TMPDIR="+b.home)
		code, out := b.do("", s, "-c", strings.Replace(m.Command, m.FetchSum, strings.Repeat("0", 64), 1))
		if left, _ := filepath.Glob(filepath.Join(b.home, "tmp.*")); code == 0 || len(left) > 0 || !strings.Contains(out, "FAILED") {
			t.Errorf("%s: exit %d, left %s\n%s", s, code, left, out)
		}
	}
}

// TestBootstrapCut: a script that was cut off does nothing, wherever it was cut.
func TestBootstrapCut(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	b := newRootBox(t)
	code, out := b.root(m.Script, fmt.Sprintf(`n=0
while [ $n -lt %d ]; do
	head -c $n "$S" | run sh >/dev/null 2>&1 || :
	[ ! -e /etc/muster ] && [ ! -e /var/lib/muster-agent ] || { echo "cut at $n did something"; exit 1; }
	n=$((n + 83))
done
run sh "$S"`, len(m.Script)-3))
	if code != 0 || !strings.Contains(out, "done:") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestBootstrapStopped: a run that was stopped, or had no room, is finished by the next run.
func TestBootstrapStopped(t *testing.T) {
	t.Parallel()
	agents := recorder(t)
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		path := filepath.Join(agents, platform, "muster-agent")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(raw, []byte("\n#"+strings.Repeat("x", 300<<10)+"\n")...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := agentsHouse(t, agents)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, c := range []struct{ name, first, want string }{
		{"terminated", `INTERRUPT=1 run sh "$S" || echo "status $?"`, "status 143"},
		{"disk full", `mkdir -p /var/lib/muster-agent; mount -t tmpfs -o size=64k tmpfs /var/lib/muster-agent; ` +
			`run sh "$S" || echo "status $?"; mount -o remount,size=8m /var/lib/muster-agent`,
			"the agent cannot be fetched"},
		{"join fails", `RECORD_EXIT=3 run sh "$S" || echo "status $?"; [ -s /etc/muster/bootstrap-token ] || echo gone`, "status 3"},
		{"no network", `PATH=/nowhere:$PATH; mv "${BOX_PATH}/curl" "${BOX_PATH}/hidden"; printf '#!/bin/sh\nexit 7\n' >"${BOX_PATH}/curl"; ` +
			`chmod 755 "${BOX_PATH}/curl"
			run sh "$S" || echo "status $?"; mv -f "${BOX_PATH}/hidden" "${BOX_PATH}/curl"`, "cannot be fetched from " + h.url},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRootBox(t)
			code, out := b.root(m.Script, c.first+"\necho again\n"+`run sh "$S"`)
			before, after, _ := strings.Cut(out, "again\n")
			if code != 0 || !strings.Contains(before, c.want) || strings.Contains(before, "done:") || strings.Contains(before, "gone") ||
				!strings.Contains(after, "done:") {
				t.Fatalf("exit %d\n%s", code, out)
			}
			b.settled(m)
		})
	}
}

// TestBootstrapRefuses: on a machine that it cannot work with, the script says why and what to do, and leaves nothing.
func TestBootstrapRefuses(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	script := h.bootstrap("gpu-7").Script
	if code, _, errs := agentsHouse(t, t.TempDir()).try("node", "create", "gpu-7"); code != 1 ||
		!strings.Contains(errs, "carries no agent") || !strings.Contains(errs, "make build") {
		t.Errorf("a gateway without agents: exit %d\n%s", code, errs)
	}
	none := regexp.MustCompile(`SHA256_(AMD64|ARM64)='[0-9a-f]*'`).ReplaceAllString(script, "SHA256_$1=''")
	for _, c := range []struct{ name, script, commands, want string }{
		{"no root", script,
			`printf '#!/bin/sh\necho 1000\n' >/var/lib/id; chmod 755 /var/lib/id; mkdir /var/lib/b; mv /var/lib/id /var/lib/b/id; ` +
				`PATH=/var/lib/b:$BOX_PATH sh "$S"`, "this needs root"},
		{"another machine", script,
			`mkdir /var/lib/b; printf '#!/bin/sh\ncase $1 in -s) echo Linux ;; *) echo riscv64 ;; esac\n' >/var/lib/b/uname; ` +
				`chmod 755 /var/lib/b/uname; PATH=/var/lib/b:$BOX_PATH sh "$S"`,
			"there is no agent for riscv64"},
		{"no agent at the gateway", none, `run sh "$S"`, "carried no agent for linux/"},
		{"changed agent", strings.NewReplacer("SHA256_AMD64='", "SHA256_AMD64='00", "SHA256_ARM64='", "SHA256_ARM64='00").Replace(script),
			`run sh "$S"`,
			"not the one to be expected"},
		{"another gateway's root", strings.Replace(script, "ROOTS='", "ROOTS='#", 1), `run sh "$S"`, "the agent cannot be fetched"},
		{"no tool", script, `rm "$BOX_PATH/curl"; run sh "$S"`, "there is neither curl nor wget here"},
		{"noexec", script, `NOEXEC=/ run sh "$S"`, "the agent does not run from /var/lib/muster-agent: not here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRootBox(t)
			code, out := b.root(c.script, c.commands)
			if code != 1 || !strings.Contains(out, c.want) || !strings.Contains(out, "\n  next: ") {
				t.Errorf("exit %d\n%s", code, out)
			}
			if strings.Contains(b.left("files"), ".bootstrap.") {
				t.Errorf("left: %s", b.left("files"))
			}
		})
	}
}

// TestBootstrapShellcheck reads the scripts as they are served.
func TestBootstrapShellcheck(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--bootstrap-install-container-runtime", "--bootstrap-registry", "registry.example")
	h.muster("node", "create", "gpu-7")
	for _, mode := range []string{"manual", "cloud-init"} {
		m := h.bootstrap("gpu-7", "--mode", mode)
		lint(t, m.Script)
		out, err := exec.Command("curl", "-fsSk", m.URL).Output()
		if err != nil {
			t.Fatal(err)
		}
		lint(t, string(out))
	}
}

func lint(t *testing.T, script string) {
	t.Helper()
	t.Run("shellcheck", func(t *testing.T) {
		if _, err := exec.LookPath("shellcheck"); err != nil {
			lab.Lacking(t, "not run: shellcheck is not installed here; make tools as root installs it")
		}
		check := exec.Command("shellcheck", "-s", "sh", "-")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestBootstrapEnrols joins a real agent with a bootstrap token: the node becomes what was created, and its other tokens end.
func TestBootstrapEnrols(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--heartbeat-interval", "5s")
	h.muster("node", "create", "gpu-7", "--tenant", "platform", "--label", "rack=7")
	first := h.bootstrap("gpu-7")
	second := h.bootstrap("gpu-7")
	h.agent("gpu-7", second.Token)
	h.until("gpu-7 is online", func() bool { return h.online("gpu-7") })
	if n, _ := h.node("gpu-7"); n.ID != second.NodeID || n.Tenant != "platform" || n.Labels["rack"] != "7" {
		t.Errorf("node: %+v", n)
	}
	for token, want := range map[string]string{first.URL: "token_revoked", second.URL: "token_used"} {
		out, _ := exec.Command("curl", "-sk", token).Output()
		var e struct{ Error struct{ Code string } }
		if json.Unmarshal(out, &e) != nil || e.Error.Code != want {
			t.Errorf("got %s, want %s", out, want)
		}
	}
	if code, _, errs := h.try("bootstrap", "gpu-7"); code != 1 || !strings.Contains(errs, "--again") {
		t.Errorf("bootstrap of an active node: exit %d, %s", code, errs)
	}
	h.bootstrap("gpu-7", "--again")
	if n, _ := h.node("gpu-7"); n.State != "active" {
		t.Errorf("state %s after another token", n.State)
	}
}
