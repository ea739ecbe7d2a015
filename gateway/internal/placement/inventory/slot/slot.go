// Package slot says which slots a node gives: by the facts that it was seen to be made of, and by its profile.
//
// A slot's units are cards, or parts of divided cards, by PCI address and UUID and never by an index. A whole card and its parts are never
// both in the slots of one node. A unit may be in several slots: who takes one of them takes the unit from all.
package slot

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/sku"
	"muster/gateway/internal/view/hardware"
)

// Proposed is a slot that a node can give. Nobody has approved it.
type Proposed struct {
	ID    string // the same for the same node, shape and units, whenever it is proposed; it has the form of a task's id
	SKU   string
	Shape string // of the Shapes of slots
	Model string // of its GPUs; sku.ModelMixed: they are of several
	Part  string // a divided GPU's profile, such as 1g.10gb; of a node sku.PartDivided, if a GPU of it is divided; empty: whole GPUs
	GPUs  int    // cards; a part counts as one
	Units []Unit
}

// Unit is one card, or one part of a divided card.
type Unit struct {
	Key    string // its name on the node: the card's address, of a part with the part's UUID behind a slash
	UUID   string // of the card or of the part; empty: no driver ever named it
	NUMA   *int
	Switch string
}

// Propose returns the slots of a node by its profile and its facts. A node in a container gives no slots for virtual machines.
func Propose(nodeID string, p api.Profile, f wire.Facts) []Proposed {
	gpus := hardware.GPUs(f)
	var all []Proposed
	for _, shape := range p.Slots.Shapes {
		switch {
		case shape == api.ShapeGPU:
			all = append(all, single(gpus)...)
		case shape == api.ShapeNode && len(gpus) > 0:
			all = append(all, of(shape, gpus))
		case shape == api.ShapeVM && !f.Contained:
			all = append(all, partitions(gpus, p.Slots.Sizes, isSwitched(f))...)
		}
	}
	all = slices.DeleteFunc(all, func(p Proposed) bool { return len(p.Units) == 0 })
	for i := range all {
		all[i].SKU = sku.Of(all[i].Model, all[i].Shape, all[i].GPUs, all[i].Part)
		all[i].ID = id(nodeID, all[i])
	}
	return all
}

// single gives a slot for each GPU, and for each part of a divided one.
func single(gpus []hardware.GPU) (all []Proposed) {
	for _, g := range gpus {
		if g.MIG == nil {
			all = append(all, of(api.ShapeGPU, []hardware.GPU{g}))
			continue
		}
		for i, u := range units(g) {
			all = append(all, Proposed{Shape: api.ShapeGPU, Model: g.Model, Part: g.MIG[i].Profile, GPUs: 1, Units: []Unit{u}})
		}
	}
	return all
}

// of gives one slot of all of these GPUs.
func of(shape string, gpus []hardware.GPU) Proposed {
	p := Proposed{Shape: shape, Model: gpus[0].Model, GPUs: len(gpus)}
	for _, g := range gpus {
		if g.Model != p.Model {
			p.Model = sku.ModelMixed
		}
		if g.MIG != nil {
			p.Part = sku.PartDivided
		}
		p.Units = append(p.Units, units(g)...)
	}
	return p
}

// units are a card, or the parts of a divided one.
func units(g hardware.GPU) []Unit {
	whole := Unit{Key: g.Key(), UUID: g.UUID, NUMA: g.NUMA, Switch: g.Switch}
	if g.MIG == nil {
		return []Unit{whole}
	}
	var parts []Unit
	for _, m := range g.MIG {
		part := whole
		part.Key += "/" + m.UUID
		part.UUID = m.UUID
		parts = append(parts, part)
	}
	return parts
}

// id names a slot by what it is made of.
func id(nodeID string, p Proposed) string {
	keys := []string{nodeID, p.Shape}
	for _, u := range p.Units {
		keys = append(keys, u.Key)
	}
	slices.Sort(keys[2:])
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
