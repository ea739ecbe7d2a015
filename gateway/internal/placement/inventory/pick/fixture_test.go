package pick_test

import (
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/gateway/internal/placement/inventory/slot"
)

// node is one with so many GPUs, half of them on each NUMA node and two behind each root port, and the slots that a profile gives.
func node(name string, gpus int, model string, shapes []string, sizes ...int) pick.Node {
	var f wire.Facts
	for i := range gpus {
		at := fmt.Sprintf("0000:%02x:00.0", i+1)
		f.PCI = append(f.PCI, wire.PCIDevice{
			Address: at, Vendor: wire.PCIVendorNVIDIA, Device: "ffff", Class: "030200", Driver: "nvidia", NUMA: new(2 * i / max(gpus, 2)),
			Switch: fmt.Sprintf("0000:f%x:00.0", i/2),
		})
		f.Accelerators = append(f.Accelerators, wire.AcceleratorID{UUID: fmt.Sprintf("%s-%d", name, i), Address: at, Name: model})
	}
	return made(name, api.Profile{Slots: api.ProfileSlots{Shapes: shapes, Sizes: sizes}}, f)
}

// made is a node by its profile and its facts. All of its slots are approved, and a GPU costs 2 an hour.
func made(name string, p api.Profile, f wire.Facts) pick.Node {
	n := pick.Node{ID: "n-" + name, Name: name}
	for _, s := range slot.Propose(n.ID, p, f) {
		mine := pick.Slot{
			ID: s.ID, SKU: s.SKU, Shape: s.Shape, Model: s.Model, Part: s.Part, GPUs: s.GPUs, Price: new(2 * float64(s.GPUs)),
		}
		for _, u := range s.Units {
			at := slices.IndexFunc(n.Units, func(known pick.Unit) bool { return known.Key == u.Key })
			if at < 0 {
				at = len(n.Units)
				n.Units = append(n.Units, pick.Unit{Key: u.Key, NUMA: u.NUMA, Switch: u.Switch})
			}
			mine.Units = append(mine.Units, at)
		}
		n.Slots = append(n.Slots, mine)
	}
	return n
}

// Shapes that profiles give.
var (
	whole  = []string{api.ShapeNode}
	plain  = []string{api.ShapeGPU, api.ShapeNode}
	sliced = []string{api.ShapeVM}
)

// hold holds units of a node.
func hold(n pick.Node, units ...int) pick.Node {
	for _, at := range units {
		n.Units[at].Held = true
	}
	return n
}

// costing sets what a GPU of a node costs.
func costing(n pick.Node, perGPU float64) pick.Node {
	for i := range n.Slots {
		n.Slots[i].Price = new(perGPU * float64(n.Slots[i].GPUs))
	}
	return n
}

// text writes what was chosen: each node with the units that it gives.
func text(c pick.Choice) []string {
	at := map[string][]int{}
	for _, s := range c.Slots {
		at[s.Node.Name] = append(at[s.Node.Name], s.Slot.Units...)
	}
	lines := []string{}
	for name, units := range at {
		slices.Sort(units)
		lines = append(lines, fmt.Sprint(name, units))
	}
	slices.Sort(lines)
	return lines
}
