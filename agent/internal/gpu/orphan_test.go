package gpu_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// left starts a call as a killed agent leaves it behind, and returns its process id.
func left(t *testing.T, dir string) int {
	t.Helper()
	p, notes := realProber(t, "sleep")
	p.State = dir
	looking := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(looking)
		p.Probe(ctx)
	}()
	t.Cleanup(func() { cancel(); <-looking })
	recorded := func() bool { // it runs before the record of it is written
		raw, err := os.ReadFile(filepath.Join(dir, gpu.CallFile))
		return err == nil && json.Valid(raw)
	}
	for until := time.Now().Add(30 * time.Second); len(noted(notes)) == 0 || !recorded(); {
		if time.Now().After(until) {
			t.Fatal("it was not started")
		}
		time.Sleep(time.Millisecond)
	}
	return noted(notes)[0]
}

// The next run ends what a killed agent left behind, before it starts anything. A ReadOnly prober does not.
func TestOrphanIsEndedFirst(t *testing.T) {
	dir := t.TempDir()
	pid := left(t, dir)
	guest, _ := realProber(t, "row")
	guest.State = dir
	guest.ReadOnly = true
	guest.Deadline = 100 * time.Millisecond
	got := guest.Probe(t.Context())
	if got.Probe.State != wire.ProbeHung || !strings.Contains(got.Probe.Error, "does not end") || !running(pid) || len(got.GPUs) > 0 {
		t.Errorf("who looks on: %+v, alive %v", got.Probe, running(pid))
	}
	if _, err := guest.Capture(t.Context()); err == nil || !strings.Contains(err.Error(), "does not end") {
		t.Errorf("a capture beside it: %v", err)
	}
	next, _ := realProber(t, "row")
	next.State = dir
	if got := next.Probe(t.Context()); got.Probe.State != wire.ProbeOK || len(got.GPUs) != 1 {
		t.Errorf("the next run: %+v", got.Probe)
	}
	awaitDeath(t, []int{pid})
}

// A call that cannot be ended counts as hung since its deadline, and no other one is started until it is gone.
func TestOrphanThatDoesNotEnd(t *testing.T) {
	dir := t.TempDir()
	wedged := exec.Command("/bin/sleep", "600") // not the leader of a group: killing its group reaches nothing
	if err := wedged.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(wedged.Process.Pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(stat)[strings.LastIndex(string(stat), ")"):])
	since := time.Date(2026, 11, 1, 11, 0, 0, 0, time.UTC)
	write := func(ticks, boot string) {
		raw, _ := json.Marshal(map[string]any{"pid": wedged.Process.Pid, "start_ticks": ticks, "boot_id": strings.TrimSpace(boot),
			"since": since})
		if err := os.WriteFile(filepath.Join(dir, "nvidia-smi.json"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(words[20], string(boot))
	m := newMachine(h100(0))
	p, _ := prober(t, m)
	p.State = dir
	got := p.Probe(t.Context())
	if reasons, _ := got.Health(); got.Probe.State != wire.ProbeHung || !got.Probe.Since.Equal(since.Add(20*time.Second)) ||
		len(reasons) != 1 || m.count("") != 0 {
		t.Errorf("got %+v since %s after %d calls", got.Probe, show(got.Probe.Since), m.count(""))
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p.Probe(short)
	if m.count("") != 0 {
		t.Error("a look that was cut short started a call")
	}
	_ = wedged.Process.Signal(syscall.SIGKILL)
	_ = wedged.Wait()
	if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK {
		t.Errorf("after it ended: %+v", got.Probe)
	}
}

// Another process that has got the same number is left alone.
func TestStrangerIsNotTheOrphan(t *testing.T) {
	stranger := exec.Command("/bin/sleep", "600")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	for _, text := range []string{
		`{"pid":` + itoa(stranger.Process.Pid) + `,"start_ticks":"1","boot_id":"` + strings.TrimSpace(string(boot)) + `"}`,
		`{"pid":` + itoa(stranger.Process.Pid) + `,"start_ticks":"1","boot_id":"x"}`, `{"pid":1}`, `{"pid":-1}`, `{"pid":0}`, "nonsense", "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "nvidia-smi.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _ := prober(t, newMachine(h100(0)))
		p.State = dir
		if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || !running(stranger.Process.Pid) {
			t.Errorf("%q: %+v", text, got.Probe)
		}
	}
}
