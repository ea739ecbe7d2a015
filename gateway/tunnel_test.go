package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// calmPace is how often an agent reports that must not turn stale on a loaded machine: a stale node gets no session.
const calmPace = "10s"

// process is the program as a process of its own, with this data directory.
func (h *house) process(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], append([]string{"--data", h.data}, args...)...)
	c.Env = append(cleanEnv(), asGateway+"=1")
	return c
}

// noise is a file that cannot be guessed.
func noise(t *testing.T, size int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	rand.Read(content)
	path = filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(path, content, 0o640); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// copies copies a file to the node and back.
func (h *house) copies(node string, size int) {
	h.t.Helper()
	from, content := noise(h.t, size)
	there := filepath.Join(h.t.TempDir(), "there")
	back := filepath.Join(h.t.TempDir(), "back")
	h.muster("node", "cp", from, node+":"+there)
	h.muster("node", "cp", node+":"+there, back)
	for _, path := range []string{there, back} {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, content) {
			h.t.Errorf("%s: %d bytes of %d, %v", path, len(got), size, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
			h.t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// copiesHoles copies a file to the node and back that is larger than what it takes on the disk.
func (h *house) copiesHoles(node string) {
	h.t.Helper()
	from, content := noise(h.t, 1<<20)
	if err := os.Truncate(from, 32<<20); err != nil {
		h.t.Fatal(err)
	}
	content = append(content, make([]byte, 31<<20)...)
	there := filepath.Join(h.t.TempDir(), "there")
	back := filepath.Join(h.t.TempDir(), "back")
	h.muster("node", "cp", from, node+":"+there)
	h.muster("node", "cp", node+":"+there, back)
	for _, path := range []string{there, back} {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, content) {
			h.t.Errorf("%s: %d bytes of %d, %v", path, len(got), len(content), err)
		}
		if info, err := os.Stat(path); err != nil || !pipe.Sparse(info) {
			h.t.Errorf("%s has no holes, %v", path, err)
		}
	}
}

// copiesFolder copies a folder to the node and back, and then once more: nothing is sent.
func (h *house) copiesFolder(node string) {
	h.t.Helper()
	dir := h.t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for i := range 300 {
		path := in(fmt.Sprintf("from/%d/%d", i%7, i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, bytes.Repeat([]byte("x"), i*100), 0o640)); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("0/0", in("from/link")), os.Mkdir(in("there"), 0o755), os.Mkdir(in("back"), 0o755)); err != nil {
		h.t.Fatal(err)
	}
	for _, more := range []string{" bytes copied", "; 300 were there already"} {
		for _, said := range []string{
			h.muster("node", "cp", "-r", in("from"), node+":"+in("there")), h.muster("node", "cp", "-r", node+":"+in("there/from"), in("back")),
		} {
			if !strings.Contains(said, ": 300 files, ") || !strings.HasSuffix(said, more+"\n") {
				h.t.Error(said)
			}
		}
	}
	for i := range 300 {
		path := in(fmt.Sprintf("back/from/%d/%d", i%7, i))
		got, err := os.ReadFile(path)
		info, stat := os.Stat(path)
		if err != nil || stat != nil || len(got) != i*100 || info.Mode() != 0o640 {
			h.t.Errorf("%s: %d bytes, %v, %v", path, len(got), info, err)
		}
	}
	if to, err := os.Readlink(in("back/from/link")); err != nil || to != "0/0" {
		h.t.Errorf("the link leads to %q, %v", to, err)
	}
}

// upper is a server that gives back what it got in upper case. It gives its port.
func upper(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				all, _ := io.ReadAll(conn)
				_, _ = conn.Write(bytes.ToUpper(all))
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// proxies carries bytes to a server on the node and back.
func (h *house) proxies(node, port string) {
	h.t.Helper()
	question := strings.Repeat("a question of some length\n", 30_000)
	c := h.process("node", "proxy", node, port)
	c.Stdin = strings.NewReader(question)
	var errs bytes.Buffer
	c.Stderr = &errs
	got, err := c.Output()
	if err != nil || string(got) != strings.ToUpper(question) {
		h.t.Errorf("%d bytes of %d, %v\n%s", len(got), len(question), err, errs.String())
	}
}

// forwards carries many connections at once, in rounds: a page of a browser asks for many things, and so does the next one.
func (h *house) forwards(node, port string, rounds, many int) {
	h.t.Helper()
	forward := start(h.t, "forward", []string{asGateway + "=1"}, os.Args[0], "--data", h.data, "node", "forward", node, "0:"+port)
	address, _, _ := strings.Cut(forward.await(" leads to port "), " ")
	lasting, err := net.Dial("tcp", address)
	if err != nil {
		h.t.Fatal(err)
	}
	defer lasting.Close()
	for range rounds {
		began := time.Now()
		var all sync.WaitGroup
		for n := range many {
			all.Go(func() { h.asks(address, strings.Repeat(fmt.Sprintf("hello %d ", n), 1+n*10)) })
		}
		all.Wait()
		h.t.Logf("%d connections in %s", many, time.Since(began))
	}
	h.finishes(lasting, "still here")
	forward.stop()
}

// asks makes one connection, and has its text back in upper case.
func (h *house) asks(address, text string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer conn.Close()
	h.finishes(conn, text)
}

func (h *house) finishes(conn net.Conn, text string) {
	_, err := io.WriteString(conn, text)
	if err == nil {
		err = conn.(*net.TCPConn).CloseWrite()
	}
	got, _ := io.ReadAll(conn)
	if err != nil || string(got) != strings.ToUpper(text) {
		h.t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
}

// TestTunnel: files and connections go to a node and back, over its own connection.
func TestTunnel(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("one", h.token(), "--no-gpu", "--interval", calmPace)
	h.until("online", func() bool { return h.online("one") })
	h.copies("one", 0)
	h.copies("one", 3<<20)
	h.copiesHoles("one")
	h.copiesFolder("one")
	port := upper(t)
	h.proxies("one", port)
	h.forwards("one", port, 3, 2*wire.MaxConnections)
	if code, _, stderr := h.try("node", "cp", "one:/nowhere/at/all", t.TempDir()); code != 1 ||
		!strings.Contains(stderr, "there is no /nowhere") {
		t.Errorf("%d\n%s", code, stderr)
	}
	if code, _, stderr := h.try("node", "cp", "one:/etc", t.TempDir()); code != 1 || !strings.Contains(stderr, "-r copies a folder") {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// TestTunnelBuffered: a proxy that holds back every request and every answer until it is whole changes nothing.
func TestTunnelBuffered(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	origin, err := url.Parse("http://" + strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: "))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { buffer(w, r, origin) }))
	defer proxy.Close()
	roots := filepath.Join(h.data, "proxy.pem")
	writePEM(t, roots, proxy.Certificate().Raw)
	h.url = proxy.URL
	start(t, "agent behind", []string{"SSL_CERT_FILE=" + roots, "MUSTER_TOKEN=" + h.token()}, agentBinary(t),
		"run", "--gateway", proxy.URL, "--name", "behind", "--state", filepath.Join(h.data, "agent-behind"), "--interval", calmPace, "--no-gpu")
	h.until("online through the proxy", func() bool { return h.online("behind") })
	h.copies("behind", 3<<20)
	port := upper(t)
	h.proxies("behind", port)
	h.forwards("behind", port, 2, 100)
}

// buffer passes a request on when it is whole, and its answer too.
func buffer(w http.ResponseWriter, r *http.Request, origin *url.URL) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	onward, err := http.NewRequestWithContext(r.Context(), r.Method, origin.String()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return
	}
	onward.Header = r.Header.Clone()
	onward.Host = r.Host
	answer, err := http.DefaultTransport.RoundTrip(onward)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	whole, err := io.ReadAll(answer.Body)
	if err != nil {
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(whole)
}
