//go:build real

package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrometheus: Debian's Prometheus scrapes a real gateway with two agents, checks its certificate, reads the rules, and finds the nodes
// as targets. The settings are those of `muster help metrics`.
func TestPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("prometheus is not installed")
		}
		t.Skip("not tried: prometheus is not installed here")
	}
	h := newHouse(t, "--trusted-proxy", "192.0.2.1") // so nobody gets in without an account
	h.agent("gpu-1", h.token("--tenant", "platform", "--label", "price_per_hour=1.99"), "--nvidia-smi", smi(t, 2))
	desk := h.agent("desk", h.token(), "--no-gpu")
	s := newScraper(h)
	h.until("online", func() bool { return h.online("gpu-1") && h.online("desk") })
	dir := t.TempDir()
	token := s.account("prometheus")
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("token", token)
	for file, path := range map[string]string{"ca.pem": "/ca.pem", "rules.yaml": "/metrics/alerts.yaml"} {
		given := token
		if file == "ca.pem" {
			given = ""
		}
		status, text := s.get(h.url+path, given)
		if status != 200 {
			t.Fatalf("%s: got %d %s", path, status, text)
		}
		put(file, text)
	}
	put("prometheus.yaml", fmt.Sprintf(prometheusSettings, strings.TrimPrefix(h.url, "https://"), h.url))
	port := freePort(t)
	start(t, "prometheus", []string{"HOME=" + dir}, program, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port))
	p := prometheus{s, fmt.Sprintf("http://127.0.0.1:%d", port)}
	p.await(`up{job="muster"}`, 1)
	p.await(`sum(muster_node_up)`, 2)
	p.await(`sum by (node) (muster_gpu_utilization_ratio)`, 1.98)
	p.await(`count(muster_gateway_build_info)`, 1)
	p.await(`up{job="node",node="gpu-1",tenant="platform"}`, 0) // found as a target, and nothing answers there
	desk.stop()
	p.await(`muster_node_up{node="desk"}`, 0)
	p.await(`count(ALERTS{alertname="MusterNodeStale",node="desk",alertstate="pending"})`, 1)
	if failed := p.value(`scrape_samples_scraped{job="muster"} - scrape_samples_post_metric_relabeling{job="muster"}`); failed != 0 {
		t.Errorf("%v samples were left out", failed)
	}
}

// prometheusSettings take the gateway's address and its URL.
const prometheusSettings = `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: muster
    scheme: https
    authorization: {credentials_file: token}
    tls_config: {ca_file: ca.pem}
    static_configs:
      - targets: ["%s"]
  - job_name: node
    http_sd_configs:
      - url: %s/metrics/targets?port=1&selector=tenant=platform
        refresh_interval: 1s
        authorization: {type: Bearer, credentials_file: token} # without the type, Prometheus 2.42 sends the token alone
        tls_config: {ca_file: ca.pem}
    relabel_configs:
      - {source_labels: [__meta_muster_node], target_label: node}
      - {source_labels: [__meta_muster_tenant], target_label: tenant}
`

// prometheus asks a server that is under way.
type prometheus struct {
	scraper
	url string
}

// value is what the first series of a query says; -1: there is none.
func (p prometheus) value(query string) float64 {
	answer, err := p.http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	var found struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if json.NewDecoder(answer.Body).Decode(&found) != nil || len(found.Data.Result) == 0 {
		return -1
	}
	var value float64
	if _, err := fmt.Sscan(found.Data.Result[0].Value[1].(string), &value); err != nil {
		p.t.Fatal(err)
	}
	return value
}

// await polls: Prometheus is another process.
func (p prometheus) await(query string, want float64) {
	p.t.Helper()
	got := -1.0
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if got = p.value(query); got == want {
			return
		}
	}
	p.t.Fatalf("not within two minutes: %s is %v, want %v", query, got, want)
}
