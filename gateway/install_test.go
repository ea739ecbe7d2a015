package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestInstallPaste pastes what token create prints, in each of its three forms, with a flag behind it.
func TestInstallPaste(t *testing.T) {
	t.Parallel()
	public, roots := publicCertificate(t)
	plain := freeAddress(t)
	for _, c := range []struct {
		name    string
		serve   []string
		want    string
		without string
		env     []string
	}{
		{"public certificate", public, "curl -qfsSL https://", "pinnedpubkey", []string{"CURL_CA_BUNDLE=" + roots}},
		{"own certificate", nil, `curl -fsSLk --pinnedpubkey "sha256//`, "mktemp", nil},
		{"plain HTTP", []string{"--plain-listen", plain, "--public-url", "http://" + plain}, "sha256sum -c -", "pinnedpubkey", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := agentsHouse(t, recorder(t), c.serve...)
			command, token := h.command()
			if !strings.Contains(command, c.want) || strings.Contains(command, c.without) || strings.Contains(command, "\n") {
				t.Fatalf("command: %s", command)
			}
			if text := h.muster("token", "create"); !strings.Contains(text, c.want) {
				t.Errorf("token create does not show the command:\n%s", text)
			}
			b := newBox(t)
			b.env = append(b.env, c.env...)
			b.env = append(b.env, "MUSTER_STATE="+b.state)
			code, out := b.do("", "sh", "-c", command+" --name gpu-7")
			if code != 0 {
				t.Fatalf("exit %d\n%s", code, out)
			}
			argv := b.joined(token)
			if len(argv) != 7 || strings.Join(argv[5:], " ") != "--name gpu-7" || argv[0] != "join" || argv[1] != "--gateway" ||
				!strings.Contains(command, argv[2]+"/install.sh") ||
				argv[3] != "--root-pin" || !strings.HasPrefix(argv[4], "sha256:") {
				t.Errorf("argv: %q", argv)
			}
			if b.token() != token {
				t.Errorf("the agent's MUSTER_TOKEN: %q", b.token())
			}
		})
	}
}

// TestInstallPasteChanged: a script that was changed on its way over plain HTTP does not run.
func TestInstallPasteChanged(t *testing.T) {
	t.Parallel()
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain, "--public-url", "http://"+plain)
	command, _ := h.command()
	changed := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "touch \"$HOME/taken-over\"\n")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go changed.Serve(l)
	defer changed.Close()
	b := newBox(t)
	b.env = append(b.env, "TMPDIR="+b.home)
	code, out := b.do("", "sh", "-c", strings.ReplaceAll(command, plain, l.Addr().String()))
	if left, _ := filepath.Glob(filepath.Join(b.home, "tmp.*")); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	if _, err := os.Stat(filepath.Join(b.home, "taken-over")); code == 0 || err == nil || !strings.Contains(out, "FAILED") {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

// TestInstallShells runs the served script under every shell here, with curl and with wget, as root's and as nobody's PATH
// would have it.
func TestInstallShells(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	script := h.served()
	for _, shell := range shells(t) {
		for _, tool := range []string{"curl", "wget"} {
			t.Run(shell.name+" "+tool, func(t *testing.T) {
				b := newBox(t, tool)
				b.env = append(b.env, "MUSTER_TOKEN=mse_in_environment")
				code, out := b.script(shell, script, "--state", b.state, "--name", "a b", "--label", "x='$(y)'")
				if code != 0 || !strings.Contains(out, "as it should be") {
					t.Fatalf("exit %d\n%s", code, out)
				}
				got := strings.Join(b.joined("mse_in_environment")[3:], "|")
				if !strings.HasSuffix(got, "|--state|"+b.state+"|--name|a b|--label|x='$(y)'") || b.token() != "mse_in_environment" {
					t.Errorf("argv: %s, token %q", got, b.token())
				}
				if mask := b.record("umask"); mask != "0022\n" {
					t.Errorf("the agent's umask: %s", mask)
				}
				if fetched := b.record("fetch-env"); strings.Contains(fetched, "mse_") || fetched == "" && !shell.standalone {
					t.Errorf("the token is in the environment of %s:\n%s", tool, fetched)
				}
			})
		}
	}
}

// TestInstallToken: a token in the arguments of the script goes no further than its environment.
func TestInstallToken(t *testing.T) {
	t.Parallel()
	script := agentsHouse(t, recorder(t)).served()
	for _, args := range [][]string{{"--token", "mse_argument"}, {"--token=mse_argument"}, {"-token", "mse_argument"}} {
		b := newBox(t)
		code, out := b.script(dash, script, append(args, "--state", b.state)...)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, out)
		}
		if argv := strings.Join(b.joined("mse_argument"), " "); strings.Contains(argv, "token") || b.token() != "mse_argument" {
			t.Errorf("%q: argv %s, token %q", args, argv, b.token())
		}
	}
	b := newBox(t)
	file := filepath.Join(b.home, "token")
	code, out := b.script(dash, script, "--token-file", file, "--state="+b.state)
	if argv := strings.Join(b.joined(""), " "); code != 0 || !strings.HasSuffix(argv, " --token-file "+file+" --state="+b.state) {
		t.Errorf("exit %d, argv %s\n%s", code, argv, out)
	}
}

// TestInstallStdin: a token on standard input reaches the agent, whatever else ran before.
func TestInstallStdin(t *testing.T) {
	t.Parallel()
	script := agentsHouse(t, recorder(t)).served()
	for _, tool := range []string{"curl", "wget"} {
		b := newBox(t, tool)
		b.tool("uname", `cat >/dev/null; case "$1" in -s) echo Linux ;; *) echo x86_64 ;; esac`)
		file := filepath.Join(b.records, "install.sh")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out := b.do("mse_piped\n", "sh", file, "--state", b.state, "--token-file", "-")
		if got := b.record("stdin"); code != 0 || got != "mse_piped\n" {
			t.Errorf("%s: exit %d, standard input %q\n%s", tool, code, got, out)
		}
		b.joined("mse_piped")
	}
}

// TestInstallAgain: what is installed already is not fetched again, and the agent's exit status is the script's.
func TestInstallAgain(t *testing.T) {
	t.Parallel()
	agents := recorder(t)
	script := agentsHouse(t, agents).served()
	b := newBox(t, "curl")
	version := filepath.Join(b.state, "versions", "one")
	if err := os.MkdirAll(version, 0o700); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(agents, "linux-amd64", "muster-agent"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(version, "muster-agent"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("versions/one", filepath.Join(b.state, "current")); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "RECORD_EXIT=7")
	code, out := b.script(dash, script, "--state", b.state)
	if path := b.record("path"); code != 7 || strings.TrimSpace(path) != filepath.Join(b.state, "current", "muster-agent") {
		t.Errorf("exit %d, ran %s\n%s", code, path, out)
	}
	if fetched := b.record("fetch-argv"); fetched != "" {
		t.Errorf("fetched all the same:\n%s", fetched)
	}
	if err := os.WriteFile(filepath.Join(version, "muster-agent"), append(raw, '\n'), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out := b.script(dash, script, "--state", b.state); code != 7 || !strings.Contains(b.record("fetch-argv"), "/agent/linux/") {
		t.Errorf("another version: exit %d\n%s", code, out)
	}
}

// TestInstallNoexec: where the agent cannot run on the file system of its state, another folder serves.
func TestInstallNoexec(t *testing.T) {
	t.Parallel()
	script := agentsHouse(t, recorder(t)).served()
	b := newBox(t)
	b.state = filepath.Join(t.TempDir(), "not", "made", "yet")
	b.env = append(b.env, "NOEXEC="+filepath.Dir(filepath.Dir(filepath.Dir(b.state))))
	code, out := b.script(dash, script, "--state", b.state)
	b.joined("")
	if path := b.record("path"); code != 0 || !strings.HasPrefix(path, b.home+"/.muster-install.") {
		t.Errorf("exit %d, ran %s\n%s", code, path, out)
	}
	if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(b.env[len(b.env)-1], "NOEXEC="), ".muster*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	b = newBox(t)
	b.env = append(b.env, "NOEXEC=/")
	code, out = b.script(dash, script, "--state", b.state)
	if code != 1 || !strings.Contains(out, "cannot run from") || !strings.Contains(out, "not here") || !strings.Contains(out, "--state DIR") {
		t.Errorf("nowhere: exit %d\n%s", code, out)
	}
	b.clean("")
}

// TestInstallInterrupted: a script that a signal ends leaves nothing behind.
func TestInstallInterrupted(t *testing.T) {
	t.Parallel()
	script := agentsHouse(t, recorder(t)).served()
	for _, shell := range shells(t) {
		b := newBox(t)
		b.env = append(b.env, "INTERRUPT=1")
		if code, out := b.script(shell, script, "--state", b.state); code != 143 {
			t.Errorf("%s: exit %d\n%s", shell.name, code, out)
		}
		b.joined("")
	}
}

// withAgents names the folder of agents that a test's gateway carries.
const withAgents = "MUSTER_TEST_AGENTS"

// serveAgents is muster serve with other agents than the program's own.
func serveAgents(dir string) int {
	s, err := parseSettings(os.Args[2:], os.Getenv, os.Stderr)
	if err == nil {
		s.agents = os.DirFS(dir)
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = serve(ctx, s, os.Getenv, os.Stdout, os.Stderr)
	}
	return exitOf(err, os.Stderr)
}

// noRuntime keeps bootstrap scripts from installing a container runtime where a test is about something else.
const noRuntime = "--bootstrap-install-container-runtime=false"

func agentsHouse(t *testing.T, agents string, args ...string) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-house-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &house{t: t, data: dir, env: []string{withAgents + "=" + agents},
		args: append([]string{"--listen", "127.0.0.1:0", noRuntime}, args...)}
	h.open()
	return h
}

// carriedAgents is a folder with the real agent for this machine, as a gateway carries it.
func carriedAgents(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(agentBinary(t))
	dir := t.TempDir()
	place := filepath.Join(dir, runtime.GOOS+"-"+runtime.GOARCH)
	if err == nil {
		err = os.Mkdir(place, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(place, "muster-agent"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// command mints a token and gives the command that comes with it.
func (h *house) command() (command, token string) {
	h.t.Helper()
	var made struct{ Command, Token string }
	if err := json.Unmarshal([]byte(h.muster("token", "create", "-o", "json")), &made); err != nil || made.Command == "" {
		h.t.Fatalf("token create: %v, command %q", err, made.Command)
	}
	return made.Command, made.Token
}

// recorder is an agent for both platforms that writes down how it was called.
func recorder(t *testing.T) string {
	t.Helper()
	const script = `#!/bin/sh
if [ "$1" = version ]; then
	case ${NOEXEC:+$0} in "${NOEXEC:-}"?*) echo "not here" >&2; exit 126 ;; esac
	exit 0
fi
if [ "$1" = profile ]; then
	printf '%s\n' "$*" >>"$RECORD/profiles"
	[ "$3" != another ] || exit 1
	exit 0
fi
printf '%s\n' "$@" >"$RECORD/argv"
printf '%s\n' "$0" >"$RECORD/path"
env >"$RECORD/env"
umask >"$RECORD/umask"
[ -z "${INTERRUPT:-}" ] || kill -TERM "$PPID"
case "$*" in *"--token-file -"*) cat >"$RECORD/stdin" ;; esac
if [ -n "${BOX_PATH:-}" ] && [ -z "${RECORD_EXIT:-}" ]; then # in a sandbox: this machine is a node now
	[ -z "${KEEPS_RUNNING:-}" ] || sleep 30 >/dev/null 2>&1 &
	node=${BECOMES:-$(sed -n 's/^MUSTER_NODE_ID=//p' /etc/muster/agent.env)}
	printf '{"version":1,"node_id":"%s"}\n' "$node" >/var/lib/muster-agent/identity.json
fi
exit "${RECORD_EXIT:-0}"
`
	dir := t.TempDir()
	for _, platform := range []string{"linux-amd64", "linux-arm64"} {
		if err := os.MkdirAll(filepath.Join(dir, platform), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, platform, "muster-agent"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// publicCertificate makes a certificate for the loopback address by an authority that only the second result knows.
func publicCertificate(t *testing.T) (flags []string, roots string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "public"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	roots = filepath.Join(dir, "cert.pem")
	private := filepath.Join(dir, "key.pem")
	writePEM(t, roots, der)
	if err := os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--tls-cert", roots, "--tls-key", private}, roots
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// served is the script as the gateway's TLS listener serves it.
func (h *house) served() string {
	h.t.Helper()
	out, err := exec.Command("curl", "-fsSk", h.url+"/install.sh").Output()
	if err != nil {
		h.t.Fatalf("GET /install.sh: %v", err)
	}
	return string(out)
}
