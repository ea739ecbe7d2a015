// Package pick chooses slots for what somebody asks for, and says why none can be chosen.
//
// It looks at a picture of the nodes, and changes nothing. What it chooses may be taken by somebody else before it is claimed, so a claim
// looks again. It packs: the fullest node that still fits comes first, and a node that is empty is broken up last, the largest at the
// very end. What is linked goes together. Among equals the cheapest comes first.
package pick

import (
	"cmp"
	"slices"

	"muster/gateway/api"
	"muster/gateway/internal/view/hardware"
)

// Node is a node with the slots that it gives.
type Node struct {
	ID    string
	Name  string
	Bars  []string // why it takes no claims now, in the same words on each node; empty: it does
	Units []Unit   // each GPU, and each part of a divided one, once
	Slots []Slot
}

// Unit is a GPU, or a part of a divided one.
type Unit struct {
	Key    string
	Held   bool // by an allocation, or by the cleaning after one
	NUMA   *int
	Switch string // address of the root port above it; empty: not known
}

// Slot is a slot of a node. Its first fields are those of a slot.Proposed.
type Slot struct {
	ID    string
	SKU   string // empty: the node no longer gives it, so it counts for nothing
	Shape string
	Model string
	Part  string
	GPUs  int
	Price *float64 // per hour; nil: not known
	Why   string   // why it takes no claim, whoever holds its units, in the same words on each slot; empty: it does
	Units []int    // where its units stand in the node's
}

// Chosen is a slot on its node.
type Chosen struct {
	Node *Node
	Slot *Slot
}

// Choice is what was chosen.
type Choice struct {
	Slots   []Chosen // empty: nothing can be chosen now
	PerHour *float64 // of all of them; nil: the price of one is not known
	Why     []string // why nothing can be chosen now, one line each, the most telling first
}

// Pick chooses slots for a wish among these nodes. The caller passes the nodes that the wish's selector chooses and its tenant may use.
func Pick(nodes []Node, wish api.Wish) Choice {
	w := newWant(wish)
	chosen := w.place(nodes)
	if len(chosen) == 0 {
		return Choice{Why: w.blockers(nodes)}
	}
	sum, known := price(chosen)
	if !known {
		return Choice{Slots: chosen}
	}
	return Choice{Slots: chosen, PerHour: &sum}
}

// want is a wish in the form that is looked for.
type want struct {
	api.Wish
	models  map[string]bool // whether a model is what the wish asks for, as far as it was asked
	model   string          // the one that was asked last, since the slots of a node mostly have one model
	is      bool
	anytime bool // as if everything were free and approved
}

func newWant(wish api.Wish) *want {
	wish.Count = max(wish.Count, 1)
	return &want{Wish: wish, models: map[string]bool{}}
}

// weight is how much of the count a slot gives; 0: it is not what is asked for. A part of a GPU is not a GPU.
func (w *want) weight(s *Slot) int {
	switch {
	case s.SKU == "" || len(s.Units) == 0:
		return 0
	case w.SKU != "":
		if s.SKU == w.SKU {
			return 1
		}
		return 0
	case s.Part != "":
		return 0
	}
	if s.Model != w.model {
		is, known := w.models[s.Model]
		if !known {
			is = hardware.Is(s.Model, w.GPU)
			w.models[s.Model] = is
		}
		w.model, w.is = s.Model, is
	}
	if !w.is {
		return 0
	}
	return s.GPUs
}

// What blocks a slot beside the bars of its node and its own reason.
const (
	isTaken    = "taken"
	isUnpriced = "without a known price"
	isLarger   = "in slots of more GPUs"
)

// blocker says why a slot cannot be chosen; "": it can. An unknown price may be above any limit.
func (w *want) blocker(n *Node, s *Slot) string {
	switch {
	case w.MaxPrice != nil && s.Price == nil:
		return isUnpriced
	case w.anytime:
		return ""
	case len(n.Bars) > 0:
		return n.Bars[0]
	case s.Why != "":
		return s.Why
	case n.isHeld(s):
		return isTaken
	}
	return ""
}

func (n *Node) isHeld(s *Slot) bool {
	for _, at := range s.Units {
		if n.Units[at].Held {
			return true
		}
	}
	return false
}

// place chooses slots that meet the whole wish; nil: there are none.
func (w *want) place(nodes []Node) []Chosen {
	var fitting []candidate
	for i := range nodes {
		if c, ok := w.judge(&nodes[i]); ok && c.fits {
			fitting = append(fitting, c)
		}
	}
	slices.SortFunc(fitting, packed)
	for _, c := range fitting {
		if chosen := w.fill(c.node); w.isAffordable(chosen) {
			return chosen
		}
	}
	if w.Spread {
		return w.scatter(nodes)
	}
	return nil
}

// candidate is a node with something of what is asked for.
type candidate struct {
	node   *Node
	fits   bool    // all of the wish may fit onto it
	breaks bool    // it is empty, and would then be partly used
	free   int     // units
	needed int     // units of them
	price  float64 // of a GPU or slot, as far as one slot tells
}

// packed orders nodes for packing.
func packed(a, b candidate) int {
	if a.breaks != b.breaks {
		if a.breaks {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.free-a.needed, b.free-b.needed), cmp.Compare(a.price, b.price), cmp.Compare(a.node.Name, b.node.Name))
}

// judge looks at what a node has for the wish; false: nothing. It does not look closely, as most nodes are not used.
func (w *want) judge(n *Node) (candidate, bool) {
	if len(n.Bars) > 0 && !w.anytime {
		return candidate{}, false
	}
	var first, exact *Slot
	singles := 0
	for i := range n.Slots {
		s := &n.Slots[i]
		weight := w.weight(s)
		if weight == 0 || w.blocker(n, s) != "" {
			continue
		}
		first = cmp.Or(first, s)
		switch weight {
		case w.Count:
			exact = cmp.Or(exact, s)
		case 1:
			first = s
			singles++
		}
	}
	if first == nil {
		return candidate{}, false
	}
	c := candidate{node: n, fits: exact != nil || singles >= w.Count, needed: w.Count * len(first.Units), price: each(first, w.weight(first))}
	if exact != nil {
		c.needed = len(exact.Units)
	}
	for i := range n.Units {
		if w.anytime || !n.Units[i].Held {
			c.free++
		}
	}
	c.breaks = c.free == len(n.Units) && c.needed < c.free
	return c, true
}
