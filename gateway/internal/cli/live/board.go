// Package live keeps a picture of the fleet on a terminal. It follows what the gateway tells, and draws until a person has seen enough.
package live

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Board has the nodes that a live picture shows, as the gateway last told them. It is for one goroutine.
type Board struct {
	rows  []*api.NodeRow // by name
	place map[string]int // in rows, by id
	ahead time.Duration  // what the gateway's clock is ahead of this one

	Version int       // another one where the nodes have changed
	Loaded  bool      // the gateway has told all nodes
	Heard   time.Time // by this machine's clock: when it last told something
	Lost    error     // why it cannot be heard; nil: it can be
}

// Now turns a time of this machine's clock into the gateway's.
func (b *Board) Now(here time.Time) time.Time { return here.Add(b.ahead) }

// Take takes in what the gateway told. here is the present time by this machine's clock.
func (b *Board) Take(n News, here time.Time) {
	switch {
	case n.Lost != nil:
		b.Lost = n.Lost
		return
	case n.Fleet != nil:
		b.load(n.Fleet, here)
	case n.Nodes != nil:
		b.change(n.Nodes)
	}
	b.Version++
	b.Lost = nil
	b.Heard = here
}

// Trouble says in one line that the gateway is lost, and how old the picture is.
func (b *Board) Trouble(here time.Time) string {
	text := "the gateway does not answer, and is tried again"
	if b.Loaded {
		text += "; this is " + screen.Age(here.Sub(b.Heard)) + " old"
	}
	return screen.Printable(text + ": " + Reason(b.Lost))
}

// Reason returns an error in one line, with what to do about it.
func Reason(err error) string {
	var detail *wire.ErrorDetail
	if errors.As(err, &detail) && detail.Hint != "" {
		return detail.Message + " (" + detail.Hint + ")"
	}
	return err.Error()
}

func (b *Board) load(view *api.FleetView, here time.Time) {
	b.rows = make([]*api.NodeRow, len(view.Nodes))
	for i := range view.Nodes {
		b.rows[i] = &view.Nodes[i]
	}
	if !view.At.IsZero() {
		b.ahead = view.At.Sub(here)
	}
	b.Loaded = true
	b.arrange()
}

func (b *Board) change(n *api.StreamNodes) {
	moved := len(n.Gone) > 0
	for _, node := range n.Nodes {
		i, known := b.place[node.ID]
		if !known {
			i = len(b.rows)
			b.place[node.ID] = i
			b.rows = append(b.rows, node)
		}
		moved = moved || !known || b.rows[i].Name != node.Name
		b.rows[i] = node
	}
	if !moved {
		return
	}
	gone := make(map[string]bool, len(n.Gone))
	for _, id := range n.Gone {
		gone[id] = true
	}
	b.rows = slices.DeleteFunc(b.rows, func(g *api.NodeRow) bool { return gone[g.ID] })
	b.arrange()
}

// arrange brings the rows into the order of names.
func (b *Board) arrange() {
	slices.SortFunc(b.rows, func(x, y *api.NodeRow) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID)) })
	b.place = make(map[string]int, len(b.rows))
	for i, g := range b.rows {
		b.place[g.ID] = i
	}
}

// Rows returns the nodes in an order, one of api.Sorts; with idle, only those on which nothing works. Nobody may change them.
func (b *Board) Rows(idle bool, order string) []*api.NodeRow {
	rows := slices.Clone(b.rows)
	if idle {
		rows = slices.DeleteFunc(rows, func(g *api.NodeRow) bool { return g.IdleSince == nil })
	}
	if order != "" && order != api.SortName {
		api.Sort(rows, order)
	}
	return rows
}

// Find returns the node with an id or, if no node has that id, with a name.
func (b *Board) Find(reference string) (*api.NodeRow, bool) {
	if i, known := b.place[reference]; known {
		return b.rows[i], true
	}
	i := slices.IndexFunc(b.rows, func(g *api.NodeRow) bool { return g.Name == reference })
	if i < 0 {
		return nil, false
	}
	return b.rows[i], true
}
