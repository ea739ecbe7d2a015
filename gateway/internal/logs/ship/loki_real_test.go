//go:build real

package ship_test

import (
	"fmt"
	"io"
	"muster/gateway/api"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const lokiConfig = `auth_enabled: false
server: {http_listen_address: 127.0.0.1, http_listen_port: %d, grpc_listen_address: 127.0.0.1, grpc_listen_port: %d}
common:
  instance_addr: 127.0.0.1
  path_prefix: %s
  storage: {filesystem: {chunks_directory: %[3]s/chunks, rules_directory: %[3]s/rules}}
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
schema_config:
  configs:
    - {from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}
analytics: {reporting_enabled: false}
`

// TestRealLoki pushes to the Loki whose binary LOKI names, and asks it for the lines. If there is none, the other tests push to a server
// that checks what Loki documents.
func TestRealLoki(t *testing.T) {
	program := os.Getenv("LOKI")
	if program == "" {
		t.Skip("LOKI names no binary of Loki")
	}
	folder := t.TempDir()
	config := filepath.Join(folder, "loki.yaml")
	port := freePort(t)
	if err := os.WriteFile(config, fmt.Appendf(nil, lokiConfig, port, freePort(t), folder), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "-config.file="+config)
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait(); _ = log.Close() })
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	h := newHouse(t)
	h.until("a Loki that is ready", func() bool { return strings.HasPrefix(ask(address+"/ready"), "ready") })
	h.rule("prod", api.LogShippingRequest{To: address})
	for at := 1; at <= 300; at += 100 {
		if _, err := h.take("gpu-1", h.batch(int64(at), numbered(at, at+100)...)); err != nil {
			t.Fatal(err)
		}
	}
	h.until("the lines", func() bool { return h.view("prod").Sent == 300 })
	query := url.Values{"query": {`{node="gpu-1",source="agent",tenant="a"} | level="info" | node_id="n-gpu-1"`}, "limit": {"1000"},
		"start": {fmt.Sprint(time.Now().Add(-time.Hour).UnixNano())}}
	h.until("the lines in Loki", func() bool {
		return strings.Count(ask(address+"/loki/api/v1/query_range?"+query.Encode()), "line ") == 300
	})
}

func ask(address string) string {
	answer, err := http.Get(address)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
