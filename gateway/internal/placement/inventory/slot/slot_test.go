package slot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/profile"
	"muster/gateway/internal/placement/inventory/slot"
)

// machine is one with GPUs of a kind, half of them on each NUMA node, two behind each root port. The places on the board run against the
// order of the addresses.
func machine(count int, device, name string) wire.Facts {
	f := wire.Facts{Vendor: "Dell Inc.", Product: "PowerEdge XE9680L", BIOSVersion: "2.1", DriverVersion: "590.48.01"}
	for i := range count {
		bus := fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1))
		f.PCI = append(f.PCI, wire.PCIDevice{
			Address: bus, Vendor: wire.PCIVendorNVIDIA, Device: device, Class: "030200", Driver: "nvidia", NUMA: new(2 * i / count),
			Switch: fmt.Sprintf("0000:%02x:01.0", i/2), IOMMUGroup: new(i),
		})
		f.Accelerators = append(f.Accelerators, wire.AcceleratorID{
			UUID: fmt.Sprintf("GPU-%d", i+1), Address: bus, Name: name, MemoryMiB: new(int64(143771)), Module: new(count - i),
		})
	}
	return f
}

func h200() wire.Facts { return machine(8, "2335", "NVIDIA H200") }

// shaped is a profile that gives slots of one shape.
func shaped(shape string, sizes ...int) api.Profile {
	return api.Profile{Name: "x", Slots: api.ProfileSlots{Shapes: []string{shape}, Sizes: sizes}}
}

// text writes slots as SKU and the numbers of their GPUs.
func text(all []slot.Proposed) []string {
	lines := []string{}
	for _, p := range all {
		var uuids []string
		for _, u := range p.Units {
			uuids = append(uuids, strings.TrimPrefix(u.UUID, "GPU-"))
		}
		lines = append(lines, p.SKU+" "+strings.Join(uuids, ","))
	}
	return lines
}

func TestPropose(t *testing.T) {
	t.Parallel()
	plain := func(change func(*wire.Facts)) wire.Facts {
		f := h200()
		change(&f)
		return f
	}
	noModules := func(f *wire.Facts) {
		for i := range f.Accelerators {
			f.Accelerators[i].Module = nil
		}
	}
	for name, test := range map[string]struct {
		profile api.Profile
		facts   wire.Facts
		want    []string
	}{
		"each GPU": {shaped(api.ShapeGPU), machine(2, "2330", "NVIDIA H100 80GB HBM3"), []string{"h100-sxm-gpu 1", "h100-sxm-gpu 2"}},
		"the node": {shaped(api.ShapeNode), h200(), []string{"h200-sxm-baremetal-8g 1,2,3,4,5,6,7,8"}},
		"pairs of Hopper": {shaped(api.ShapeVM, 2), h200(), // the places are 8 to 1
			[]string{"h200-sxm-slice-2g 8,6", "h200-sxm-slice-2g 7,5", "h200-sxm-slice-2g 4,2", "h200-sxm-slice-2g 3,1"}},
		"pairs of others": {shaped(api.ShapeVM, 2), machine(8, "2901", "NVIDIA B200"),
			[]string{"b200-sxm-slice-2g 8,7", "b200-sxm-slice-2g 6,5", "b200-sxm-slice-2g 4,3", "b200-sxm-slice-2g 2,1"}},
		"fours":                         {shaped(api.ShapeVM, 4), h200(), []string{"h200-sxm-slice-4g 8,6,7,5", "h200-sxm-slice-4g 4,2,3,1"}},
		"all eight":                     {shaped(api.ShapeVM, 8), h200(), []string{"h200-sxm-slice-8g 8,6,7,5,4,2,3,1"}},
		"what no fabric manager offers": {shaped(api.ShapeVM, 3, 5, 16, 0, -1), h200(), nil},
		"no size":                       {shaped(api.ShapeVM), machine(1, "2684", "NVIDIA GeForce RTX 4090"), []string{"rtx-4090-slice 1"}},
		"neighbours": {shaped(api.ShapeVM, 2), plain(noModules),
			[]string{"h200-sxm-slice-2g 1,2", "h200-sxm-slice-2g 3,4", "h200-sxm-slice-2g 5,6", "h200-sxm-slice-2g 7,8"}},
		"more than a NUMA node has": {shaped(api.ShapeVM, 6), plain(noModules), []string{"h200-sxm-slice-6g 1,2,3,4,5,6"}},
		"three of four, and not across": {shaped(api.ShapeVM, 3), plain(noModules),
			[]string{"h200-sxm-slice-3g 1,2,3", "h200-sxm-slice-3g 5,6,7"}},
		"a board whose places are not known": {shaped(api.ShapeVM, 2, 4, 8), plain(func(f *wire.Facts) {
			noModules(f)
			f.PCI = append(f.PCI, wire.PCIDevice{Address: "0000:ff:00.0", Vendor: wire.PCIVendorNVIDIA, Device: "22a3", Class: "068000"})
		}), []string{"h200-sxm-slice-8g 1,2,3,4,5,6,7,8"}},
		"two GPUs that claim one place": {shaped(api.ShapeVM, 4), plain(func(f *wire.Facts) { f.Accelerators[7].Module = new(2) }),
			[]string{"h200-sxm-slice-4g 1,2,3,4", "h200-sxm-slice-4g 5,6,7,8"}},
		"a GPU of the board is lost": {shaped(api.ShapeVM, 4), plain(func(f *wire.Facts) { f.Accelerators = f.Accelerators[1:] }),
			[]string{"h200-sxm-slice-4g 5,6,7,8"}},
		"no NUMA node is known": {shaped(api.ShapeVM, 2), plain(func(f *wire.Facts) {
			f.PCI, f.Accelerators = f.PCI[:3], f.Accelerators[:3]
			for i := range f.PCI {
				f.PCI[i].NUMA, f.PCI[i].Switch = nil, ""
			}
		}), []string{"h200-sxm-slice-2g 1,2"}},
		"no GPU": {api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeVM, api.ShapeNode}}}, wire.Facts{}, nil},
		"a container": {api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeVM, api.ShapeNode, api.ShapeGPU}}},
			plain(func(f *wire.Facts) {
				f.Contained = true
				f.Accelerators = f.Accelerators[:2]
			}), []string{"h200-sxm-baremetal-2g 1,2", "h200-sxm-gpu 1", "h200-sxm-gpu 2"}},
		"two models": {api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeVM, api.ShapeNode}, Sizes: []int{2}}},
			plain(func(f *wire.Facts) {
				f.PCI, f.Accelerators = f.PCI[:4], f.Accelerators[:4]
				f.PCI[0].Device, f.PCI[3].Device = "26b9", "26b9"
			}), []string{"mixed-baremetal-4g 1,2,3,4", "h200-sxm-slice-2g 2,3", "l40s-slice-2g 1,4"}},
		"a divided GPU": {api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeNode, api.ShapeVM}}},
			plain(func(f *wire.Facts) {
				f.PCI, f.Accelerators = f.PCI[:2], f.Accelerators[:2]
				f.Accelerators[0].MIG = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-a"}, {Profile: "3g.71gb", UUID: "MIG-b"}}
			}), []string{"h200-sxm-mig-1g-18gb MIG-a", "h200-sxm-mig-3g-71gb MIG-b", "h200-sxm-gpu 2", "h200-sxm-baremetal-2g-mig MIG-a,MIG-b,2",
				"h200-sxm-slice 2"}},
		"a divided GPU without parts": {api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeNode, api.ShapeVM}}},
			plain(func(f *wire.Facts) {
				f.PCI, f.Accelerators = f.PCI[:2], f.Accelerators[:2]
				f.Accelerators[0].MIG = []wire.MIGInstance{}
			}), []string{"h200-sxm-gpu 2", "h200-sxm-baremetal-2g-mig 2", "h200-sxm-slice 2"}},
		"nothing but that": {shaped(api.ShapeNode), plain(func(f *wire.Facts) {
			f.PCI, f.Accelerators = f.PCI[:1], f.Accelerators[:1]
			f.Accelerators[0].MIG = []wire.MIGInstance{}
		}), nil},
		"a divided GPU of the board": {shaped(api.ShapeVM, 4, 8), plain(func(f *wire.Facts) {
			f.Accelerators[0].MIG = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-a"}}
		}), []string{"h200-sxm-slice-4g 8,6,7,5"}},
		"a card that nobody knows": {shaped(api.ShapeGPU), machine(1, "abcd", "NVIDIA Z900 Ultra"), []string{"z900-ultra-gpu 1"}},
		"one without a name, passed on": {shaped(api.ShapeVM, 1), wire.Facts{PCI: []wire.PCIDevice{{
			Address: "0000:01:00.0", Vendor: wire.PCIVendorNVIDIA, Device: "abcd", Class: "030200", Driver: "vfio-pci"}}},
			[]string{"10de-abcd-slice "}},
		"nvidia-smi alone": {shaped(api.ShapeNode), wire.Facts{Contained: true, Accelerators: []wire.AcceleratorID{
			{UUID: "GPU-a", Name: "NVIDIA H100 80GB HBM3", Address: "00000000:00:09.0"}}}, []string{"h100-sxm-baremetal-1g a"}},
	} {
		got := text(slot.Propose("n-1", test.profile, test.facts))
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// TestUnits proves that slots share units by their keys, that no slot has a unit twice, and that ids are not of two slots.
func TestUnits(t *testing.T) {
	t.Parallel()
	f := h200()
	f.Accelerators[2].MIG = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-a"}, {Profile: "1g.18gb", UUID: "MIG-b"}}
	all := slot.Propose("n-1", api.Profile{Slots: api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeVM, api.ShapeNode},
		Sizes: []int{1, 2, 4, 8}}}, f)
	ids, cards := map[string]bool{}, map[string]bool{}
	for _, p := range all {
		seen := map[string]bool{}
		for _, u := range p.Units {
			if seen[u.Key] || u.UUID == "" || u.NUMA == nil || u.Switch == "" {
				t.Errorf("%s: unit %+v", p.SKU, u)
			}
			seen[u.Key], cards[u.Key] = true, true
		}
		if ids[p.ID] || wire.CheckTaskID(p.ID) != nil || len(p.Units) == 0 {
			t.Errorf("the slot %+v", p)
		}
		ids[p.ID] = true
	}
	if len(cards) != 9 || cards["0000:30:00.0"] || !cards["0000:30:00.0/MIG-a"] {
		t.Errorf("the units are %v", cards)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	p, _ := profile.Find(api.ProfileContainer)
	first := slot.Propose("n-1", p, h200())
	f := h200()
	slices.Reverse(f.PCI)
	slices.Reverse(f.Accelerators)
	f.DriverVersion, f.Accelerators[0].UUID = "600", "GPU-other"
	again := slot.Propose("n-1", p, f)
	elsewhere := slot.Propose("n-2", p, h200())
	for i := range first {
		if first[i].ID != again[i].ID || first[i].ID == elsewhere[i].ID {
			t.Errorf("%s: %s, again %s, elsewhere %s", first[i].SKU, first[i].ID, again[i].ID, elsewhere[i].ID)
		}
	}
}
