package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBootstrapScript runs the complete script, and the one that takes the token from outside, in every shell here: the first
// run does all of it, the second finds it done.
func TestBootstrapScript(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7", "--tenant", "platform")
	for _, s := range shells(t) {
		if s.standalone {
			continue // busybox's wget cannot check a certificate, which the script says
		}
		for _, tool := range []string{"curl", "wget"} {
			t.Run(s.name+" "+tool, func(t *testing.T) {
				h := *h
				h.t = t
				m := h.bootstrap("gpu-7")
				b := newRootBox(t, tool)
				code, out := b.root(m.Script, "run "+s.argv[0]+` "$S"; run `+s.argv[0]+` "$S"`)
				if code != 0 || strings.Count(out, "[8/8] joining as gpu-7\n") != 2 || strings.Count(out, "done: this machine is node gpu-7") != 2 {
					t.Fatalf("exit %d\n%s", code, out)
				}
				argv := b.record("argv")
				if want := "join\n--gateway\n" + h.url + "\n--root-pin\nsha256:"; !strings.HasPrefix(argv, want) ||
					!strings.HasSuffix(argv, "\n--name\ngpu-7\n--state\n/var/lib/muster-agent\n--token-file\n/etc/muster/bootstrap-token\n") {
					t.Errorf("argv: %s", argv)
				}
				b.settled(m)
			})
		}
	}
}

// TestBootstrapProfile: the helper agrees to the profile before anything is changed for it, and what it needs is done before the machine
// joins.
// A machine that is set up for another one is refused for good.
func TestBootstrapProfile(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7", "--tenant", "platform")
	with := func(script, profile string) string {
		script = strings.Replace(script, "\nPROFILE=''\n", "\nPROFILE='"+profile+"'\n", 1)
		return strings.Replace(script, "\nAPPLY=''\n",
			"\nAPPLY='test ! -e /var/lib/muster-agent/identity.json\necho \"$1\" >/etc/muster/applied'\n", 1)
	}
	for _, c := range []struct {
		profile string
		code    int
		says    string
	}{{"p", 0, "[9/9] joining as gpu-7\n"}, {"another", 78, "this machine is not for the profile another"}} {
		b := newRootBox(t)
		code, out := b.root(with(h.bootstrap("gpu-7").Script, c.profile), `run sh "$S"`)
		if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "joining") != (code == 0) {
			t.Fatalf("%s: exit %d\n%s", c.profile, code, out)
		}
		if got := b.record("profiles"); got != "profile apply "+c.profile+"\n" {
			t.Errorf("%s: asked %q", c.profile, got)
		}
		if got := b.left("muster/applied"); strings.HasPrefix(got, "/var/lib/muster-agent/") != (code == 0) {
			t.Errorf("%s: applied by %q", c.profile, got)
		}
	}
}

// settled checks what a run that went well leaves.
func (b *rootBox) settled(m minted) {
	b.t.Helper()
	env := b.left("muster/agent.env")
	for _, want := range []string{"\nMUSTER_NODE_ID=" + m.NodeID + "\n", "\nMUSTER_NODE_URL=https://", "\nMUSTER_TRUST_KEY=",
		"\nMUSTER_ANSWER_KEYS=", "\nMUSTER_IDENTITY=/var/lib/muster-agent/identity.json\n", "\nMUSTER_STATE=/var/lib/muster-agent\n"} {
		if strings.Count(env, want) != 1 {
			b.t.Errorf("agent.env has not %q once:\n%s", want, env)
		}
	}
	if strings.Contains(env, "msb_") || strings.Contains(env, "ROOT_PIN") || b.left("muster/bootstrap-token") != "" {
		b.t.Errorf("the token or the pin is left:\n%s", env)
	}
	if !strings.HasPrefix(b.left("muster/ca-bundle.crt"), "-----BEGIN CERTIFICATE-----\n") {
		b.t.Errorf("ca-bundle.crt: %s", b.left("muster/ca-bundle.crt"))
	}
	if files := b.left("files"); strings.Contains(files, ".bootstrap.") || strings.Contains(files, "muster-credential") {
		b.t.Errorf("left:\n%s", files)
	}
	secret := m.Token[strings.Index(m.Token, ".")+1:]
	for _, name := range []string{"argv", "env", "fetch-argv", "fetch-env", "docker-argv"} {
		if strings.Contains(b.record(name), secret) {
			b.t.Errorf("the secret is in %s", name)
		}
	}
	modes := b.left("modes")
	for _, want := range []string{"drwx------", "-rw-------"} {
		if !strings.Contains(modes, want) {
			b.t.Errorf("modes:\n%s", modes)
		}
	}
}

// TestBootstrapToken: where the script without the secret takes it from, and what it says if there is none or another one's.
func TestBootstrapToken(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	out, err := exec.Command("curl", "-fsSk", m.URL).Output()
	if err != nil {
		t.Fatal(err)
	}
	script := string(out)
	other := h.bootstrap("gpu-7").Token
	if strings.Contains(script, m.Token[strings.Index(m.Token, ".")+1:]) {
		t.Fatal("the secret is in the script of the fetch part")
	}
	for _, c := range []struct{ name, commands, want string }{
		{"environment", "MUSTER_TOKEN=" + m.Token + ` run sh "$S"`, "done:"},
		{"file", "mkdir -p /etc/muster; echo " + m.Token + ` >/etc/muster/bootstrap-token; run sh "$S"`, "done:"},
		{"none", `run sh "$S"`, "the bootstrap token is missing"},
		{"another", "MUSTER_TOKEN=" + other + ` run sh "$S"`, "the token is another one than this script's"},
		{"no token, but a node already",
			`mkdir -p /var/lib/muster-agent; echo '{"node_id":"'"$NODE"'"}' >/var/lib/muster-agent/identity.json; run sh "$S"`, "done:"},
		{"joined elsewhere", "mkdir -p /etc/muster; echo MUSTER_GATEWAY=https://other:1 >/etc/muster/agent.env; MUSTER_TOKEN=" + m.Token +
			` run sh "$S"`,
			"this machine is joined to https://other:1 already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newRootBox(t)
			b.env = append(b.env, "NODE="+m.NodeID)
			code, out := b.root(script, c.commands)
			if ok := c.want == "done:"; !strings.Contains(out, c.want) || (code == 0) != ok || !ok && !strings.Contains(out, "next: ") {
				t.Errorf("exit %d\n%s", code, out)
			}
			if strings.Contains(out, m.Token[30:]) {
				t.Errorf("the token is shown:\n%s", out)
			}
		})
	}
}

// TestBootstrapHosts: the gateway's name that nobody resolves, and hosts files that cannot be written.
func TestBootstrapHosts(t *testing.T) {
	t.Parallel()
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain, "--bootstrap-resolve-address", "127.0.0.1")
	_, port, _ := strings.Cut(strings.TrimPrefix(h.url, "https://"), ":")
	h.gateway.stop()
	h.args = append(h.args, "--public-url", "https://gateway.invalid:"+port)
	h.open()
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	if !strings.HasPrefix(m.URL, "http://"+plain+"/api/v1/bootstrap/nodes/msb_") || !strings.Contains(m.Command, m.FetchSum+"  $f") {
		t.Fatalf("first hop: %s\n%s", m.URL, m.Command)
	}
	const line = "127.0.0.1 gateway.invalid # muster-bootstrap\n"
	b := newRootBox(t)
	code, out := b.root(m.Script,
		`chmod 640 /etc/hosts; echo "127.9.9.9 gateway.invalid # muster-bootstrap" >>/etc/hosts; mkdir -p /etc/cloud/templates; `+
			`echo '## template:jinja' >/etc/cloud/templates/hosts.debian.tmpl
run sh "$S"; run sh "$S"; cp /etc/cloud/templates/hosts.debian.tmpl "$RECORD/template"; stat -c %a /etc/hosts >"$RECORD/mode"`)
	if got := b.left("hosts"); code != 0 || got != line+"127.0.0.1 localhost\n" {
		t.Errorf("exit %d, hosts:\n%s\n%s", code, got, out)
	}
	if got := b.record("template"); got != "## template:jinja\n"+line || b.record("mode") != "640\n" {
		t.Errorf("template: %s, mode %s", got, b.record("mode"))
	}
	code, out = b.root(m.Script, `cp /etc/hosts /var/lib/h; mount --bind /var/lib/h /etc/hosts; run sh "$S"`)
	if got := b.left("hosts"); code != 0 || got != line+"127.0.0.1 localhost\n" {
		t.Errorf("a mount: exit %d, hosts:\n%s\n%s", code, got, out)
	}
	code, out = b.root(m.Script, `mount --bind /etc/hosts /etc/hosts; mount -o remount,bind,ro /etc/hosts; run sh "$S"`)
	if code != 1 || !strings.Contains(out, "/etc/hosts is read-only") ||
		!strings.Contains(out, "add this line to /etc/hosts: "+strings.TrimSpace(line)) ||
		!strings.Contains(out, "the agent cannot be fetched") {
		t.Errorf("read-only: exit %d\n%s", code, out)
	}
}

// TestBootstrapRuntime: the runtime that is missing, the registry's trust, and the login.
func TestBootstrapRuntime(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/credential"
	write(t, file, "robot:pass word\n")
	h := agentsHouse(t, recorder(t), "--bootstrap-install-container-runtime", "--bootstrap-registry", "registry.example:5000",
		"--bootstrap-registry-credential", file)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	const docker = `printf '%s\n' "$@" >>"$RECORD/docker-argv"; cat >"$RECORD/docker-stdin"; ` +
		`echo /run/muster-credential.* >>"$RECORD/held"; exit "${LOGIN:-0}"`
	const apt = `echo "$DEBIAN_FRONTEND $*" >>"$RECORD/apt"; case " $* " in *" install "*) [ -z "$APT_FAILS" ] || exit 100; ` +
		`cp "$RECORD/docker" "${0%/*}/docker"; esac`
	newBox := func(t *testing.T) *rootBox {
		b := newRootBox(t)
		write(t, b.records+"/docker", "#!/bin/sh\n"+docker+"\n")
		b.tool("apt-get", apt)
		b.tool("systemctl", `echo "$*" >>"$RECORD/systemctl"`)
		return b
	}
	b := newBox(t)
	code, out := b.root(m.Script,
		`chmod 755 "$RECORD/docker"; mkdir -p /run/systemd/system; run sh "$S"; run sh "$S" && cat /var/lib/muster-agent/.bootstrap-stays`)
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if !strings.HasSuffix(out, "runtime docker.io\nlogin docker registry.example:5000\nlogin docker registry.example:5000\n") {
		t.Errorf("what stays when the agent leaves is not noted:\n%s", out)
	}
	if got := b.record("apt"); got != "noninteractive update\nnoninteractive -o DPkg::Lock::Timeout=180 -o "+
		"Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold install -y --no-remove --no-install-recommends docker.io\n" {
		t.Errorf("apt-get: %s", got)
	}
	if got := b.record("systemctl"); got != "enable --no-reload docker.service\nstart docker.service\n" {
		t.Errorf("systemctl: %s", got)
	}
	argv := b.record("docker-argv")
	stdin := b.record("docker-stdin")
	if !strings.HasPrefix(argv,
		"login\n--username\nrobot\n--password-stdin\nregistry.example:5000\n") || stdin != "pass word\n" {
		t.Errorf("docker: %q, standard input %q", argv, stdin)
	}
	if held := b.record("held"); !strings.HasPrefix(held, "/run/muster-credential.") {
		t.Errorf("the credential was in %s", held)
	}
	for _, name := range []string{"etc/docker/certs.d/registry.example:5000/ca.crt", "etc/containers/certs.d/registry.example:5000/ca.crt"} {
		if !strings.HasPrefix(b.left(name), "-----BEGIN CERTIFICATE-----\n") {
			t.Errorf("%s: %s", name, b.left(name))
		}
	}
	b.settled(m)
	for _, c := range []struct{ name, env, want string }{
		{"apt fails", "APT_FAILS=1", "apt-get cannot install docker.io"},
		{"login fails", "LOGIN=1", "docker cannot log in to registry.example:5000"},
	} {
		b := newBox(t)
		b.env = append(b.env, c.env)
		code, out := b.root(m.Script, `chmod 755 "$RECORD/docker"; run sh "$S"`)
		if code != 1 || !strings.Contains(out, c.want) || !strings.Contains(out, "next: ") || strings.Contains(b.left("files"), "credential") {
			t.Errorf("%s: exit %d\n%s", c.name, code, out)
		}
	}
	if err := exec.Command("rm", file).Run(); err != nil { // sealed by now
		t.Fatal(err)
	}
	h.gateway.stop()
	h.open()
	const want = `{"registry":"registry.example:5000","username":"robot","password":"pass word"}` + "\n"
	if got := h.credential(h.bootstrap("gpu-7").Token); got != want {
		t.Errorf("after a restart without the file: %s", got)
	}
}

func (h *house) credential(token string) string {
	h.t.Helper()
	out, err := exec.Command("curl", "-fsSk", h.url+"/api/v1/bootstrap/nodes/"+token+"/registry-credential").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out)
}
