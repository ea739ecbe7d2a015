package gpu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/amd"
	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// board puts an AMD GPU into the file system of a machine.
func board(t *testing.T, root, card, bus, uuid string) {
	t.Helper()
	device := filepath.Join(root, "sys/class/drm", card, "device")
	for name, content := range map[string]string{
		filepath.Join(root, "dev/dri", card): "", filepath.Join(device, "drm", card, "dev"): "", filepath.Join(device, "vendor"): "0x1002\n",
		filepath.Join(device, "uevent"):       "DRIVER=amdgpu\nPCI_ID=1002:74A1\nPCI_SLOT_NAME=" + bus + "\n",
		filepath.Join(device, "product_name"): "AMD Instinct MI300X\n", filepath.Join(device, "unique_id"): uuid + "\n",
		filepath.Join(device, "gpu_busy_percent"): "42\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// two is a machine with two AMD GPUs.
func two(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	board(t, root, "card0", "0000:05:00.0", "1")
	board(t, root, "card1", "0000:26:00.0", "2")
	return root
}

// rows are the GPUs of a reading in short: index, vendor, UUID and health.
func rows(r gpu.Reading) string {
	var all []string
	for _, g := range r.GPUs {
		all = append(all, strings.TrimSpace(strings.Join(append([]string{show(&g.Index), g.Vendor, g.UUID}, g.Health...), " ")))
	}
	return strings.Join(all, ", ")
}

const both = "0 nvidia GPU-00000000-1111-2222-3333-444444444444, 1 amd GPU-0000000000000001, 2 amd GPU-0000000000000002"

// AMD's GPUs stand behind those of NVIDIA. One state speaks for both, and the number of expected GPUs counts both.
func TestBothVendors(t *testing.T) {
	root := two(t)
	m := newMachine(with(h100(0), "memory.used", "4", "utilization.gpu", "0"))
	p, c := prober(t, m)
	p.AMD = &amd.Prober{Root: root}
	p.State = t.TempDir()
	r := p.Probe(t.Context())
	if rows(r) != both || r.Probe.State != wire.ProbeOK || show(r.GPUsExpected) != "3" || show(r.Seen) != "3" {
		t.Errorf("got %s, %+v, %s expected", rows(r), r.Probe, show(r.GPUsExpected))
	}
	if r.GPUs[1].Processes != nil || r.GPUs[0].Processes == nil {
		t.Errorf("processes of AMD's GPU are %v, and of NVIDIA's %v", r.GPUs[1].Processes, r.GPUs[0].Processes)
	}
	if uuid, own := p.Locate("0000:26:00.0"); uuid != "GPU-0000000000000002" || own != "0000:26:00.0" {
		t.Errorf("at 26:00 is %s, %s", uuid, own)
	}
	if uuid, own := p.Locate("0000:99:00.0"); uuid != "PCI-0000:99:00.0" || own != "0000:99:00.0" {
		t.Errorf("a GPU that nobody has listed is %q, %q", uuid, own)
	}
	if uuid, _ := p.Locate(""); uuid != "" {
		t.Errorf("a GPU that the kernel does not name is %q", uuid)
	}
	p.HidesProcesses = func() bool { return true }
	if uuid, own := p.Locate("0000:99:00.0"); uuid+own != "" {
		t.Errorf("a GPU of another container is %q, %q", uuid, own)
	}
	p.HidesProcesses = func() bool { return false }

	if err := os.RemoveAll(filepath.Join(root, "sys/class/drm/card1")); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Minute)
	r = p.Probe(t.Context())
	reasons, detail := r.Health()
	if strings.Join(reasons, " ") != wire.HealthGPUCountDropped ||
		!strings.Contains(detail[wire.HealthGPUCountDropped], "GPU-0000000000000002 at 0000:26:00.0") {
		t.Errorf("got %v, %v, %+v", reasons, detail, r.Probe)
	}
	if uuid, _ := p.Locate("0000:26:00.0"); uuid != "GPU-0000000000000002" {
		t.Errorf("at 26:00 was %s", uuid)
	}

	board(t, root, "card1", "0000:26:00.0", "2")
	m.change(func(m *machine) { m.answer = &gpu.Output{Code: 9} })
	at := c.at
	c.advance(time.Minute)
	r = p.Probe(t.Context())
	reasons, _ = r.Health()
	left := strings.TrimSuffix(both, ", 2 amd GPU-0000000000000002")
	if r.Probe.State != wire.ProbeFailed || rows(r) != left || !r.Probe.SampledAt.Equal(at) ||
		!strings.Contains(strings.Join(reasons, " "), wire.HealthProbeFailed) {
		t.Errorf("nvidia-smi fails: got %s, %+v, %v", rows(r), r.Probe, reasons)
	}
}

// A machine with AMD's GPUs alone needs no nvidia-smi. One that finds no device is no failure there.
func TestAMDAlone(t *testing.T) {
	const want = "0 amd GPU-0000000000000001, 1 amd GPU-0000000000000002"
	for name, set := range map[string]func(*gpu.Prober, *machine){
		"no nvidia-smi": func(p *gpu.Prober, _ *machine) { p.Path = "/nonexistent/nvidia-smi" },
		"one that finds no device": func(_ *gpu.Prober, m *machine) {
			m.answer = &gpu.Output{Code: 6, Stdout: []byte("No devices were found\n")}
		},
	} {
		root := two(t)
		m := newMachine()
		p, c := prober(t, m)
		p.AMD = &amd.Prober{Root: root}
		set(p, m)
		r := p.Probe(t.Context())
		reasons, _ := r.Health()
		if rows(r) != want || r.Probe.State != wire.ProbeOK || r.Probe.Error != "" || len(reasons) > 0 || r.Probe.TookMS == nil {
			t.Errorf("%s: got %s, %+v, %v", name, rows(r), r.Probe, reasons)
		}
		if err := os.RemoveAll(filepath.Join(root, "dev/dri/card1")); err != nil {
			t.Fatal(err)
		}
		c.advance(time.Minute)
		r = p.Probe(t.Context())
		if reasons, detail := r.Health(); r.Probe.State != wire.ProbeFailed || strings.Join(reasons, " ") != wire.HealthGPUCountDropped ||
			!strings.Contains(detail[wire.HealthGPUCountDropped], "1 of 2 GPUs answer; gone: GPU-0000000000000002") {
			t.Errorf("%s, one gone: got %+v, %v", name, r.Probe, detail)
		}
		if err := os.RemoveAll(filepath.Join(root, "dev/dri")); err != nil || name != "no nvidia-smi" {
			continue
		}
		c.advance(time.Minute)
		r = p.Probe(t.Context())
		reasons, detail := r.Health()
		text := r.Probe.Error + detail[wire.HealthGPUCountDropped]
		if strings.Join(reasons, " ") != wire.HealthGPUCountDropped || strings.Contains(text, "NVIDIA") || !strings.Contains(text, "amdgpu") {
			t.Errorf("%s, all gone: got %+v, %v", name, r.Probe, detail)
		}
	}
}

// An nvidia-smi that fails at once says nothing about AMD's GPUs, which are shown. The failure is shown too.
func TestFirstLookWithoutNVIDIA(t *testing.T) {
	m := newMachine()
	m.answer = &gpu.Output{Code: 9}
	p, _ := prober(t, m)
	p.AMD = &amd.Prober{Root: two(t)}
	r := p.Probe(t.Context())
	reasons, _ := r.Health()
	if len(r.GPUs) != 2 || r.Probe.State != wire.ProbeFailed || strings.Join(reasons, " ") != wire.HealthProbeFailed {
		t.Errorf("got %s, %+v, %v", rows(r), r.Probe, reasons)
	}
}

// A driver of AMD's that hangs is reported like an nvidia-smi that hangs, and nothing is started beside it.
func TestAMDHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(h100(0))
		hung, c := prober(t, m)
		held := make(chan struct{})
		m.answer = &gpu.Output{Code: 8}
		if r := hung.Probe(t.Context()); r.Probe.Cause != wire.CausePowerCable {
			t.Errorf("before: %+v", r.Probe)
		}
		m.answer = nil
		calls := m.count("")
		hung.AMD = &amd.Prober{Read: func() []wire.GPU { <-held; return nil }}
		r := hung.Probe(t.Context())
		reasons, detail := r.Health()
		if r.Probe.State != wire.ProbeHung || strings.Join(reasons, " ") != wire.HealthProbeHung || m.count("") != calls || r.Probe.Cause != "" ||
			!strings.Contains(detail[wire.HealthProbeHung], "amdgpu in dmesg") {
			t.Errorf("got %+v, %v, %d calls", r.Probe, reasons, m.count(""))
		}
		close(held)
		synctest.Wait()
		c.advance(time.Minute)
		if r = hung.Probe(t.Context()); r.Probe.State != wire.ProbeOK {
			t.Errorf("after its end: %+v", r.Probe)
		}
	})
}

// A rule of the gateway goes by the cause of an error.
func TestPowerCable(t *testing.T) {
	lost := []byte("Unable to determine the device handle for GPU0000:01:00.0: Insufficient External Power\n")
	for name, out := range map[string]gpu.Output{
		"by its exit code": {Code: 8}, "by its words": {Stderr: lost}, "by its manual's": {Code: 255,
			Stdout: []byte("A device's external power cables are not properly attached\n")},
	} {
		m := newMachine(h100(0))
		m.answer = &out
		p, c := prober(t, m)
		if r := p.Probe(t.Context()); r.Probe.Cause != wire.CausePowerCable || r.Probe.State != wire.ProbeFailed ||
			!strings.Contains(r.Probe.Error, "power cables") {
			t.Errorf("%s: got %+v", name, r.Probe)
		}
		m.change(func(m *machine) { m.answer = nil })
		c.advance(time.Minute)
		if r := p.Probe(t.Context()); r.Probe.Cause != "" {
			t.Errorf("%s, cured: got %+v", name, r.Probe)
		}
	}
}
