package evidence_test

import (
	"context"
	"strings"
	"testing"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

const image = "registry.example/nvidia/dcgm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// load sets the generation of all links, as a GPU at work has it from 3 on.
func (m *machine) load(generation int) {
	for i := range m.reading.GPUs {
		g := &m.reading.GPUs[i]
		link := *g.PCIe
		link.Generation = &generation
		g.PCIe = &link
		g.UtilizationPercent = new(float64(generation - 1))
	}
}

// TestGPUChecks: each check of the GPUs, well and not.
func TestGPUChecks(t *testing.T) {
	t.Parallel()
	second := func(change func(g *wire.GPU)) func(*machine) {
		return func(m *machine) { change(&m.reading.GPUs[1]) }
	}
	for _, c := range []struct {
		check  string
		change func(*machine)
		state  string
		words  string
	}{
		{wire.CheckGPUs, nil, wire.CheckOK, "2 GPUs"},
		{wire.CheckGPUs, func(m *machine) { m.reading.GPUs = m.reading.GPUs[:1] }, wire.CheckFailed, bdfB},
		{wire.CheckGPUs, func(m *machine) { m.driver(bdfB, "nouveau") }, wire.CheckOK, "2 GPUs"},
		{wire.CheckGPUs, func(m *machine) { m.driver(bdfB, "vfio-pci"); m.reading.GPUs = m.reading.GPUs[:1] }, wire.CheckOK,
			"1 bound to vfio-pci"},
		{wire.CheckGPUs, func(m *machine) {
			m.remove("sys/bus/pci/devices")
			m.put("sys/bus/pci/devices/x", "")
			m.reading.GPUs = nil
		},
			wire.CheckFailed, "neither"},
		{wire.CheckDriver, nil, wire.CheckOK, "570.86.15"},
		{wire.CheckDriver, func(m *machine) { m.reading.Probe.State = wire.ProbeSlow }, wire.CheckOK, "2 GPUs"},
		{wire.CheckDriver, func(m *machine) {
			m.reading.Probe = wire.Probe{State: wire.ProbeFailed, Error: "1 of 2", SampledAt: &start}
		},
			wire.CheckFailed, "1 of 2"},
		{wire.CheckDriver, func(m *machine) { m.reading = gpu.Reading{Probe: wire.Probe{State: wire.ProbeAbsent}} }, wire.CheckFailed,
			"no nvidia-smi"},
		{wire.CheckDriver, func(m *machine) {
			early := start.Add(-1e9)
			m.reading.Probe = wire.Probe{State: wire.ProbeHung, Error: "it hangs", SampledAt: &early}
		}, wire.CheckFailed, "it hangs"},
		{wire.CheckDriver, func(m *machine) {
			m.reading = gpu.Reading{Probe: wire.Probe{State: wire.ProbeFailed, Error: "no devices"}}
			m.driver(bdfA, "vfio-pci")
			m.driver(bdfB, "vfio-pci")
		}, wire.CheckUnknown, "all 2 GPUs are bound"},
		{wire.CheckDriver, func(m *machine) { m.checker.Look = nil }, wire.CheckUnknown, "--no-gpu"},
		{wire.CheckFabric, nil, wire.CheckOK, "2 GPUs: completed"},
		{wire.CheckFabric, second(func(g *wire.GPU) { g.Fabric = &wire.Fabric{State: new("in_progress")} }), wire.CheckFailed,
			"GPU 1: fabric in_progress"},
		{wire.CheckFabric, second(func(g *wire.GPU) { g.Fabric = &wire.Fabric{State: new("completed"), Status: new("failure")} }),
			wire.CheckFailed, "fabric completed failure"},
		{wire.CheckFabric, second(func(g *wire.GPU) { g.Fabric = &wire.Fabric{State: new("completed")} }), wire.CheckUnknown, "GPU 1"},
		{wire.CheckFabric, second(func(g *wire.GPU) { g.Fabric = &wire.Fabric{State: new("not_supported")} }), wire.CheckOK, "1 GPUs: no fabric"},
		{wire.CheckFabric, second(func(g *wire.GPU) { g.Fabric = nil }), wire.CheckUnknown, "does not say"}, // beside a switch
		{wire.CheckFabric, func(m *machine) { m.reading.GPUs[1].Fabric = nil; m.answers["nvlink"] = links(uuidA, "26 GB/s") },
			wire.CheckOK, "no NVLink"},
		{wire.CheckFabric, func(m *machine) { m.reading.GPUs[1].Fabric = nil; m.remove("sys/bus/pci/devices/0000:05:00.0") }, wire.CheckOK,
			"no switch"},
		{wire.CheckFabric, func(m *machine) { m.reading.GPUs[1].Fabric = nil; delete(m.answers, "nvlink") }, wire.CheckUnknown, "does not say"},
		{wire.CheckFabric, func(m *machine) { m.reading.GPUs = nil }, wire.CheckUnknown, "no driver names a GPU"},
		{wire.CheckNVLink, nil, wire.CheckOK, "2 GPUs: 2 links up"},
		{wire.CheckNVLink, func(m *machine) { m.answers["nvlink"] = links(uuidA, "26 GB/s") + links(uuidB, "<inactive>") }, wire.CheckFailed,
			"GPU 1: 2 of 2 links are down"},
		{wire.CheckNVLink, func(m *machine) {
			m.answers["nvlink"] = links(uuidB, "<inactive>")
			m.reading.GPUs[1].Fabric = nil
			m.remove("sys/bus/pci/devices/0000:05:00.0")
		}, wire.CheckOK, "1 GPUs: no bridge"},
		{wire.CheckNVLink, func(m *machine) { m.answers["nvlink"] = links(uuidB, "odd") }, wire.CheckUnknown, "GPU 1"},
		{wire.CheckNVLink, func(m *machine) { delete(m.answers, "nvlink") }, wire.CheckUnknown, "says nothing"},
		{wire.CheckNVLink, func(m *machine) { m.answers["nvlink"] = "" }, wire.CheckOK, "no NVLink"},
		{wire.CheckECC, nil, wire.CheckOK, "no uncorrected error"},
		{wire.CheckECC, second(func(g *wire.GPU) { g.ECC = nil }), wire.CheckUnknown, "GPU 1"},
		{wire.CheckECC, second(func(g *wire.GPU) { g.ECC = &wire.ECC{Enabled: new(false)} }), wire.CheckFailed, "off"},
		{wire.CheckECC, second(func(g *wire.GPU) { g.ECC = &wire.ECC{Enabled: new(true)} }), wire.CheckUnknown, "how many"},
		{wire.CheckECC, second(func(g *wire.GPU) { g.ECC.UncorrectedVolatile = new(int64(3)) }), wire.CheckFailed, "3 uncorrected"},
		{wire.CheckRows, nil, wire.CheckOK, "no row waits"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows = nil }), wire.CheckUnknown, "GPU 1"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows.Pending = nil }), wire.CheckUnknown, "GPU 1"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows.Pending = new(true) }), wire.CheckFailed, "waits for a reset"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows.Failure = new(true) }), wire.CheckFailed, "replaced"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows = nil; g.RetiredPagesPending = new(true) }), wire.CheckFailed, "restart"},
		{wire.CheckRows, second(func(g *wire.GPU) { g.RemappedRows = nil; g.RetiredPagesPending = new(false) }), wire.CheckOK, "no page"},
		{wire.CheckPCIe, nil, wire.CheckOK, "16 lanes, generation unknown without load"},
		{wire.CheckPCIe, func(m *machine) { m.load(5) }, wire.CheckOK, "2 GPUs: 16 lanes, generation 5"},
		{wire.CheckPCIe, second(func(g *wire.GPU) { g.PCIe.Width = new(8) }), wire.CheckFailed, "GPU 1: 8 of 16 lanes"},
		{wire.CheckPCIe, second(func(g *wire.GPU) { g.PCIe.Width, g.PCIe.WidthMax = new(8), new(8) }), wire.CheckFailed,
			"8 of 16"}, // a narrow slot
		{wire.CheckPCIe, second(func(g *wire.GPU) { g.PCIe, g.BusID = nil, "" }), wire.CheckUnknown, "GPU 1"},
		{wire.CheckPCIe, second(func(g *wire.GPU) { g.PCIe = nil }), wire.CheckOK, "2 GPUs: 16 lanes"}, // as the bus says
	} {
		t.Run(c.check, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			if c.change != nil {
				c.change(m)
			}
			m.want(c.check, c.state, c.words)
		})
	}
}

// TestAMD: GPUs of AMD have no NVLinks, and their driver has no version of its own.
func TestAMD(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.answers = nil
	m.remove("sys/bus/pci/devices/" + bdfB)
	m.remove("sys/bus/pci/devices/0000:05:00.0")
	m.remove("sys/bus/pci/devices/" + bdfA)
	m.device("0000:c1:00.0", "0000:c0:01.1", "1002", "74a1", "120000", "amdgpu", 9)
	g := h200(0, "GPU-0123456789abcdef", "0000:c1:00.0")
	g.Vendor = wire.VendorAMD
	g.MIG, g.Fabric = nil, nil
	m.reading.DriverVersion = nil
	m.reading.GPUs = []wire.GPU{g}
	for _, name := range []string{wire.CheckGPUs, wire.CheckDriver, wire.CheckFabric, wire.CheckNVLink, wire.CheckECC, wire.CheckRows} {
		m.want(name, wire.CheckOK)
	}
	f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts
	if len(f.Accelerators) != 1 || f.Accelerators[0].Address != "0000:c1:00.0" || f.Accelerators[0].Links != nil || f.DriverVersion != "" {
		t.Errorf("%+v", f)
	}
}

// TestDivided: a divided GPU is never taken for a whole one.
func TestDivided(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.reading.GPUs[0].MIG = new(true)
	m.answers["-L"] = "GPU 0: NVIDIA H200 (UUID: " + uuidA + ")\n" +
		"  MIG 1g.18gb     Device  0: (UUID: MIG-3f1c2a90-0000-4000-8000-0000000000b1)\n"
	facts := func() wire.Facts { return m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts }
	if a := facts().Accelerators; len(a) != 2 || len(a[0].MIG) != 1 || a[0].MIG[0].Profile != "1g.18gb" || a[1].MIG != nil {
		t.Errorf("%+v", a)
	}
	m.answers["-L"] = ""
	if a := facts().Accelerators; a[0].MIG == nil || len(a[0].MIG) != 0 {
		t.Errorf("no parts: %+v", a)
	}
	delete(m.answers, "-L")
	if f := facts(); f.Accelerators != nil {
		t.Errorf("parts that cannot be read: %+v", f.Accelerators)
	}
	m.want(wire.CheckDriver, wire.CheckFailed, "divided")
}

// TestOddRows: rows that cannot be named, or that name one thing twice, are left out, and the check of the GPUs says so.
func TestOddRows(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.reading.GPUs = append(m.reading.GPUs, h200(2, "", "00000000:4E:00.0"), h200(3, uuidA, "00000000:5F:00.0"), h200(4,
		"GPU-\x07bell-0000", "x"),
		h200(5, "GPU-3f1c2a90-0000-4000-8000-0000000000a3", "00000000:1A:00.0"))
	m.device("0000:4e:00.0", "0000:4a:01.0", "10de", "2335", "030200", "nvidia", 33)
	if f := m.look(t.Context(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts; len(f.Accelerators) != 2 {
		t.Errorf("%+v", f.Accelerators)
	}
	m.want(wire.CheckGPUs, wire.CheckFailed, "0000:4e:00.0")
	unified := h200(0, uuidA, "000f:01:00.0")
	unified.MemorySource = wire.MemoryUnified
	m.reading.GPUs = []wire.GPU{unified}
	if f := m.look(context.Background(), wire.NodeCheck{Checks: []string{wire.CheckGPUs}}).Facts; f.Accelerators[0].MemoryMiB != nil ||
		f.Accelerators[0].Address != "000f:01:00.0" {
		t.Errorf("%+v", f.Accelerators)
	}
}

// TestLongTexts: what is said stays within what the gateway takes, however much is wrong.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.reading.Probe = wire.Probe{State: wire.ProbeFailed, Error: strings.Repeat("nvidia-smi says much\n", 100)}
	m.want(wire.CheckDriver, wire.CheckFailed, "...")
}
