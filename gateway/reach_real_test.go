//go:build real

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

// toolTime is how long a foreign program may take. It is for one that hangs.
const toolTime = 3 * time.Minute

// needs gives a test up where the machine lacks a program that it drives.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // servers are there
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed", program)
		}
		t.Skipf("not tried: %s is not installed here", program)
	}
}

// does runs a foreign program, with this test's binary as muster. It gives what the program wrote, and how it ended.
func (h *house) does(stdin []byte, program string, args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), toolTime)
	defer stop()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(cleanEnv(), asGateway+"=1")
	c.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	c.Stdout = &out
	c.Stderr = &errs
	err := c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		h.t.Fatalf("%s: %v\n%s", program, err, errs.String())
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// well is does for a program that must succeed.
func (h *house) well(program string, args ...string) string {
	h.t.Helper()
	out, errs, code := h.does(nil, program, args...)
	if code != 0 {
		h.t.Fatalf("%s %s: exit %d\n%s%s", program, strings.Join(args, " "), code, out, errs)
	}
	return out
}

// TestReachSSH: OpenSSH's programs and rsync reach an sshd on the node's loopback address, and do not notice what is between.
func TestReachSSH(t *testing.T) {
	needs(t, "ssh", "scp", "ssh-keygen", "sshd", "rsync", "diff")
	h := newHouse(t)
	h.agent("one", h.token(), "--no-gpu", "--interval", calmPace)
	h.until("online", func() bool { return h.online("one") })
	config := h.sshd("one")
	out, errs, code := h.does([]byte("some input"), "ssh", "-F", config, "one", "cat; echo told >&2; exit 42")
	if out != "some input" || errs != "told\n" || code != 42 {
		t.Errorf("ssh: %q, %q, exit %d", out, errs, code)
	}
	from, content := noise(t, 20<<20)
	there := filepath.Join(t.TempDir(), "there")
	back := filepath.Join(t.TempDir(), "back")
	h.well("scp", "-F", config, from, "one:"+there)
	h.well("scp", "-F", config, "one:"+there, back)
	for _, path := range []string{there, back} {
		got, err := os.ReadFile(path)
		if err != nil || sha256.Sum256(got) != sha256.Sum256(content) {
			t.Errorf("scp: %s is another file of %d bytes, %v", path, len(got), err)
		}
	}
	h.rsync(config)
	h.until("the node keeps no session whose ssh has ended", func() bool {
		return !strings.Contains(h.muster("session", "ls"), "open")
	})
}

// rsync brings a folder to the node and back, and then what has changed.
func (h *house) rsync(config string) {
	h.t.Helper()
	from, there, back := h.t.TempDir(), h.t.TempDir(), h.t.TempDir()
	put := func(name string, size int) {
		h.t.Helper()
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, bytes.Repeat([]byte(name), size), 0o600)); err != nil {
			h.t.Fatal(err)
		}
	}
	for i := range 50 {
		put(fmt.Sprintf("folder %d/file %d", i%5, i), i*1000)
	}
	put("gone", 1)
	for range 2 {
		h.well("rsync", "-a", "--delete", "-e", "ssh -F "+config, from+"/", "one:"+there+"/")
		h.well("rsync", "-a", "--delete", "-e", "ssh -F "+config, "one:"+there+"/", back+"/")
		for _, path := range []string{there, back} {
			h.well("diff", "-r", from, path)
		}
		put("folder 1/new", 10_000)
		if err := os.Remove(filepath.Join(from, "gone")); err != nil {
			h.t.Fatal(err)
		}
		put("gone", 0) // so that it can be removed again
	}
}

// sshd starts a server for this user alone on a loopback port, with keys of its own. It gives the client's configuration: the host's key is
// known, and so nothing but this server is taken for the node.
func (h *house) sshd(node string) (config string) {
	h.t.Helper()
	me, err := user.Current()
	if err != nil {
		h.t.Fatal(err)
	}
	privilegeFolder(h.t)
	dir := h.t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"host", "mine"} {
		h.well("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", in(name))
	}
	port := freePort(h.t)
	key, err := os.ReadFile(in("host.pub"))
	if err != nil {
		h.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nPidFile none\n"+
			"UsePAM no\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n", port, in("host"), in("mine.pub")),
		"known": fmt.Sprintf("[%s]:%d %s", node, port, key),
		"ssh_config": fmt.Sprintf("Host %s\nPort %d\nUser %s\nIdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\n"+
			"StrictHostKeyChecking yes\nProxyCommand %s --data %s node proxy %%h %d\n", node, port, me.Username, in("mine"), in("known"),
			paste.Quote(os.Args[0]), paste.Quote(h.data), port),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	program, err := exec.LookPath("sshd") // it starts itself anew, and wants a whole path for that
	if err != nil {
		h.t.Fatal(err)
	}
	start(h.t, "sshd", nil, program, "-D", "-e", "-f", in("sshd_config")).await("Server listening on")
	return in("ssh_config")
}

// TestReachExec: what a program reads and writes is what the command here reads and writes, byte for byte, and its exit code is too. Lines
// of several nodes have the node's name.
func TestReachExec(t *testing.T) {
	needs(t, "sh", "cat")
	h := newHouse(t)
	for _, name := range []string{"one", "two"} {
		h.agent(name, h.token(), "--no-gpu", "--interval", calmPace)
	}
	h.until("online", func() bool { return h.online("one") && h.online("two") })
	_, content := noise(t, 10<<20)
	out, errs, code := h.does(content, os.Args[0], "--data", h.data, "node", "exec", "one", "--", "sh", "-c", "cat; echo told >&2; exit 7")
	if out != string(content) || errs != "told\n" || code != 7 {
		t.Errorf("%d bytes of %d, %q, exit %d", len(out), len(content), errs, code)
	}
	out, errs, code = h.does(nil, os.Args[0], "--data", h.data, "node", "exec", "one", "two", "--yes", "--", "sh", "-c",
		"echo a line; echo told >&2")
	for _, line := range []string{"one: a line\n", "two: a line\n"} {
		if strings.Count(out, line) != 1 {
			t.Errorf("%q has not one line %q", out, line)
		}
	}
	for _, text := range []string{"one: told\n", "two: told\n", "exit 0"} {
		if !strings.Contains(errs, text) {
			t.Errorf("%q lacks %q", errs, text)
		}
	}
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	t.Logf("a key's echo over mTLS, median: %s", h.echo("one"))
}

// TestReachNginx: a real proxy ends TLS before the gateway, and holds requests and answers back, or streams them. The agent signs.
func TestReachNginx(t *testing.T) {
	needs(t, "nginx")
	for _, buffering := range []string{"on", "off"} {
		t.Run("buffering "+buffering, func(t *testing.T) {
			h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
			origin := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
			var roots string
			h.url, roots = h.nginx(origin, buffering)
			h.agentWith([]string{"SSL_CERT_FILE=" + roots}, agentBinary(t), "behind", h.token(), "--no-gpu", "--interval", calmPace)
			h.until("online through nginx", func() bool { return h.online("behind") })
			h.copies("behind", 5<<20)
			t.Logf("a key's echo, median: %s", h.echo("behind"))
		})
	}
}

// nginx starts one before a gateway. It gives its URL, and a file with the root of its certificate.
func (h *house) nginx(origin, buffering string) (url, roots string) {
	h.t.Helper()
	flags, roots := publicCertificate(h.t)
	dir := h.t.TempDir()
	var paths string
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("%s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	owner := ""
	if os.Getuid() == 0 {
		owner = "user root;\n" // its workers write into this folder
	}
	port := freePort(h.t)
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxSettings, owner, filepath.Join(dir, "pid"), paths, buffering, buffering, port, flags[1], flags[3], origin)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	p := start(h.t, "nginx", nil, "nginx", "-p", dir, "-c", config, "-e", "stderr")
	h.t.Cleanup(p.stop) // its worker ends too
	p.await("start worker processes")
	return fmt.Sprintf("https://127.0.0.1:%d", port), roots
}

// nginxSettings are as few as a proxy before a gateway needs. What they leave out is as nginx has it.
const nginxSettings = `daemon off;
worker_processes 1;
error_log stderr notice;
%spid %s;
events {}
http {
	access_log off;
	%s
	proxy_buffering %s;
	proxy_request_buffering %s;
	server {
		listen 127.0.0.1:%d ssl;
		ssl_certificate %s;
		ssl_certificate_key %s;
		location / {
			proxy_pass http://%s;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_read_timeout 90s;
		}
	}
}
`

// echo types keys into a terminal on a node, one after the other is seen. It gives the time from a key to its echo, in the middle.
func (h *house) echo(node string) time.Duration {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), toolTime)
	defer stop()
	c, err := client.Dial(ctx, client.Target{DataDir: h.data})
	if err != nil {
		h.t.Fatal(err)
	}
	params, err := json.Marshal(wire.ShellParams{Command: []string{"cat"}, Rows: 24, Columns: 80})
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := remote.Open(ctx, c, node, api.SessionAsk{Type: wire.SessionShell, Params: params})
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Leave()
	if _, err = s.Begin(); err != nil {
		h.t.Fatal(err)
	}
	var all []float64
	for range 60 {
		began := time.Now()
		if err := s.Send(pipe.FrameInput, []byte("x")); err != nil {
			h.t.Fatal(err)
		}
		if kind, data, err := s.Next(); err != nil || kind != pipe.FrameOutput || string(data) != "x" {
			h.t.Fatalf("%c %q, %v", kind, data, err)
		}
		all = append(all, float64(time.Since(began)))
	}
	return time.Duration(median(all)).Round(time.Microsecond)
}
