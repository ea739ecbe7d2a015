package pick

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/sku"
)

// SKUs returns the SKUs of the slots that these nodes give, by name.
func SKUs(nodes []Node) []api.SKU {
	all := map[string]*api.SKU{}
	last := map[string]int{} // the node that was counted last
	for i := range nodes {
		n := &nodes[i]
		for j := range n.Slots {
			s := &n.Slots[j]
			if s.SKU == "" {
				continue
			}
			entry := all[s.SKU]
			if entry == nil {
				entry = &api.SKU{Name: s.SKU, Shape: s.Shape, Model: s.Model, GPUs: s.GPUs}
				all[s.SKU] = entry
			}
			if last[s.SKU] != i+1 {
				last[s.SKU] = i + 1
				entry.Nodes++
			}
			add(entry, n, s)
		}
	}
	list := []api.SKU{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list
}

// add counts a slot.
func add(entry *api.SKU, n *Node, s *Slot) {
	if s.Why == "" {
		entry.Slots++
	}
	if s.Why == "" && len(n.Bars) == 0 && !n.isHeld(s) {
		entry.Free++
	}
	if s.Price == nil {
		return
	}
	if entry.PriceMin == nil || *s.Price < *entry.PriceMin {
		entry.PriceMin = s.Price
	}
	if entry.PriceMax == nil || *s.Price > *entry.PriceMax {
		entry.PriceMax = s.Price
	}
}

// Explain says which nodes give slots of a SKU, which do not, and why not. A node qualifies if a slot of the SKU is approved there and
// nothing bars the node.
func Explain(name string, nodes []Node) api.SKUExplained {
	kind, _ := sku.Parse(name)
	e := api.SKUExplained{
		SKU:   api.SKU{Name: name, Shape: kind.Shape, Model: kind.Model, GPUs: kind.GPUs},
		Rules: sku.Rules(name), Nearest: []string{}, Counts: []api.SKUCount{}, List: []api.SKUVerdict{},
	}
	list := make([]verdict, len(nodes))
	tally, there := map[string]int{}, map[string]bool{}
	qualified := 0
	for i := range nodes {
		v := judgeNode(&e.SKU, kind, &nodes[i], there)
		list[i] = v
		if v.why == "" {
			qualified++
		} else {
			tally[v.why]++
		}
	}
	if qualified == 0 {
		delete(there, name)
		e.Nearest = append(e.Nearest, sku.Nearest(name, slices.Collect(maps.Keys(there)))...)
	}
	for why, n := range tally {
		e.Counts = append(e.Counts, api.SKUCount{Why: why, Nodes: n})
	}
	slices.SortFunc(e.Counts, func(a, b api.SKUCount) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Why, b.Why)) })
	slices.SortFunc(list, compare)
	for _, v := range list[:min(len(list), api.MostVerdicts)] {
		e.List = append(e.List, v.shown())
	}
	return e
}

// verdict says whether one node qualifies for a SKU.
type verdict struct {
	node  *Node
	why   string // why it does not; empty: it does
	gives bool   // it gives slots
	has   bool   // of the SKU
	slots int    // approved
	free  int
	taken int
	off   map[string]int // slots by their own reasons; nil: none has any
}

// compare puts nodes that qualify first, then those that give such slots.
func compare(a, b verdict) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.node.Name, b.node.Name))
}

func (v verdict) rank() int {
	switch {
	case v.why == "":
		return 0
	case v.has:
		return 1
	}
	return 2
}

// shown writes a verdict out. Most nodes' verdicts are only counted.
func (v verdict) shown() api.SKUVerdict {
	s := api.SKUVerdict{Node: v.node.Name, Slots: v.slots, Free: v.free, Why: []string{}}
	if !v.has && (v.gives || len(v.node.Bars) == 0) {
		s.Why = append(s.Why, v.why)
	}
	s.Why = append(append(s.Why, v.node.Bars...), counted(v.off)...)
	if v.taken > 0 {
		s.Why = append(s.Why, fmt.Sprintf("%d: %s", v.taken, isTaken))
	}
	return s
}

// judgeNode looks at one node, adds its slots to the SKU, and notes what else there is.
func judgeNode(entry *api.SKU, kind sku.Kind, n *Node, there map[string]bool) verdict {
	v := verdict{node: n}
	before := ""
	for i := range n.Slots {
		s := &n.Slots[i]
		if s.SKU != before && s.SKU != "" { // slots of one SKU mostly stand together
			before = s.SKU
			there[s.SKU], v.gives = true, true
		}
		if s.SKU != entry.Name {
			continue
		}
		v.has = true
		free := entry.Free
		add(entry, n, s)
		v.free += entry.Free - free
		v.count(s)
	}
	if v.has {
		entry.Nodes++
	}
	v.why = v.reason(kind)
	return v
}

// count counts a slot of the SKU by its state.
func (v *verdict) count(s *Slot) {
	if s.Why != "" {
		if v.off == nil {
			v.off = map[string]int{}
		}
		v.off[s.Why]++
		return
	}
	v.slots++
	if v.node.isHeld(s) {
		v.taken++
	}
}

// reason says why a node does not qualify; "": it does.
func (v verdict) reason(kind sku.Kind) string {
	switch {
	case !v.has && v.gives:
		return lacks(v.node, kind)
	case len(v.node.Bars) > 0:
		return v.node.Bars[0]
	case !v.has:
		return "no slots"
	case v.slots > 0:
		return ""
	}
	return slices.MinFunc(slices.Collect(maps.Keys(v.off)), func(a, b string) int {
		return cmp.Or(cmp.Compare(v.off[b], v.off[a]), cmp.Compare(a, b))
	})
}

// lacks says what a node has in the place of a kind of slots.
func lacks(n *Node, kind sku.Kind) string {
	var models, sizes []string
	shaped := false
	for i := range n.Slots {
		s := &n.Slots[i]
		if s.SKU == "" {
			continue
		}
		if !slices.Contains(models, s.Model) {
			models = append(models, s.Model)
		}
		if s.Model == kind.Model && s.Shape == kind.Shape {
			shaped = true
			if size := fmt.Sprint(s.GPUs); !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	switch {
	case !slices.Contains(models, kind.Model):
		return "its GPUs are " + strings.Join(models, ", ")
	case !shaped:
		return "its profile gives no slots of shape " + kind.Shape
	case kind.Shape == api.ShapeGPU, slices.Contains(sizes, fmt.Sprint(kind.GPUs)):
		return "its GPUs are whole, or divided in another way"
	}
	return fmt.Sprintf("its slots of shape %s have %s GPUs", kind.Shape, strings.Join(sizes, ", "))
}
