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

// asked is what a wish asks for, in a word.
func (w *want) asked() string { return cmp.Or(w.SKU, w.GPU) }

func (w *want) nowhere() string { return "no node has " + w.asked() }

// blockers say why nothing can be chosen: how much is free, and what is in the way of the rest, the most first.
func (w *want) blockers(nodes []Node) []string {
	free, most, tally := 0, 0, map[string]int{}
	var seen []bool
	for i := range nodes {
		n := &nodes[i]
		seen = append(seen[:0], make([]bool, len(n.Units))...)
		here := w.count(n, seen, func(blocker string) bool { return blocker == "" }, tally)
		w.count(n, seen, func(blocker string) bool { return blocker != "" && blocker != isLarger }, tally)
		w.count(n, seen, func(blocker string) bool { return blocker == isLarger }, tally)
		free, most = free+here, max(most, here)
	}
	delete(tally, "")
	if free == 0 && len(tally) == 0 {
		return []string{w.nowhere()}
	}
	return append([]string{w.shortage(free, most)}, counted(tally)...)
}

// count adds up what a node has of what is asked for: slots of a SKU, or GPUs. No GPU counts for two slots.
func (w *want) count(n *Node, seen []bool, counts func(blocker string) bool, tally map[string]int) (sum int) {
	for i := range n.Slots {
		s := &n.Slots[i]
		weight, blocker := w.weight(s), w.blocker(n, s)
		if weight > w.Count {
			blocker = isLarger
		}
		if weight == 0 || !counts(blocker) {
			continue
		}
		fresh := 0
		for _, at := range s.Units {
			if !seen[at] {
				seen[at] = true
				fresh++
			}
		}
		if w.SKU != "" {
			fresh = min(fresh, 1)
		}
		tally[blocker] += fresh
		sum += fresh
	}
	return sum
}

// shortage says what is missing, if so many are free, and so many on one node.
func (w *want) shortage(free, most int) string {
	state := "free"
	if w.anytime {
		state = "there"
	}
	text := fmt.Sprintf("%d x %s asked for, %d %s", w.Count, w.asked(), free, state)
	switch {
	case !w.Spread && most < w.Count && most < free:
		return text + fmt.Sprintf(", at most %d on one node", most)
	case free < w.Count:
		return text
	case w.MaxPrice != nil:
		return text + fmt.Sprintf(", none for %.2f an hour or less", *w.MaxPrice)
	}
	return text + ", in slots of other sizes"
}

// counted writes a tally as lines, the most first.
func counted(tally map[string]int) (lines []string) {
	names := slices.SortedFunc(maps.Keys(tally), func(a, b string) int { return cmp.Or(cmp.Compare(tally[b], tally[a]), cmp.Compare(a, b)) })
	for _, name := range names {
		if tally[name] > 0 {
			lines = append(lines, fmt.Sprintf("%d: %s", tally[name], name))
		}
	}
	return lines
}

// Could says why these nodes could not meet a wish even if all of their slots were free and approved; "": they could. nearest are SKUs, or
// models, that exist and have a similar name.
func Could(nodes []Node, wish api.Wish) (why string, nearest []string) {
	w := newWant(wish)
	w.anytime = true
	if len(w.place(nodes)) > 0 {
		return "", nil
	}
	there := map[string]bool{}
	for i := range nodes {
		for j := range nodes[i].Slots {
			s := &nodes[i].Slots[j]
			switch {
			case s.SKU == "":
			case w.SKU != "":
				there[s.SKU] = true
			case s.Part == "" && s.Model != sku.ModelMixed:
				there[s.Model] = true
			}
		}
	}
	lines := w.blockers(nodes)
	if lines[0] == w.nowhere() {
		nearest = sku.Nearest(w.asked(), slices.Collect(maps.Keys(there)))
	}
	return strings.Join(lines, "; "), nearest
}
