package main

import (
	"os"
	"strings"
	"testing"
)

// TestBootstrapTrust: a gateway with a certificate of its own is believed by this script's root alone, whatever the system trusts and
// whatever configuration files say.
func TestBootstrapTrust(t *testing.T) {
	t.Parallel()
	public, roots := publicCertificate(t)
	h := agentsHouse(t, recorder(t), public...)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	own := strings.Replace(m.Script, "CERTIFICATE='system'", "CERTIFICATE='own'", 1)
	if own == m.Script {
		t.Fatal("the script does not rely on the system's trust")
	}
	trusted := `hash=$(openssl x509 -hash -noout -in "$ROOTS"); cp "$ROOTS" "/etc/ssl/certs/$hash.0"; ` +
		`cat "$ROOTS" >>/etc/ssl/certs/ca-certificates.crt; `
	const open = `echo insecure >"$HOME/.curlrc"; echo check_certificate=off >"$HOME/.wgetrc"; `
	for _, tool := range []string{"curl", "wget"} {
		for _, c := range []struct{ name, script, before, want string }{
			{"the system's authority", m.Script, trusted, "done:"},
			{"the system's authority, but the certificate should be muster's", own, trusted, "the agent cannot be fetched"},
			{"an unknown authority and careless settings", m.Script, open, "the agent cannot be fetched"},
			{"both", own, trusted + open, "the agent cannot be fetched"},
		} {
			b := newRootBox(t, tool)
			b.env = append(b.env, "ROOTS="+roots)
			code, out := b.root(c.script, c.before+`run sh "$S"`)
			if !strings.Contains(out, c.want) || (code == 0) != (c.want == "done:") {
				t.Errorf("%s, %s: exit %d\n%s", tool, c.name, code, out)
			}
		}
	}
}

// TestBootstrapAnotherNode: a machine that is one node already does not pass for another.
func TestBootstrapAnotherNode(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, c := range []struct{ name, commands, want string }{
		{"before", `mkdir -p /var/lib/muster-agent; echo '{ "node_id": "n-other" }' >/var/lib/muster-agent/identity.json; run sh "$S"`,
			"this machine is node n-other already"},
		{"after", `BECOMES=n-other run sh "$S"`, "this machine is node n-other now, and not gpu-7"},
		{"elsewhere", `mkdir -p /etc/muster /srv; echo 'MUSTER_STATE="/var/lib/own"' >/etc/muster/agent.env; mkdir /var/lib/own; ` +
			`echo {} >/var/lib/own/identity.json; run sh "$S"`,
			"this machine has an agent already, in /var/lib/own"},
	} {
		b := newRootBox(t)
		code, out := b.root(m.Script, c.commands)
		if code != 1 || !strings.Contains(out, c.want) || !strings.Contains(out, "muster-agent leave") || strings.Contains(out, "done:") {
			t.Errorf("%s: exit %d\n%s", c.name, code, out)
		}
		if c.name == "after" && b.left("muster/bootstrap-token") == "" {
			t.Error("the token is gone, although the node is not there")
		}
	}
}

// TestBootstrapAlone: two runs never work at once. A run removes what a killed one left. A process that a run starts and that goes on
// does not keep the lock.
func TestBootstrapAlone(t *testing.T) {
	t.Parallel()
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	b := newRootBox(t)
	code, out := b.root(m.Script,
		`flock /run/muster-bootstrap.lock sh -c 'echo 4711 >/run/muster-bootstrap.lock; PATH=$BOX_PATH sh "$S" || echo "status $?"'
touch /run/muster-credential.old "/run/muster-credential.$$.abcdef"; mkdir -p "/var/lib/muster-agent/.bootstrap.$$.x"
KEEPS_RUNNING=yes run sh "$S"; run sh "$S"`)
	if code != 0 || !strings.Contains(out, "another bootstrap runs (4711)") || !strings.Contains(out, "status 75") ||
		strings.Count(out, "done:") != 2 {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.settled(m)
	script := strings.Replace(m.Script, "RESOLVE_ADDRESS=''", "RESOLVE_ADDRESS='127.0.0.1'", 1)
	b = newRootBox(t)
	code, out = b.root(script, `chmod 644 /etc/hosts; for i in 1 2 3 4; do run sh "$S" & done; wait; stat -c %a /etc/hosts`)
	if got := b.left("hosts"); code != 0 || !strings.HasSuffix(got, " # muster-bootstrap\n127.0.0.1 localhost\n") ||
		!strings.HasSuffix(out, "\n644\n") || !strings.Contains(out, "done:") {
		t.Errorf("exit %d, hosts:\n%s\n%s", code, got, out)
	}
}

// TestBootstrapEnvironment: the caller's own MUSTER_ variables do not reach the node.
func TestBootstrapEnvironment(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	b := newRootBox(t)
	code, out := b.root(m.Script, `MUSTER_STATE=/var/lib/elsewhere MUSTER_GATEWAY=https://other MUSTER_API_TOKEN=msa_x MUSTER_ODD='a
MUSTER_X=y' run sh "$S"`)
	if env := b.record("env") + b.record("fetch-env"); code != 0 || strings.Contains(strings.ReplaceAll(env, "BOX_PATH", ""), "\nMUSTER_") {
		t.Errorf("exit %d\n%s\n%s", code, out, env)
	}
	b.settled(m)
}

// TestBootstrapTyping: token files that an editor or a person has spoiled.
func TestBootstrapTyping(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	_, secret, _ := strings.Cut(m.Token, ".")
	script := strings.Replace(m.Script, "SECRET='"+secret+"'", "SECRET=''", 1)
	part, _, _ := strings.Cut(m.Token, ".")
	wide := "\xff\xfe"
	for _, c := range m.Token + "\r\n" {
		wide += string([]byte{byte(c), 0})
	}
	for _, c := range []struct{ name, file, want string }{
		{"byte order mark", "\ufeff" + m.Token + "\r\n", "done:"},
		{"two bytes each", wide, "done:"},
		{"fetch part", part, "what stands behind the dot is missing"},
		{"fetch part and dot", part + ".", "what stands behind the dot is missing"},
		{"cut off", m.Token[:len(m.Token)-1], "mistyped or cut off"},
		{"a character that none has", m.Token[:len(m.Token)-1] + "-", "mistyped or cut off"},
	} {
		b := newRootBox(t)
		file := b.records + "/token"
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out := b.root(script, `mkdir -p /etc/muster; cp "$RECORD/token" /etc/muster/bootstrap-token; run sh "$S"`)
		if !strings.Contains(out, c.want) || (code == 0) != (c.want == "done:") || strings.Contains(out, secret[:20]) {
			t.Errorf("%s: exit %d\n%s", c.name, code, out)
		}
	}
}

// TestBootstrapOverride: the hosts file and cloud-init's templates, as people have left them.
func TestBootstrapOverride(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	h.muster("node", "create", "gpu-7")
	plain := h.bootstrap("gpu-7").Script
	script := strings.Replace(plain, "RESOLVE_ADDRESS=''", "RESOLVE_ADDRESS='192.0.2.7'", 1)
	const line = "192.0.2.7 127.0.0.1 # muster-bootstrap\n"
	const head = "## template:jinja\n"
	for _, c := range []struct{ name, script, hosts, template, want, wantTemplate string }{
		{"no newline at the end", script, `127.0.0.1 localhost`, head + "127.0.1.1 me", line + "127.0.0.1 localhost\n",
			head + line + "127.0.1.1 me\n"},
		{"an older address", script, "127.0.0.1 localhost\n192.0.2.6 127.0.0.1 # muster-bootstrap\n",
			head + "192.0.2.6 127.0.0.1 # muster-bootstrap",
			line + "127.0.0.1 localhost\n", head + line},
		{"another entry", script, "192.0.2.9 127.0.0.1\n", "192.0.2.9 127.0.0.1\n", line + "192.0.2.9 127.0.0.1\n",
			line + "192.0.2.9 127.0.0.1\n"},
		{"no address", plain, "127.0.0.1 localhost\n" + line, head + line + "127.0.1.1 me\n", "127.0.0.1 localhost\n", head + "127.0.1.1 me\n"},
	} {
		b := newRootBox(t)
		write(t, b.records+"/hosts", c.hosts)
		write(t, b.records+"/template", c.template)
		code, out := b.root(c.script,
			`mkdir -p /etc/cloud/templates /etc/real; cat "$RECORD/hosts" >/etc/real/hosts; chmod 664 /etc/real/hosts; ln -sf real/hosts /etc/hosts
cp "$RECORD/template" /etc/cloud/templates/host.mariner.tmpl
run sh "$S"; run sh "$S"; stat -c '%F %a' /etc/hosts /etc/real/hosts; cat /etc/real/hosts >"$RECORD/hosts"; `+
				`cp /etc/cloud/templates/host.mariner.tmpl "$RECORD/template"; ls -A /etc /etc/real | grep bootstrap || :`)
		if code != 0 || b.record("hosts") != c.want || b.record("template") != c.wantTemplate ||
			!strings.HasSuffix(out, "\nsymbolic link 777\nregular file 664\n") {
			t.Errorf("%s: exit %d\n%shosts:\n%stemplate:\n%s", c.name, code, out, b.record("hosts"), b.record("template"))
		}
		if warned := strings.Contains(out, "but this machine takes 127.0.0.1 for 127.0.0.1"); warned != (c.script == script) {
			t.Errorf("%s: warned %v\n%s", c.name, warned, out)
		}
	}
}
