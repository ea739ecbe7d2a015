package slot_test

import (
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/slot"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	before := slot.Digest(h200())
	if len(before) != 32 || before == slot.Digest(wire.Facts{}) {
		t.Fatalf("the digest is %q", before)
	}
	changes := map[string]func(*wire.Facts){
		"the order":           func(f *wire.Facts) { slices.Reverse(f.PCI); slices.Reverse(f.Accelerators) },
		"the link":            func(f *wire.Facts) { f.PCI[0].WidthMax, f.PCI[0].SpeedMax = new(8), "16.0 GT/s PCIe" },
		"firmware of a card":  func(f *wire.Facts) { f.PCI[0].Firmware = "28.1" },
		"a virtual function":  func(f *wire.Facts) { f.PCI = append(f.PCI, wire.PCIDevice{Address: "x", Virtual: true}) },
		"what may be unknown": func(f *wire.Facts) { f.Accelerators[0].Module, f.Accelerators[0].Links, f.PCI[0].NUMA = nil, nil, nil },
		"how it is written":   func(f *wire.Facts) { f.Accelerators[0].Address = "00000000:10:00.0" },
	}
	for name, change := range changes {
		f := h200()
		change(&f)
		if slot.Digest(f) != before {
			t.Errorf("%s changes the digest", name)
		}
	}
	drifts := map[string]func(*wire.Facts){
		"a card less":          func(f *wire.Facts) { f.PCI = f.PCI[1:] },
		"a GPU less":           func(f *wire.Facts) { f.Accelerators = f.Accelerators[1:] },
		"another card":         func(f *wire.Facts) { f.PCI[0].Device = "2330" },
		"another address":      func(f *wire.Facts) { f.PCI[0].Address = "0000:11:00.0" },
		"another driver":       func(f *wire.Facts) { f.PCI[0].Driver = "vfio-pci" },
		"another group":        func(f *wire.Facts) { f.PCI[0].IOMMUGroup = new(77) },
		"no group":             func(f *wire.Facts) { f.PCI[0].IOMMUGroup = nil },
		"another UUID":         func(f *wire.Facts) { f.Accelerators[0].UUID = "GPU-x" },
		"another name":         func(f *wire.Facts) { f.Accelerators[0].Name = "NVIDIA H100" },
		"less memory":          func(f *wire.Facts) { f.Accelerators[0].MemoryMiB = new(int64(1)) },
		"no memory":            func(f *wire.Facts) { f.Accelerators[0].MemoryMiB = new(int64(0)) },
		"memory unknown":       func(f *wire.Facts) { f.Accelerators[0].MemoryMiB = nil },
		"divided":              func(f *wire.Facts) { f.Accelerators[0].MIG = []wire.MIGInstance{{UUID: "MIG-a"}} },
		"divided into nothing": func(f *wire.Facts) { f.Accelerators[0].MIG = []wire.MIGInstance{} },
		"the driver":           func(f *wire.Facts) { f.DriverVersion = "600" },
		"the BIOS":             func(f *wire.Facts) { f.BIOSVersion = "2.2" },
		"the machine":          func(f *wire.Facts) { f.Product = "PowerEdge XE9640" },
		"now it is contained":  func(f *wire.Facts) { f.Contained = true },
		"UUIDs change places": func(f *wire.Facts) {
			f.Accelerators[0].UUID, f.Accelerators[1].UUID = f.Accelerators[1].UUID, f.Accelerators[0].UUID
		},
	}
	seen := map[string]string{before: "nothing"}
	for name, change := range drifts {
		f := h200()
		change(&f)
		digest := slot.Digest(f)
		if other, twice := seen[digest]; twice && name != "no memory" {
			t.Errorf("%s has the digest of: %s", name, other)
		}
		seen[digest] = name
	}
}

// TestDigestOfAContainer proves that what happens to other cards of its host is no drift.
func TestDigestOfAContainer(t *testing.T) {
	t.Parallel()
	f := h200()
	f.Contained = true
	before := slot.Digest(f)
	f.PCI[7].Driver = "vfio-pci"
	if slot.Digest(f) != before {
		t.Error("the host gave another card to a virtual machine, and the container's digest changed")
	}
	f.Accelerators[0].UUID = "GPU-other"
	if slot.Digest(f) == before {
		t.Error("the container has another GPU, and the same digest")
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	before := h200()
	before.Accelerators[0].MIG = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-a"}}
	now := h200()
	now.Accelerators = nil
	for i := range now.PCI {
		now.PCI[i].Driver = "vfio-pci"
	}
	got := slot.Recall(now, before)
	first := got.Accelerators[0]
	if len(got.Accelerators) != 8 || first.UUID != "GPU-1" || *first.Module != 8 || first.MIG != nil {
		t.Errorf("recalled %+v", got.Accelerators)
	}
	if now.Accelerators != nil || before.Accelerators[0].MIG == nil {
		t.Error("the facts that were given have changed")
	}
	if again := slot.Recall(now, got); slot.Digest(again) != slot.Digest(got) || len(again.Accelerators) != 8 {
		t.Error("the next time the facts are others")
	}
	if slots := slot.Propose("n-1", shaped(api.ShapeVM, 4), got); len(slots) != 2 || slots[0].Units[0].UUID != "GPU-8" {
		t.Errorf("slots %q", text(slots))
	}
}

func TestRecallTakesNoOtherCard(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(now, before *wire.Facts)
		want   int // cards that are named
	}{
		"all":                        {func(now, before *wire.Facts) {}, 8},
		"another kind of card":       {func(now, before *wire.Facts) { now.PCI[0].Device = "2330" }, 7},
		"its own driver has it":      {func(now, before *wire.Facts) { now.PCI[0].Driver = "nvidia" }, 7},
		"no driver has it":           {func(now, before *wire.Facts) { now.PCI[0].Driver = "" }, 7},
		"it is gone":                 {func(now, before *wire.Facts) { now.PCI = now.PCI[1:] }, 7},
		"it was never seen":          {func(now, before *wire.Facts) { before.Accelerators = before.Accelerators[1:] }, 7},
		"the bus was not seen":       {func(now, before *wire.Facts) { before.PCI = nil }, 0},
		"the driver names it itself": {func(now, before *wire.Facts) { now.Accelerators = before.Accelerators[:1:1] }, 8},
	} {
		now, before := h200(), h200()
		now.Accelerators = nil
		for i := range now.PCI {
			now.PCI[i].Driver = "vfio-pci"
		}
		test.change(&now, &before)
		if got := slot.Recall(now, before).Accelerators; len(got) != test.want {
			t.Errorf("%s: %d are named, want %d", name, len(got), test.want)
		}
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	p := api.Profile{Checks: []string{wire.CheckKVM, wire.CheckIOMMU, wire.CheckKVM}}
	ok := func(names ...string) (all []wire.Check) {
		for _, name := range names {
			all = append(all, wire.Check{Name: name, State: wire.CheckOK})
		}
		return all
	}
	strict := p
	strict.Acceptance = true
	accepted := append(ok(wire.CheckKVM, wire.CheckIOMMU), ok(wire.AcceptChecks()...)...)
	paid := ok(wire.CheckAsPaid)[0]
	var unseen []string
	for _, name := range wire.AcceptChecks() {
		if name != wire.CheckAsPaid && name != wire.CheckProgram { // the one was judged, and nobody asked for the other
			unseen = append(unseen, name+": was not looked at")
		}
	}
	for name, test := range map[string]struct {
		profile api.Profile
		checks  []wire.Check
		asPaid  wire.Check
		want    []string
	}{
		"all is shown":          {p, ok(wire.CheckKVM, wire.CheckIOMMU), wire.Check{}, nil},
		"nothing was looked at": {p, nil, wire.Check{}, []string{"kvm: was not looked at", "iommu: was not looked at"}},
		"unknown is not ok": {p, append(ok(wire.CheckKVM), wire.Check{Name: wire.CheckIOMMU, State: wire.CheckUnknown, Saw: "in a container"}),
			wire.Check{}, []string{"iommu is unknown: in a container"}},
		"failed": {p, append(ok(wire.CheckKVM), wire.Check{Name: wire.CheckIOMMU, State: wire.CheckFailed, Saw: "off\nand\x00 on"}),
			wire.Check{}, []string{"iommu failed: off and on"}},
		"no state, and nothing seen": {p, append(ok(wire.CheckKVM), wire.Check{Name: wire.CheckIOMMU}), wire.Check{},
			[]string{"iommu is unknown"}},
		"ok and failed": {p, append(ok(wire.CheckKVM, wire.CheckIOMMU), wire.Check{Name: wire.CheckKVM, State: wire.CheckFailed}),
			wire.Check{},
			[]string{"kvm failed"}},
		"accepted": {strict, accepted, paid, nil},
		"not as paid": {strict, accepted, wire.Check{Name: wire.CheckAsPaid, State: wire.CheckFailed, Saw: "7 GPUs, 8 are paid for"},
			[]string{"as_paid failed: 7 GPUs, 8 are paid for"}},
		"a node does not judge it": {strict, accepted, wire.Check{}, []string{"as_paid: was not looked at"}},
		"no program was asked for": {strict, slices.DeleteFunc(slices.Clone(accepted), func(c wire.Check) bool {
			return c.Name == wire.CheckProgram
		}), paid, nil},
		"the program failed": {strict,
			append(slices.Clone(accepted), wire.Check{Name: wire.CheckProgram, State: wire.CheckFailed, Saw: "exit 1"}), paid,
			[]string{"gpu_program failed: exit 1"}},
		"no acceptance": {strict, ok(wire.CheckKVM, wire.CheckIOMMU), paid, unseen},
	} {
		got := slot.Missing(test.profile, wire.Evidence{Checks: test.checks}, test.asPaid)
		if got == nil || !slices.Equal(got, append([]string{}, test.want...)) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}
