package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
)

// TestBootstrapLogin: what the script does where the gateway lends no credential.
func TestBootstrapLogin(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--bootstrap-registry", "registry.example:5000")
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("make test needs curl:", err)
	}
	behind := strings.Replace(m.Script, "LOGIN='yes'", "LOGIN=''", 1)
	if behind == m.Script {
		t.Fatal("a gateway that ends its TLS itself does not offer a login")
	}
	const mine = `mkdir -p /var/lib/muster-agent; echo '{"node_id":"` + "NODE" + `"}' >/var/lib/muster-agent/identity.json; `
	for _, c := range []struct {
		name, script, before, code, refused string
		exit                                int
		want                                string
	}{
		{"behind a proxy", behind, "", "", "", 0, "no login: the gateway is behind a proxy"},
		{"none", m.Script, "", "204", "", 0, "no credential is configured: no login"},
		{"refused", m.Script, "", "403", "tls_required", 0, "no login: this gateway lends no credential here (tls_required)"},
		{"an edge's refusal", m.Script, "", "403", "", 0, "no login: this gateway lends no credential here (HTTP 403)"},
		{"used", m.Script, "", "409", "token_used", 1, "mint a new one: muster bootstrap gpu-7"},
		{"expired", m.Script, "", "403", "token_expired", 1, "mint a new one: muster bootstrap gpu-7"},
		{"used by this node", m.Script, mine, "409", "token_used", 0, "no credential any more (token_used): this node is enrolled"},
		{"unknown to this node's gateway", m.Script, mine, "401", "unknown_credential", 0, "no credential any more (unknown_credential)"},
		{"a fault", m.Script, mine, "503", "unavailable", 1, "cannot be fetched: HTTP 503, unavailable"},
		{"nobody there", m.Script, mine, "000", "", 1, "its port to be open"},
		{"no certificates", m.Script, "", "077", "", 1, "its certificate to be of the root in /etc/muster/ca-bundle.crt"},
	} {
		b := newRootBox(t)
		b.env = append(b.env, "CODE="+c.code, "REFUSED="+c.refused)
		b.tool("docker", `echo called >>"$RECORD/docker"`)
		b.tool("curl", `given=$(cat)
case $given in
*registry-credential*)
	echo asked >>"$RECORD/asked"
	while [ $# -gt 0 ]; do
		[ "$1" != -o ] || [ -z "$REFUSED" ] || echo '{"error":{"code":"'"$REFUSED"'","message":"m"}}' >"$2"
		shift
	done
	echo 'curl: msb_secret.secret'  >&2
	printf %s "$CODE"
	case $CODE in 0*) exit 7 ;; esac
	exit 0 ;;
esac
printf '%s\n' "$given" | `+curl+` "$@"`)
		code, out := b.root(c.script, strings.Replace(c.before, "NODE", m.NodeID, 1)+`run sh "$S"`)
		if code != c.exit || !strings.Contains(out, c.want) || (c.exit == 0) != strings.Contains(out, "done:") ||
			strings.Contains(out, "msb_secret") || b.record("docker") != "" {
			t.Errorf("%s: exit %d\n%s", c.name, code, out)
		}
		if asked := b.record("asked") != ""; asked != (c.code != "") {
			t.Errorf("%s: asked with the token: %v", c.name, asked)
		}
		if strings.Contains(b.left("files"), "muster-credential") {
			t.Errorf("%s: left:\n%s", c.name, b.left("files"))
		}
	}
}

// TestBootstrapUnfinished: an install that was begun goes on, unless somebody has installed another runtime by hand.
func TestBootstrapUnfinished(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--bootstrap-install-container-runtime")
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, c := range []struct {
		status string
		goesOn bool
	}{{"half-installed", true}, {"unpacked", true}, {"half-configured", true}, {"installed", true}, {"not-installed", false},
		{"config-files", false}, {"", false}} {
		b := newRootBox(t)
		b.env = append(b.env, "STATUS="+c.status)
		b.tool("docker", `exit 0`)
		b.tool("dpkg-query", `printf %s "$STATUS"; [ -n "$STATUS" ]`)
		b.tool("apt-get", `echo "$*" >>"$RECORD/apt"`)
		code, out := b.root(m.Script, `mkdir -p /var/lib/muster-agent; : >/var/lib/muster-agent/.runtime-begun; run sh "$S"`)
		if code != 0 || strings.Contains(b.record("apt"), "install -y --no-remove") != c.goesOn ||
			strings.Contains(b.left("files"), "runtime-begun") ||
			c.goesOn != strings.Contains(out, "the token ends 15 minutes after") {
			t.Errorf("%s: exit %d, apt-get %s\n%s", c.status, code, b.record("apt"), out)
		}
	}
}

// TestBootstrapDockerCommand: where a distribution has docker's command apart from its daemon, both are installed.
func TestBootstrapDockerCommand(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--bootstrap-install-container-runtime")
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, c := range []struct {
		name, knows, script, want string
	}{
		{"apart", "docker-cli", m.Script, "--no-install-recommends docker.io docker-cli\n"},
		{"together", "docker.io", m.Script, "--no-install-recommends docker.io\n"},
		{"another package", "docker-cli", strings.Replace(m.Script, "PACKAGE='docker.io'", "PACKAGE='podman'", 1),
			"--no-install-recommends podman\n"},
	} {
		b := newRootBox(t)
		b.tool("apt-cache", `[ "$*" = "show `+c.knows+`" ]`)
		b.tool("apt-get", `echo "$*" >>"$RECORD/apt"`) // it brings nothing, so the script ends there
		_, out := b.root(c.script, `run sh "$S"`)
		if !strings.Contains(b.record("apt"), c.want) {
			t.Errorf("%s: apt-get %s\n%s", c.name, b.record("apt"), out)
		}
	}
}

// TestBootstrapGivenUp: a bootstrap that came as far as the login at the registry and failed there can be taken back on the machine, and
// leaves nothing but the registry's trust, which it names.
func TestBootstrapGivenUp(t *testing.T) {
	t.Parallel()
	credential := t.TempDir() + "/credential"
	write(t, credential, "robot:pass word\n")
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	h := agentsHouse(t, carriedAgents(t), "--listen", address, "--public-url", "https://gw.example:"+port,
		"--bootstrap-registry", "registry.example:5000", "--bootstrap-registry-credential", credential,
		"--bootstrap-resolve-address", "127.0.0.1")
	h.muster("node", "create", "gpu-7")
	b := newRootBox(t)
	b.tool("docker", "cat >/dev/null; echo 'no such user' >&2; exit 1")
	const templates = "/etc/cloud/templates"
	code, out := b.root(h.bootstrap("gpu-7").Script, "mkdir -p "+templates+"; rm -f "+templates+`/*; echo '127.0.1.1 me' >`+templates+`/hosts.debian.tmpl
run sh "$S" || :
[ -s /etc/muster/bootstrap-token ] && grep -q muster-bootstrap /etc/hosts && grep -q muster-bootstrap `+templates+`/hosts.debian.tmpl && echo all there
/var/lib/muster-agent/.bootstrap-agent leave
cat /etc/hosts `+templates+`/*
ls -A /etc/muster /var/lib/muster-agent 2>&1 || :`)
	if code != 0 || !strings.Contains(out, "docker cannot log in to registry.example:5000: no such user\n  next: ") ||
		!strings.Contains(out, "all that was put here: /var/lib/muster-agent/.bootstrap-agent leave\nall there\n") ||
		!strings.Contains(out, "stays: /etc/docker/certs.d/registry.example:5000/ca.crt (trust in a registry)") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	_, after, _ := strings.Cut(out, "left: apart from what stays, this machine is as it was before\n")
	if !strings.HasPrefix(after, "127.0.0.1 localhost\n127.0.1.1 me\n") || strings.Count(after, "No such file") != 2 {
		t.Errorf("left behind:\n%s", out)
	}
}
