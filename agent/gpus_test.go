package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/internal/gpu"
	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// smi is a program that stands for nvidia-smi, and prints the rows in a file beside it.
type smi struct {
	t    *testing.T
	path string
}

func newSMI(t *testing.T, gpus int) smi {
	t.Helper()
	dir := t.TempDir()
	s := smi{t, filepath.Join(dir, "nvidia-smi")}
	script := "#!/bin/sh\ncase $1 in\n--help*) printf '\"%s\"\\n' index uuid name pci.bus_id memory.total memory.used utilization.gpu ;;\n" +
		"--query-gpu*) cat " + dir + "/rows ;;\nesac\n"
	if err := os.WriteFile(s.path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s.show(gpus)
	return s
}

// show makes it print this many GPUs from now on.
func (s smi) show(gpus int) {
	s.t.Helper()
	var rows strings.Builder
	for i := range gpus {
		fmt.Fprintf(&rows, "%d, GPU-0000000%d, NVIDIA H100, 00000000:%d0:00.0, 81559, 4, 0\n", i, i, i+1)
	}
	rows.WriteString("\n")
	place := filepath.Join(filepath.Dir(s.path), "rows")
	if err := os.WriteFile(place+".new", []byte(rows.String()), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(place+".new", place); err != nil {
		s.t.Fatal(err)
	}
}

// beats are the heartbeats since from.
func beats(t *testing.T, g *gatewaytest.Gateway, from int) (all []wire.HeartbeatRequest) {
	t.Helper()
	for _, r := range g.Requests("/heartbeat")[from:] {
		var h wire.HeartbeatRequest
		if err := json.Unmarshal(r.Body, &h); err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	return all
}

// A restart of the agent does not hide a missing GPU: the new run knows which GPUs the run before has seen.
func TestRestartCuresNoGPU(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t)
	url := gatewaytest.Listen(t, g, nil)
	state := filepath.Join(t.TempDir(), "state")
	fake := newSMI(t, 2)
	args := []string{"run", "--gateway", url, "--state", state, "--name", "n", "--interval", "100ms", "--nvidia-smi", fake.path}
	getenv := environment("MUSTER_TOKEN", g.Token(t))
	seen := func(from int, want string) func() bool {
		return func() bool {
			all := beats(t, g, from)
			if len(all) == 0 {
				return false
			}
			last := all[len(all)-1]
			return last.Health != nil && strings.Join(last.Health, " ") == want && last.Hardware != nil
		}
	}
	if code, _, stderr := agent(t, getenv, "", seen(0, ""), args...); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	fake.show(1)
	from := len(g.Requests("/heartbeat"))
	told := func() bool {
		status, err := identity.ReadStatus(state)
		return seen(from, wire.HealthGPUCountDropped)() && err == nil && strings.Contains(status.GPUs, "1 of 2 GPUs answer")
	}
	if code, _, stderr := agent(t, getenv, "", told, args...); code != 0 || !told() {
		t.Fatalf("exit %d, told %t\n%s", code, told(), stderr)
	}
	for i, beat := range beats(t, g, from) {
		if s := beat.Cost.Starts; s == nil || *s.Recent != 2 || *s.Crashes != 0 {
			t.Errorf("beat %d of the second run tells of starts %+v", i, s)
		}
		if beat.Hardware != nil && !strings.Contains(string(beat.Hardware), `"xids":{"state":"`) {
			t.Errorf("beat %d does not tell of the kernel's log", i)
		}
		if beat.Health != nil && len(beat.Health) == 0 {
			t.Errorf("beat %d of the second run says that nothing is wrong", i)
		}
		if text := beat.HealthDetail[wire.HealthGPUCountDropped]; len(beat.Health) > 0 && (!strings.Contains(text,
			"GPU-00000001 at 00000000:20:00.0") || *beat.GPUsSeen != 1) {
			t.Errorf("beat %d: %q, %v seen", i, text, beat.GPUsSeen)
		}
	}
}

// join stores the interval of the looks with the other settings, and leave removes what is known about the GPUs.
func TestJoinKeepsTheGPUPaceAndLeaveForgets(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	before := b.tree()
	fake := newSMI(t, 1)
	b.joined("--no-gpu=false", "--nvidia-smi", fake.path, "--gpu-interval", "90s")
	raw, err := os.ReadFile(filepath.Join(b.root, "etc/muster/agent.env"))
	if err != nil || !strings.Contains(string(raw), "MUSTER_GPU_INTERVAL=1m30s\n") {
		t.Errorf("settings %s, %v", raw, err)
	}
	b.until("the looks have a pace", func() bool { return strings.Contains(string(b.lastBeat().Hardware), `"interval_seconds":90`) })
	for _, name := range []string{gpu.RecordFile, gpu.CallFile} {
		if info, err := os.Stat(filepath.Join(b.base, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if code, out, errs := b.call("leave", "--state", b.base); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if after := b.tree(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

func TestProbeTable(t *testing.T) {
	t.Parallel()
	fake := newSMI(t, 2)
	code, out, errs := agent(t, environment(), "", nil, "probe", "-o", "table", "--state", t.TempDir(), "--nvidia-smi", fake.path)
	for _, want := range []string{"machine       ", "gpu probe     ok in ", "GPU 1  NVIDIA H100  GPU-00000001  00000000:20:00.0",
		"  memory      4/81559 MiB\n",
		"  busy        0%, ", "  temperature not known\n", "  health      nothing is known to be wrong\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if code != 0 || errs != "" || strings.Contains(out, "PCIe") || strings.Contains(out, "null") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, _ = agent(t, environment(), "", nil, "probe", "-o", "table", "--nvidia-smi", fake.path+"x", "--state", t.TempDir())
	if code != 0 || !strings.Contains(out, "gpu probe     absent: there is no "+fake.path+"x") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
