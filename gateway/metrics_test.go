package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/client"
)

// scraper reads the metrics of a house as a program would.
type scraper struct {
	*house
	http *http.Client
}

func newScraper(h *house) scraper {
	trust := &tls.Config{InsecureSkipVerify: true} // TestPrometheus checks the chain
	return scraper{h, &http.Client{Transport: &http.Transport{TLSClientConfig: trust}, Timeout: time.Minute}}
}

func (s scraper) account(name string, more ...string) string {
	s.t.Helper()
	var made struct{ Token string }
	text := s.muster(append([]string{"account", "create", name, "--scope", "metrics:read", "-o", "json"}, more...)...)
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Token == "" {
		s.t.Fatalf("account create: %v in %s", err, text)
	}
	return made.Token
}

func (s scraper) get(url, token string) (status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

// TestMetrics: a real gateway with two agents shows them and itself, over TLS and on the socket; an account of a tenant sees
// that tenant, and nobody sees anything without an account.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agent("gpu-1", h.token("--tenant", "platform"), "--nvidia-smi", smi(t, 2))
	h.agent("desk", h.token(), "--no-gpu")
	s := newScraper(h)
	token := s.account("prometheus")
	url := h.url + metrics.Path
	var all string
	h.until("both are up, and the GPUs are seen", func() bool {
		_, all = s.get(url, token)
		return strings.Contains(all, `muster_node_up{node="gpu-1",tenant="platform"} 1`) &&
			strings.Contains(all, `muster_node_up{node="desk",tenant="default"} 1`) &&
			strings.Contains(all, `muster_node_gpus_seen{node="gpu-1",tenant="platform"} 2`) &&
			strings.Contains(all, `muster_events_total{kind="node.enrolled",outcome="ok"} 2`)
	})
	for _, want := range []string{
		`muster_gpu_utilization_ratio{node="gpu-1",tenant="platform",gpu="1",uuid="GPU-00000001-aaaa-bbbb-cccc-0123456789ab",` +
			`model="NVIDIA H100 80GB HBM3"} 0.99`,
		`muster_gateway_database_writable 1`, `muster_tasks{status="queued"} 0`, `certificate="serving"`, `certificate="intermediate"`,
		`certificate="root",pin="sha256:`, `muster_gateway_heartbeats_total `, `muster_gateway_cpu_seconds_total `,
		`muster_gateway_history_limit_bytes `, `muster_gateway_disk_free_bytes `, `muster_gateway_connections{proof="yes"} `,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not in\n%s", want, all)
		}
	}
	for _, never := range []string{"muster_gateway_metrics_failed", "muster_gpu_power_watts", token} {
		if strings.Contains(all, never) {
			t.Errorf("%s is in\n%s", never, all)
		}
	}
	if status, text := s.get(url, s.account("theirs", "--tenant", "platform")); status != 200 || strings.Contains(text, "desk") ||
		strings.Contains(text, "muster_gateway_") || !strings.Contains(text, "gpu-1") {
		t.Errorf("an account of a tenant: got %d\n%s", status, text)
	}
	local := "https://localhost" + url[strings.LastIndexByte(h.url, ':'):]
	for _, path := range []string{"", "/targets"} { // so would strangers come through a tunnel or a container's port
		if status, text := s.get(local+path, ""); status != 401 || strings.Contains(text, "muster_") {
			t.Errorf("%s without an account, from a loopback address to localhost: got %d %.300s", path, status, text)
		}
	}
	targets := regexp.MustCompile(`"targets":\["127\.0\.0\.1:9100"\],"labels":\{.*"__meta_muster_node":"gpu-1"`)
	if status, text := s.get(url+"/targets?port=9100", token); status != 200 || !targets.MatchString(text) {
		t.Errorf("targets: got %d %s", status, text)
	}
	s.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(h.data, client.SocketName))
	}}}
	if status, text := s.get("http://muster"+metrics.Path, ""); status != 200 || !strings.Contains(text, "muster_gateway_") {
		t.Errorf("on the socket: got %d %.300s", status, text)
	}
}
