package evidence_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/task"
	"muster/agent/wire"
)

// TestFacts: what a machine is made of, and nothing that was not read.
func TestFacts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	got := m.look(t.Context(), wire.NodeCheck{Profile: "gpuaas-profile-baremetal", Checks: []string{wire.CheckKVM}})
	one, group := 1, 27
	lanes := 16
	want := wire.PCIDevice{Address: bdfA, Vendor: "10de", Device: "2335", Class: "030200", Driver: "nvidia", NUMA: &one, IOMMUGroup: &group,
		Switch: "0000:15:01.0", WidthMax: &lanes, SpeedMax: "32.0 GT/s PCIe"}
	f := got.Facts
	if len(f.PCI) != 4 || !reflect.DeepEqual(f.PCI[2], want) || f.PCI[1].Board != "MT_0000000884" || f.PCI[1].Firmware != "32.41.1000" ||
		f.PCI[0].Switch != "0000:00:1c.0" {
		t.Errorf("%+v", f.PCI)
	}
	if f.Product != "PowerEdge XE9680L" || f.BIOSVersion != "2.4.1" || f.Vendor != "Dell Inc." || f.DriverVersion != "570.86.15" ||
		f.Contained ||
		got.BootID != "5d1e3b0c-5a2f-4a43-9a0e-3a1f5e7d9b11" || !got.At.Equal(start) || got.Profile != "gpuaas-profile-baremetal" {
		t.Errorf("%+v", got)
	}
	a, b := f.Accelerators[0], f.Accelerators[1]
	if a.UUID != uuidA || a.Address != bdfA || a.Serial != "1653923000001" || *a.Module != 2 || *a.MemoryMiB != 143771 || *a.Links != 2 ||
		a.MIG != nil || b.Serial != "" || b.Module != nil {
		t.Errorf("%+v %+v", a, b)
	}
	if !strings.Contains(m.out.String(), "kvm         ok      /dev/kvm") {
		t.Errorf("the progress is %q", m.out.String())
	}
}

// TestFactsUnknown: what cannot be read is null or empty.
func TestFactsUnknown(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.remove("sys")
	m.remove("proc/sys")
	m.reading = gpu.Reading{Probe: wire.Probe{State: wire.ProbeAbsent}}
	got := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs, wire.CheckIOMMU}})
	raw, err := json.Marshal(got.Facts)
	if err != nil || got.BootID != "" || string(raw) != `{"contained":false,"vendor":"","product":"","bios_version":"","driver_version":"",`+
		`"pci":null,"accelerators":null}` {
		t.Errorf("%s, %v", raw, err)
	}
	for _, c := range got.Checks {
		if c.State != wire.CheckUnknown {
			t.Errorf("%+v", c)
		}
	}
}

// TestFactsOfTheBus: values that the kernel has no word for are null, and functions of other cards come last or not at all.
func TestFactsOfTheBus(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	at := "sys/bus/pci/devices/" + bdfA
	m.put(at+"/numa_node", "-1\n")
	m.put(at+"/max_link_width", "255\n")
	m.put(at+"/max_link_speed", "Unknown\n")
	m.remove(at + "/iommu_group")
	m.device("0000:02:00.4", "0000:15:01.0", "10de", "2335", "030200", "", 40)
	m.put("sys/bus/pci/devices/0000:02:00.4/physfn", "")
	m.device("0000:18:00.2", "0000:15:01.0", "15b3", "101e", "020000", "mlx5_core", 41)
	m.put("sys/bus/pci/devices/0000:18:00.2/physfn", "")
	m.device("0000:19:00.0", "", "10de", "0bad", "030200zz", "nvidia", 42)
	f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckKVM}}).Facts
	if len(f.PCI) != 5 || !f.PCI[4].Virtual || f.PCI[4].Address != "0000:02:00.4" || f.PCI[4].IsGPU() {
		t.Fatalf("%+v", f.PCI)
	}
	if d := f.PCI[2]; d.Address != bdfA || d.NUMA != nil || d.WidthMax != nil || d.SpeedMax != "" || d.IOMMUGroup != nil {
		t.Errorf("%+v", d)
	}
	for i := range 200 {
		m.device("00ff:"+string("0123456789abcdef"[i/16])+string("0123456789abcdef"[i%16])+":00.0", "", "10de", "2335", "030000", "nvidia", 50)
	}
	if f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckKVM}}).Facts; len(f.PCI) > wire.MaxPCI ||
		f.PCI[len(f.PCI)-1].Virtual {
		t.Errorf("%d devices", len(f.PCI))
	}
}

// TestContainer: a container proves nothing of its host, and what is the host's alone is not told as its own.
func TestContainer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.contain()
	m.reading.GPUs = m.reading.GPUs[:1]
	m.put("dev/nvidia0", "")
	m.put("dev/nvidiactl", "")
	m.put("dev/nvidia-uvm", "")
	for _, name := range []string{wire.CheckKVM, wire.CheckIOMMU, wire.CheckVFIO, wire.CheckOVS, wire.CheckLibvirt, wire.CheckBareMetal} {
		m.want(name, wire.CheckUnknown, "container")
	}
	m.want(wire.CheckGPUs, wire.CheckOK, "1 GPUs")
	f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts
	if !f.Contained || len(f.PCI) != 1 || f.PCI[0].Address != bdfA {
		t.Errorf("%+v", f)
	}
	m.put("dev/nvidia1", "")
	m.want(wire.CheckGPUs, wire.CheckFailed, "names 1 GPUs", "files of 2")
	m.reading.Probe = wire.Probe{State: wire.ProbeFailed, Error: "no driver"}
	m.want(wire.CheckGPUs, wire.CheckFailed, "no driver")
	if f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts; f.PCI != nil || f.Accelerators != nil {
		t.Errorf("%+v", f)
	}
}

// TestOrder: the program is run first, so that the links are seen under load, and the checks stand as they were asked for.
func TestOrder(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	looks := make(chan bool)
	began := false
	m.checker.Look = func(ctx context.Context) gpu.Reading {
		if began {
			looks <- true
		}
		began = true
		return m.reading
	}
	m.checker.Trial = func(ctx context.Context, job task.Job, params wire.WorkloadLaunch, began func()) (int, string, error) {
		if params.Image == "" || params.Login != "nvcr" || len(params.Command) != 1 || params.GPUs[0] != wire.AllGPUs {
			t.Errorf("%+v", params)
		}
		m.load(5)
		began()
		<-looks
		return 0, `"passed"`, nil
	}
	got := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckPCIe, wire.CheckProgram}, Image: image, Command: []string{"diag"},
		Login: "nvcr"})
	if got.Checks[0].Name != wire.CheckPCIe || got.Checks[0].State != wire.CheckOK || !strings.Contains(got.Checks[0].Saw, "generation 5") ||
		got.Checks[1].State != wire.CheckOK || !strings.Contains(got.Checks[1].Saw, "passed") {
		t.Errorf("%+v", got.Checks)
	}
	want := []wire.Figure{{Name: "pcie_width", Value: 16, Unit: "lanes"}, {Name: "pcie_generation", Value: 5, Unit: "generation"}}
	if !reflect.DeepEqual(got.Figures, want) {
		t.Errorf("%+v", got.Figures)
	}
}

// TestEnded: what no time is left for is unknown, and the time that a program may take leaves some for the rest.
func TestEnded(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("somebody canceled the task"))
	for _, c := range m.look(ctx, wire.NodeCheck{Checks: []string{wire.CheckKVM, wire.CheckDiskRoom}}).Checks {
		if c.State != wire.CheckUnknown || !strings.Contains(c.Saw, "somebody canceled the task") {
			t.Errorf("%+v", c)
		}
	}
	limited, done := context.WithTimeout(t.Context(), time.Hour)
	defer done()
	end, _ := limited.Deadline()
	m.checker.Trial = func(ctx context.Context, _ task.Job, _ wire.WorkloadLaunch, _ func()) (int, string, error) {
		if own, there := ctx.Deadline(); !there || end.Sub(own) != 90*time.Second {
			t.Errorf("the program may take until %s before the end", end.Sub(own))
		}
		return 7, "none", nil
	}
	got := m.look(limited, wire.NodeCheck{Checks: []string{wire.CheckProgram}, Image: image}).Checks[0]
	if got.State != wire.CheckFailed || !strings.Contains(got.Saw, "exit code 7") {
		t.Errorf("%+v", got)
	}
}
