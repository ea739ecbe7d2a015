package pick

import (
	"slices"

	"muster/gateway/api"
)

// Taken has the units that earlier wishes wait for, by node and key. Later wishes do not get these.
type Taken map[string]map[string]bool

// Add adds the units that a wish could use once enough of them are free. nodes are the nodes that the wish may use.
func (t Taken) Add(nodes []Node, wish api.Wish) {
	w := newWant(wish)
	w.anytime = true
	for i := range nodes {
		n := &nodes[i]
		c, some := w.judge(n)
		if !some || !c.fits && !w.Spread {
			continue
		}
		if t[n.ID] == nil {
			t[n.ID] = map[string]bool{}
		}
		for j := range n.Slots {
			s := &n.Slots[j]
			if w.weight(s) == 0 || w.blocker(n, s) != "" {
				continue
			}
			for _, at := range s.Units {
				t[n.ID][n.Units[at].Key] = true
			}
		}
	}
}

// Without returns copies of the nodes on which everything that is taken counts as held. The nodes that are given do not change.
func (t Taken) Without(nodes []Node) []Node {
	out := slices.Clone(nodes)
	for i := range out {
		n := &out[i]
		taken := t[n.ID]
		if len(taken) == 0 {
			continue
		}
		n.Units = slices.Clone(n.Units)
		for j := range n.Units {
			n.Units[j].Held = n.Units[j].Held || taken[n.Units[j].Key]
		}
	}
	return out
}
