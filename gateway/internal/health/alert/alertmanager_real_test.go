//go:build real

package alert_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
)

// amAlert is what a real Alertmanager says of an alert.
type amAlert struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
	GeneratorURL        string
	Status              struct{ State string }
}

// TestRealAlertmanager tells Debian's Alertmanager of an alert, and of its end.
func TestRealAlertmanager(t *testing.T) {
	at := startAlertmanager(t)
	n := gpu("gpu-1")
	seen := time.Now().Add(-time.Hour)
	n.LastSeen = &seen
	h := newHouse(t, n, gpu("gpu-2"))
	h.now = time.Now() // a real Alertmanager goes by the real time
	_, err := h.set("am", api.AlertReceiverRequest{Kind: alert.KindAlertmanager, URL: at})
	h.must(err)
	tried, err := h.desk.Test(t.Context(), "am", h.by)
	if err != nil || tried.Error != "" || tried.Status != http.StatusOK {
		t.Fatalf("%+v, error %v", tried, err)
	}
	if got := alertsIn(t, at, condition.NodeStale); len(got) != 0 {
		t.Fatalf("before: %+v", got)
	}
	stale(n)
	h.desk.Round()
	h.now = h.now.Add(time.Minute)
	h.step()
	got := alertsIn(t, at, condition.NodeStale)
	if len(got) != 1 || got[0].Labels["node"] != "gpu-1" || got[0].Labels["severity"] != "warn" || got[0].Labels["tenant"] != "platform" ||
		got[0].Annotations["summary"] == "" || got[0].Annotations["description"] == "" || got[0].Status.State != "active" ||
		got[0].GeneratorURL != "https://gw.example/ui/alerts" || got[0].StartsAt.Sub(seen).Abs() > time.Second ||
		!got[0].EndsAt.After(time.Now()) {
		t.Fatalf("firing: %+v, receiver %+v", got, h.contact("am"))
	}
	h.now = time.Now().Add(-time.Second)
	h.back(n)
	h.nodes = nil // it is retired: that resolves the alert at once
	h.step()
	if got = alertsIn(t, at, condition.NodeStale); len(got) != 0 {
		t.Errorf("resolved: %+v, receiver %+v", got, h.contact("am"))
	}
}

// startAlertmanager runs one on a free port of loopback, with no peers.
func startAlertmanager(t *testing.T) string {
	t.Helper()
	const program = "prometheus-alertmanager"
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	dir := t.TempDir()
	settings := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(settings, []byte("route:\n  receiver: nobody\nreceivers:\n- name: nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "--config.file="+settings, "--storage.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--cluster.listen-address=")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout = log
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); _ = command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-over
		log.Close()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("%s says:\n%s", program, said)
		}
	})
	waitFor(t, func() bool {
		select {
		case <-over:
			t.Fatalf("%s has ended", program)
		default:
		}
		answer, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return "http://" + address
}

// alertsIn are the alerts of a name that an Alertmanager takes for firing.
func alertsIn(t *testing.T, at, name string) []amAlert {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("%s/api/v2/alerts?filter=alertname=%s", at, name))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var all []amAlert
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}
