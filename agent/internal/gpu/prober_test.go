package gpu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

func TestEightGPUs(t *testing.T) {
	m := newMachine()
	for i := range 8 {
		m.gpus = append(m.gpus, h100(i))
	}
	p, c := prober(t, m)
	if state := p.Reading().Probe.State; state != "" {
		t.Errorf("before the first look: got state %q, want none", state)
	}
	var h wire.Hardware
	p.Probe(t.Context()).Fill(&h)
	if len(h.GPUs) != 8 || h.Probe.State != wire.ProbeOK || h.Probe.Error != "" || show(h.GPUsExpected) != "8" {
		t.Errorf("got %d GPUs of %s, %+v", len(h.GPUs), show(h.GPUsExpected), h.Probe)
	}
	if h.Probe.Since == nil || !h.Probe.Since.Equal(c.at) || !h.Probe.SampledAt.Equal(c.at) || h.Probe.TookMS == nil {
		t.Errorf("got times %s %s took %s, want %v", show(h.Probe.Since), show(h.Probe.SampledAt), show(h.Probe.TookMS), c.at)
	}
	c.advance(30 * time.Second)
	p.Probe(t.Context()).Fill(&h)
	if h.Probe.Since.Equal(c.at) || !h.Probe.SampledAt.Equal(c.at) {
		t.Errorf("second look: got since %v sampled %v, want an older since and a sample of %v", h.Probe.Since, h.Probe.SampledAt, c.at)
	}
}

func TestFailures(t *testing.T) {
	tests := []struct {
		name string
		out  gpu.Output
		want []string // parts of the error
	}{
		{"driver not loaded", gpu.Output{Code: 9, Stdout: []byte("NVIDIA-SMI has failed because it couldn't communicate with " +
			"the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n")},
			[]string{"ended with 9: NVIDIA-SMI has failed", "modprobe nvidia"}},
		{"mismatch", gpu.Output{Code: 18, Stdout: []byte("Failed to initialize NVML: Driver/library version mismatch\n" +
			"NVML library version: 535.161\n")}, []string{"ended with 18", "version mismatch", "restart the machine"}},
		{"container lost its devices", gpu.Output{Code: 255, Stderr: []byte("Failed to initialize NVML: Unknown Error\n")},
			[]string{"ended with 255: Failed to initialize NVML: Unknown Error", "must be restarted"}},
		{"no devices", gpu.Output{Code: 6, Stdout: []byte("No devices were found\n")},
			[]string{"ended with 6: No devices were found", "lspci"}},
		{"no devices and exit 0", gpu.Output{Stdout: []byte("No devices were found\n")},
			[]string{"nvidia-smi: No devices were found", "lspci"}},
		{"bad argument", gpu.Output{Code: 2, Stderr: []byte("Option \"--format=csv\" is not recognized.\n")},
			[]string{"ended with 2: Option"}},
		{"library missing", gpu.Output{Code: 12, Stdout: []byte("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n")},
			[]string{"ended with 12", "libraries"}},
		{"not permitted", gpu.Output{Code: 4, Stdout: []byte("Failed to initialize NVML: Insufficient Permissions\n")},
			[]string{"ended with 4", "/dev/nvidia"}},
		{"every GPU lost", gpu.Output{Code: 15, Stderr: []byte("Unable to determine the device handle for GPU0: 0000:01:00.0: GPU is lost.  " +
			"Reboot the system to recover this GPU\n")}, []string{"GPU0: 0000:01:00.0", "Xid"}},
		{"silent, power cables", gpu.Output{Code: 8}, []string{"ended with 8: it did not say why", "power cables"}},
		{"silent, not permitted", gpu.Output{Code: 4}, []string{"ended with 4", "/dev/nvidia"}},
		{"silent, not loaded", gpu.Output{Code: 9}, []string{"ended with 9", "modprobe"}},
		{"silent, library missing", gpu.Output{Code: 12}, []string{"ended with 12", "libraries"}},
		{"silent, fell off the bus", gpu.Output{Code: 15}, []string{"ended with 15", "Xid"}},
		{"silent", gpu.Output{}, []string{"it printed no GPU"}},
		{"crashed", gpu.Output{Code: -1, Signal: "segmentation fault"}, []string{"segmentation fault"}},
		{"requires reset", gpu.Output{Code: 255, Stderr: []byte("GPU 0000:01:00.0 requires reset\n")}, []string{"--gpu-reset"}},
		{"cannot be started", gpu.Output{Err: os.ErrNotExist}, []string{"cannot be started", "loader"}},
		{"must not be started", gpu.Output{Err: os.ErrPermission}, []string{"cannot be started", "execute"}},
		{"not a program", gpu.Output{Err: context.Canceled}, []string{"cannot be started: context canceled"}},
		{"endless line", gpu.Output{Code: 255, Stderr: []byte(strings.Repeat("é\a", 500))}, []string{"ended with 255: é", "..."}},
		{"rows of the wrong width", gpu.Output{Stdout: []byte("0, GPU-a, NVIDIA H100, 1\n")},
			[]string{"row 1 of the answer has 4 values instead of 16: 0, GPU-a"}},
		{"row without an index", gpu.Output{Stdout: []byte(strings.Repeat("x,", 15) + "x\n")},
			[]string{"row 1 of the answer does not begin with a GPU's index"}},
		{"far too many rows", gpu.Output{Stdout: []byte(strings.Repeat("0, a\n", 300))}, []string{"row 1 of the answer has 2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(h100(0), h100(1))
			p, c := prober(t, m)
			before := p.Probe(t.Context())
			sampled := c.at
			c.advance(time.Minute)
			m.change(func(m *machine) { m.answer = &test.out })
			got := p.Probe(t.Context())
			for _, part := range test.want {
				if !strings.Contains(got.Probe.Error, part) {
					t.Errorf("got error %q, want it to contain %q", got.Probe.Error, part)
				}
			}
			if len(got.Probe.Error) > 300 || strings.ContainsAny(got.Probe.Error, "\a\n") {
				t.Errorf("got an error of %d bytes: %q", len(got.Probe.Error), got.Probe.Error)
			}
			if got.Probe.State != wire.ProbeFailed || !got.Probe.Since.Equal(c.at) {
				t.Errorf("got %s since %v, want failed since %v", got.Probe.State, got.Probe.Since, c.at)
			}
			if len(got.GPUs) != len(before.GPUs) || !got.Probe.SampledAt.Equal(sampled) {
				t.Errorf("got %d rows of %v, want the last %d of %v", len(got.GPUs), got.Probe.SampledAt, len(before.GPUs), sampled)
			}
			m.change(func(m *machine) { m.answer = nil })
			if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || got.Probe.Error != "" {
				t.Errorf("after the cure: got %s (%s), want ok", got.Probe.State, got.Probe.Error)
			}
		})
	}
}

func TestMissingGPUs(t *testing.T) {
	const lost = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
	columns := strings.Split("index,uuid,name,pci.bus_id,driver_version,mig.mode.current,memory.total,memory.used,utilization.gpu,"+
		"temperature.gpu,power.draw,enforced.power.limit,ecc.errors.uncorrected.volatile.total,remapped_rows.pending,"+
		"remapped_rows.failure,gpu_recovery_action", ",")
	first := row(columns, h100(0)) + "\n"
	second := row(columns, h100(1)) + "\n"
	tests := []struct {
		name     string
		expected int
		before   int // GPUs at an earlier look
		out      gpu.Output
		want     string // the error's beginning; empty: ok
		seen     string // GPUsExpected
	}{
		{"all", 2, 0, gpu.Output{Stdout: []byte(first + second)}, "", "2"},
		{"more than expected", 1, 0, gpu.Output{Stdout: []byte(first + second)}, "", "2"},
		{"one lost, exit 0", 2, 0, gpu.Output{Stdout: []byte(first), Stderr: []byte(lost)}, "1 of 2 GPUs answer: nvidia-smi: Unable", "2"},
		{"one lost, named on stdout", 2, 0, gpu.Output{Stdout: []byte(lost + first)}, "1 of 2 GPUs answer: nvidia-smi: Unable", "2"},
		{"one lost before the first look", 0, 0, gpu.Output{Stdout: []byte(first), Stderr: []byte(lost)}, "1 of 2 GPUs answer", "2"},
		{"one lost, exit 255", 0, 2, gpu.Output{Code: 255, Stdout: []byte(first), Stderr: []byte(lost)},
			"1 of 2 GPUs answer: nvidia-smi ended with 255: Unable", "2"},
		{"fewer than before, no word", 0, 2, gpu.Output{Stdout: []byte(first)}, "1 of 2 GPUs answer: nvidia-smi does not say why", "2"},
		{"fewer than the credential says", 4, 0, gpu.Output{Stdout: []byte(first + second)}, "2 of 4 GPUs answer", "4"},
		{"one row broken", 2, 0, gpu.Output{Stdout: []byte(first + "1, NVIDIA, Inc\n")},
			"1 of 2 GPUs answer: nvidia-smi: row 2 of the answer has 3 values instead of 16", "2"},
		{"a warning is no failure", 1, 0, gpu.Output{Stdout: []byte(first), Stderr: []byte("WARNING: infoROM is corrupted\n")},
			"nvidia-smi: WARNING: infoROM is corrupted", "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine()
			for i := range test.before {
				m.gpus = append(m.gpus, h100(i))
			}
			p, c := prober(t, m)
			p.Expected = test.expected
			if test.before > 0 {
				p.Probe(t.Context())
				c.advance(time.Minute)
			}
			m.change(func(m *machine) { m.answer = &test.out })
			got := p.Probe(t.Context())
			want := wire.ProbeFailed
			if test.want == "" || strings.Contains(test.want, "WARNING") {
				want = wire.ProbeOK
			}
			if got.Probe.State != want || !strings.HasPrefix(got.Probe.Error, test.want) || test.want == "" && got.Probe.Error != "" {
				t.Errorf("got %s %q, want %s %q", got.Probe.State, got.Probe.Error, want, test.want)
			}
			rows := strings.Count(string(test.out.Stdout), "H100")
			if len(got.GPUs) != rows || !got.Probe.SampledAt.Equal(c.at) || show(got.GPUsExpected) != test.seen {
				t.Errorf("got %d rows of %v, %s expected; want %d fresh, %s", len(got.GPUs), got.Probe.SampledAt,
					show(got.GPUsExpected), rows, test.seen)
			}
		})
	}
}

func TestAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	m := newMachine(h100(0))
	p, _ := prober(t, m)
	p.Path = path
	got := p.Probe(t.Context())
	if got.Probe.State != wire.ProbeAbsent || !strings.Contains(got.Probe.Error, path) || len(got.GPUs) != 0 || got.GPUsExpected != nil {
		t.Errorf("got %+v, %d GPUs, want absent", got.Probe, len(got.GPUs))
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeFailed || !strings.Contains(got.Probe.Error, "permission denied") {
		t.Errorf("not executable: got %+v, want failed", got.Probe)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := p.Probe(t.Context()); got.Probe.State != wire.ProbeOK || len(got.GPUs) != 1 {
		t.Errorf("installed: got %+v, %d GPUs, want one", got.Probe, len(got.GPUs))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	got = p.Probe(t.Context())
	if got.Probe.State != wire.ProbeAbsent || len(got.GPUs) != 1 || !strings.Contains(got.Probe.Error, "1 GPUs are expected") {
		t.Errorf("removed: got %+v, %d GPUs, want absent with the last row", got.Probe, len(got.GPUs))
	}
}

// Without a path the program is looked up by its name. The memory of a GB10 is read from this machine's own files.
func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	m := newMachine(map[string]string{"index": "0", "uuid": "GPU-a", "name": "NVIDIA GB10"})
	p := gpu.Prober{Exec: m.exec}
	got := p.Probe(t.Context())
	if len(got.GPUs) != 1 || got.GPUs[0].MemoryTotalMiB == nil || got.GPUs[0].MemorySource != wire.MemoryUnified {
		t.Errorf("got %+v, %+v", got.Probe, got.GPUs)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Now = nil
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			time.Sleep(6 * time.Second)
			return m.exec(ctx, call)
		}
		got := p.Probe(t.Context())
		if got.Probe.State != wire.ProbeSlow || show(got.Probe.TookMS) != "6000" || len(got.GPUs) != 1 ||
			!strings.Contains(got.Probe.Error, "6.0 s") {
			t.Errorf("got %+v took %s, want slow in 6000 ms", got.Probe, show(got.Probe.TookMS))
		}
	})
}

// No signal ends this nvidia-smi: it is reported, readers get their answer at once, and no other one is started.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Now = nil
		var stuck atomic.Bool
		var alive, most atomic.Int32
		release := make(chan struct{})
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			if !stuck.Load() {
				return m.exec(ctx, call)
			}
			most.Store(max(most.Load(), alive.Add(1)))
			defer alive.Add(-1)
			<-release
			return gpu.Output{Code: -1, Stopped: true}
		}
		p.Probe(t.Context())
		stuck.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		go p.Run(ctx, 10*time.Second, nil)

		time.Sleep(19 * time.Second)
		if got := p.Reading().Probe; got.State != wire.ProbeOK {
			t.Errorf("before the deadline: got %s, want the last state", got.State)
		}
		time.Sleep(2 * time.Second)
		if got := p.Reading(); got.Probe.State != wire.ProbeHung || len(got.GPUs) != 1 {
			t.Errorf("after the deadline: got %s with %d rows, want hung with the last row", got.Probe.State, len(got.GPUs))
		}
		time.Sleep(time.Hour)
		got := p.Reading().Probe
		if !got.Since.Equal(began.Add(20*time.Second)) || !strings.Contains(got.Error, "does not end") || alive.Load() != 1 || most.Load() != 1 {
			t.Errorf("an hour later: got %+v since %v, %d alive, at most %d", got, got.Since, alive.Load(), most.Load())
		}
		if _, err := p.Capture(ctx); err == nil {
			t.Error("a capture ran beside the stuck one")
		}
		stuck.Store(false)
		close(release)
		time.Sleep(time.Minute)
		if got := p.Reading().Probe; got.State != wire.ProbeOK {
			t.Errorf("after it ended: got %s (%s), want ok", got.State, got.Error)
		}
	})
}

// An nvidia-smi that is killed at every deadline is hung since the first one.
func TestKilledAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := prober(t, newMachine())
		p.Now = nil
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			<-ctx.Done()
			return gpu.Output{Code: -1, Stopped: true}
		}
		began := time.Now()
		for range 3 {
			p.Probe(t.Context())
		}
		got := p.Reading().Probe
		if got.State != wire.ProbeHung || !got.Since.Equal(began.Add(20*time.Second)) || show(got.TookMS) != "20000" ||
			!strings.Contains(got.Error, "was killed") {
			t.Errorf("got %+v since %v", got, got.Since)
		}
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Now = nil
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx, 0, nil)
		}()
		time.Sleep(95 * time.Second)
		if got := m.count("--query-gpu"); got != 4 {
			t.Errorf("got %d queries in 95 s, want 4", got)
		}
		cancel()
		<-done
		p.Probe(ctx)
		if got := m.count("--query-gpu"); got != 4 {
			t.Errorf("got %d queries after the end, want 4", got)
		}
	})
}

// A shutdown during a call says nothing about the GPUs.
func TestShutdownIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		p, _ := prober(t, m)
		p.Exec = func(ctx context.Context, call gpu.Call) gpu.Output {
			if m.count("--query-gpu") == 0 || !strings.HasPrefix(call.Args[0], "--query-gpu") {
				return m.exec(ctx, call)
			}
			<-ctx.Done()
			return gpu.Output{Code: -1, Stopped: true}
		}
		p.Probe(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := p.Probe(ctx).Probe; got.State != wire.ProbeOK || got.Error != "" {
			t.Errorf("got %+v, want the last state", got)
		}
	})
}
