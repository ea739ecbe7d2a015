package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
)

// recorded keeps the bodies that an agent sends through it on their way to a gateway.
type recorded struct {
	mu         sync.Mutex
	heartbeats [][]byte
	registers  [][]byte
}

func (c *recorded) keep(path string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case path == wire.PathRegister:
		c.registers = append(c.registers, body)
	case strings.HasSuffix(path, "/heartbeat"):
		c.heartbeats = append(c.heartbeats, body)
	}
}

// check wants every body to be read in one pass, and counts the heartbeats with a look at the GPUs behind them and those before it.
func (c *recorded) check(t *testing.T) (looked, unlooked int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.registers {
		if nonce, ok := reading.Nonce(body); !ok || nonce == "" {
			t.Errorf("a register request is not read in one pass: %s", body)
		}
	}
	for _, body := range c.heartbeats {
		b, err := reading.ParseHeartbeat(body)
		if err != nil || !b.Scanned || !b.AgentFits || !b.CostFits || len(b.Hardware) > 0 && !b.HardwareFits {
			t.Fatalf("a heartbeat is not read in one pass: %v, %+v\n%s", err, b, body)
		}
		if b.Update == nil || b.Update.Channel == "" {
			t.Fatalf("a heartbeat says nothing of releases: %s", body)
		}
		if b.Seen.GPUs > 0 {
			looked++
		} else {
			unlooked++
		}
	}
	return looked, unlooked
}

// TestFastPath: the gateway reads all that a real agent sends in one pass, before the agent's first reading of its GPUs and after it. A
// field that is new in the agent has to be added to reading.Heartbeat's pass too.
func TestFastPath(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	origin, err := url.Parse("http://" + strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: "))
	if err != nil {
		t.Fatal(err)
	}
	var sent recorded
	forward := httputil.NewSingleHostReverseProxy(origin)
	proxy := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		sent.keep(r.URL.Path, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	roots := filepath.Join(h.data, "proxy.pem")
	writePEM(t, roots, proxy.Certificate().Raw)
	slow, answer := waitingSMI(t)
	start(t, "agent fast", []string{"SSL_CERT_FILE=" + roots, "MUSTER_TOKEN=" + h.token()}, agentBinary(t), "run", "--gateway", proxy.URL,
		"--name", "fast", "--state", filepath.Join(h.data, "agent-fast"), "--interval", "200ms", "--nvidia-smi", slow)
	h.until("a heartbeat before the first look", func() bool { _, unlooked := sent.check(t); return unlooked > 0 })
	answer()
	h.until("a heartbeat with a reading", func() bool { looked, _ := sent.check(t); return looked > 0 })
}

// waitingSMI is an nvidia-smi that answers when it is told to.
func waitingSMI(t *testing.T) (path string, answer func()) {
	t.Helper()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	path = filepath.Join(dir, "nvidia-smi")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ -e " + pipe + " ] && cat " + pipe + " >/dev/null\nexec " + smi(t, 2) + ` "$@"` + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		waiting, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err == nil {
			err = os.Remove(pipe)
		}
		if err != nil {
			t.Fatal(err)
		}
		waiting.Close()
	}
}
