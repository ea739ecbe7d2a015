package pick

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// fill chooses slots of one node that meet the whole wish and are within its price; nil: they do not. One slot of the right size is better
// than several small ones, since its GPUs are linked.
func (w *want) fill(n *Node) []Chosen {
	used := make([]bool, len(n.Units))
	sizes := []int{w.Count, 1}
	if w.SKU != "" {
		sizes = sizes[1:]
	}
	for _, size := range sizes {
		clear(used)
		if chosen := w.take(n, size, w.Count/size, used); len(chosen)*size == w.Count && w.isAffordable(chosen) {
			return chosen
		}
	}
	return nil
}

// scatter chooses slots on several nodes that meet the whole wish; nil: there are none. It fills up what is begun. If that costs too much,
// or does not come out even, it tries the cheapest nodes first, and then those with the most room.
func (w *want) scatter(nodes []Node) []Chosen {
	var all []candidate
	for i := range nodes {
		if c, ok := w.judge(&nodes[i]); ok {
			c.needed, c.breaks = 0, c.free == len(nodes[i].Units) // each gives what it has
			all = append(all, c)
		}
	}
	cheapest := func(a, b candidate) int { return cmp.Or(cmp.Compare(a.price, b.price), packed(a, b)) }
	roomiest := func(a, b candidate) int { return cmp.Or(cmp.Compare(b.free, a.free), packed(a, b)) }
	for _, order := range []func(a, b candidate) int{packed, cheapest, roomiest} {
		slices.SortFunc(all, order)
		if chosen := w.drain(all); w.isAffordable(chosen) {
			return chosen
		}
	}
	return nil
}

// drain takes from each node what it has, large slots first, until the count is met; nil: it is not.
func (w *want) drain(nodes []candidate) (chosen []Chosen) {
	left := w.Count
	for _, c := range nodes {
		var sizes []int
		for i := range c.node.Slots {
			if size := w.weight(&c.node.Slots[i]); size > 0 && !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
		slices.SortFunc(sizes, func(a, b int) int { return b - a })
		used := make([]bool, len(c.node.Units))
		for _, size := range sizes {
			got := w.take(c.node, size, left/size, used)
			left -= len(got) * size
			chosen = append(chosen, got...)
		}
		if left == 0 {
			return chosen
		}
	}
	return nil
}

// option is a slot that could be taken.
type option struct {
	slot   *Slot
	key    string // of its first unit: the order of addresses, among equals
	cost   int    // GPUs of the free slots that it shares units with, so that they are lost with it
	port   string
	numa   string
	atPort int // options behind the same root port
	atNUMA int // options on the same NUMA node
}

// take chooses up to count slots of one size, none of which has a used unit, and marks their units as used. Several slots come from the
// smallest group that has as many: behind one root port, or else on one NUMA node. A single slot is one whose loss breaks up least.
func (w *want) take(n *Node, size, count int, used []bool) (chosen []Chosen) {
	if count == 0 {
		return nil
	}
	all := w.options(n, size, used)
	if count > 1 {
		all = tightest(all, count)
	}
	slices.SortFunc(all, func(a, b option) int {
		if count == 1 {
			return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.atPort, b.atPort), cmp.Compare(a.atNUMA, b.atNUMA),
				cmp.Compare(a.key, b.key))
		}
		return cmp.Or(cmp.Compare(b.atNUMA, a.atNUMA), cmp.Compare(a.numa, b.numa), cmp.Compare(b.atPort, a.atPort), cmp.Compare(a.port, b.port),
			cmp.Compare(a.cost, b.cost), cmp.Compare(a.key, b.key))
	})
	for _, o := range all[:min(count, len(all))] {
		chosen = append(chosen, Chosen{n, o.slot})
		for _, at := range o.slot.Units {
			used[at] = true
		}
	}
	return chosen
}

// options are the slots of one size that can be chosen, the best first. If two of them share a unit, only the better one is there.
func (w *want) options(n *Node, size int, used []bool) (all []option) {
	for i := range n.Slots {
		s := &n.Slots[i]
		if w.weight(s) == size && w.blocker(n, s) == "" {
			all = append(all, option{slot: s, key: n.Units[s.Units[0]].Key, cost: w.loss(n, s), port: n.common(s, port), numa: n.common(s, numa)})
		}
	}
	slices.SortFunc(all, func(a, b option) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.key, b.key)) })
	used = slices.Clone(used)
	ports, numas := map[string]int{}, map[string]int{}
	all = slices.DeleteFunc(all, func(o option) bool {
		if slices.ContainsFunc(o.slot.Units, func(at int) bool { return used[at] }) {
			return true
		}
		for _, at := range o.slot.Units {
			used[at] = true
		}
		ports[o.port]++
		numas[o.numa]++
		return false
	})
	for i := range all {
		all[i].atPort, all[i].atNUMA = ports[all[i].port], numas[all[i].numa]
	}
	return all
}

// tightest keeps the options of the smallest group that has enough of them; all, if none has.
func tightest(all []option, count int) []option {
	for _, group := range []func(option) (string, int){
		func(o option) (string, int) { return o.port, o.atPort }, func(o option) (string, int) { return o.numa, o.atNUMA },
	} {
		name, least := "", math.MaxInt
		for _, o := range all {
			if here, size := group(o); here != "" && size >= count && size < least {
				name, least = here, size
			}
		}
		if name != "" {
			return slices.DeleteFunc(all, func(o option) bool { here, _ := group(o); return here != name })
		}
	}
	return all
}

// loss is the GPUs of the free slots that share a unit with a slot: what nobody else can have when it is taken.
func (w *want) loss(n *Node, s *Slot) (gpus int) {
	for i := range n.Slots {
		other := &n.Slots[i]
		shares := slices.ContainsFunc(other.Units, func(at int) bool { return slices.Contains(s.Units, at) })
		if shares && other != s && (w.anytime || other.Why == "" && !n.isHeld(other)) {
			gpus += other.GPUs
		}
	}
	return gpus
}

// common is what all units of a slot have in common; "": nothing, or it is not known.
func (n *Node) common(s *Slot, of func(*Unit) string) (name string) {
	for i, at := range s.Units {
		here := of(&n.Units[at])
		if i > 0 && here != name {
			return ""
		}
		name = here
	}
	return name
}

func port(u *Unit) string { return u.Switch }

func numa(u *Unit) string {
	if u.NUMA == nil {
		return ""
	}
	return strconv.Itoa(*u.NUMA)
}

// each is the price of one of what a slot gives; an unknown one is above all others.
func each(s *Slot, weight int) float64 {
	if s.Price == nil {
		return math.Inf(1)
	}
	return *s.Price / float64(weight)
}

// price is what slots cost together; false: the price of one is not known.
func price(chosen []Chosen) (sum float64, known bool) {
	for _, c := range chosen {
		if c.Slot.Price == nil {
			return 0, false
		}
		sum += *c.Slot.Price
	}
	return sum, true
}

// isAffordable reports whether something was chosen and is within the price. Sums of decimal fractions are not exact.
func (w *want) isAffordable(chosen []Chosen) bool {
	const inexact = 1e-6
	sum, known := price(chosen)
	return len(chosen) > 0 && (w.MaxPrice == nil || known && sum <= *w.MaxPrice+inexact)
}
