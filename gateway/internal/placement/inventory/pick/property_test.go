package pick_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/gateway/internal/view/hardware"
)

// fleet is some nodes of several kinds, on which much is held, barred, not approved or without a price.
func fleet(r *rand.Rand) (nodes []pick.Node) {
	models := []string{h100, "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA GeForce RTX 4090"}
	shapes := [][]string{plain, whole, sliced, {api.ShapeGPU, api.ShapeVM, api.ShapeNode}}
	for i := range 1 + r.IntN(8) {
		n := node(fmt.Sprint("node-", i), []int{1, 2, 3, 4, 8}[r.IntN(5)], models[r.IntN(len(models))], shapes[r.IntN(len(shapes))], 1, 2, 4)
		n = costing(n, float64(1+r.IntN(30))/10)
		for at := range n.Units {
			n.Units[at].Held = r.IntN(3) == 0
		}
		for s := range n.Slots {
			if r.IntN(8) == 0 {
				n.Slots[s].Why = "not approved"
			}
			if r.IntN(8) == 0 {
				n.Slots[s].Price = nil
			}
			if r.IntN(20) == 0 {
				n.Slots[s].SKU = ""
			}
		}
		if r.IntN(6) == 0 {
			n.Bars = []string{"drained"}
		}
		r.Shuffle(len(n.Slots), func(i, j int) { n.Slots[i], n.Slots[j] = n.Slots[j], n.Slots[i] })
		nodes = append(nodes, n)
	}
	return nodes
}

func wish(r *rand.Rand) api.Wish {
	w := api.Wish{Count: r.IntN(10), Spread: r.IntN(2) == 0}
	if r.IntN(2) == 0 {
		w.GPU = []string{"h100", "h100-sxm", "h200", "4090"}[r.IntN(4)]
	} else {
		w.SKU = []string{"h100-sxm-gpu", "h200-sxm-slice-2g", "h100-pcie-slice", "h100-sxm-baremetal-8g", "rtx-4090-gpu"}[r.IntN(5)]
	}
	if r.IntN(3) == 0 {
		w.MaxPrice = new(float64(r.IntN(100)) / 10)
	}
	return w
}

// TestChoicesAreSound tries many fleets and wishes: what is chosen is free, is exactly what was asked for, and nothing twice.
func TestChoicesAreSound(t *testing.T) {
	t.Parallel()
	placed := 0
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, w := fleet(r), wish(r)
		got := pick.Pick(nodes, w)
		if len(got.Slots) == 0 {
			if len(got.Why) == 0 {
				t.Errorf("seed %d: nothing is chosen, and nothing says why", seed)
			}
			continue
		}
		placed++
		if wrong := unsound(got, w); wrong != "" {
			t.Errorf("seed %d: %+v gets %q: %s", seed, w, text(got), wrong)
		}
		if why, _ := pick.Could(nodes, w); why != "" {
			t.Errorf("seed %d: %+v was placed, and it could not be: %s", seed, w, why)
		}
	}
	if placed < 300 {
		t.Errorf("%d wishes were met: the test proves little", placed)
	}
}

// unsound says what is wrong with a choice; "": nothing.
func unsound(got pick.Choice, w api.Wish) string {
	seen := map[string]bool{}
	count, sum, nodes := 0, 0.0, map[string]bool{}
	for _, c := range got.Slots {
		nodes[c.Node.Name] = true
		for _, at := range c.Slot.Units {
			key := c.Node.Name + c.Node.Units[at].Key
			if c.Node.Units[at].Held || seen[key] {
				return "a unit is held, or chosen twice"
			}
			seen[key] = true
		}
		switch {
		case c.Slot.Why != "" || c.Slot.SKU == "" || len(c.Node.Bars) > 0:
			return "a slot takes no claims"
		case !slices.ContainsFunc(c.Node.Slots, func(s pick.Slot) bool { return s.ID == c.Slot.ID }):
			return "a slot is of another node"
		case w.SKU != "" && c.Slot.SKU != w.SKU, w.GPU != "" && !hardware.Is(c.Slot.Model, w.GPU):
			return "a slot is something else"
		case w.MaxPrice != nil && c.Slot.Price == nil:
			return "a price is not known"
		case w.MaxPrice != nil:
			sum += *c.Slot.Price
		}
		if count++; w.GPU != "" {
			count += c.Slot.GPUs - 1
		}
	}
	switch {
	case count != max(w.Count, 1):
		return fmt.Sprintf("there are %d", count)
	case w.MaxPrice != nil && sum > *w.MaxPrice+1e-5:
		return fmt.Sprintf("it costs %f", sum)
	case !w.Spread && len(nodes) != 1:
		return "it is on several nodes"
	}
	return ""
}

// TestNothingIsOverlooked compares with a search through all sets of slots of one node: what can be met is met.
func TestNothingIsOverlooked(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(1_500) {
		r := rand.New(rand.NewPCG(seed, 2))
		nodes, w := fleet(r), wish(r)
		w.Spread, w.MaxPrice = false, nil
		if len(pick.Pick(nodes, w).Slots) > 0 {
			continue
		}
		refused++
		for i := range nodes {
			if fits(&nodes[i], w) {
				t.Errorf("seed %d: %+v is refused, and %s has it", seed, w, nodes[i].Name)
			}
		}
	}
	if refused < 200 {
		t.Errorf("%d wishes were refused: the test proves little", refused)
	}
}

// fits looks whether a node has one free slot of the wanted number of GPUs, or as many free slots of one GPU, or of the SKU. In these
// fleets the slots of one SKU share no units.
func fits(n *pick.Node, w api.Wish) bool {
	want, several := max(w.Count, 1), 0
	for i := range n.Slots {
		s := &n.Slots[i]
		isFree := s.Why == "" && s.SKU != "" && len(n.Bars) == 0 && !slices.ContainsFunc(s.Units, func(at int) bool { return n.Units[at].Held })
		switch {
		case !isFree:
		case w.SKU != "" && s.SKU == w.SKU:
			several++
		case w.GPU != "" && hardware.Is(s.Model, w.GPU) && s.GPUs == want:
			return true
		}
	}
	if w.GPU == "" {
		return several >= want
	}
	free := map[int]bool{} // units that a slot of one GPU has
	for i := range n.Slots {
		s := &n.Slots[i]
		if s.Why == "" && s.SKU != "" && len(n.Bars) == 0 && s.GPUs == 1 && hardware.Is(s.Model, w.GPU) && !n.Units[s.Units[0]].Held {
			free[s.Units[0]] = true
		}
	}
	return len(free) >= want
}
