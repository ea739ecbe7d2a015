package view

import (
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
)

// Query picks nodes. A zero field does not restrict the result. Retired nodes are left out, unless All or the state asks for them.
type Query struct {
	Tenant string
	Terms  []label.Term // see label.ParseSelector
	Status string
	State  string
	Idle   bool // nodes whose GPUs are all idle
	Unwell bool // nodes with findings
	All    bool
	Sort   string // one of api.Sorts, maybe with a minus; empty: by name
}

// retired is true if retired nodes are picked too.
func (q *Query) retired() bool {
	isRetired := label.Term{Key: "state", Op: label.OpEquals, Value: wire.StateRetired}
	return q.All || q.State == wire.StateRetired || slices.Contains(q.Terms, isRetired)
}

// picks decides about one node.
func (q *Query) picks(g *api.NodeRow, retired bool) bool {
	switch {
	case q.Tenant != "" && g.Tenant != q.Tenant, q.Status != "" && g.Status != q.Status, q.State != "" && g.State != q.State,
		q.Idle && g.IdleSince == nil, q.Unwell && len(g.Findings) == 0, !retired && g.State == wire.StateRetired:
		return false
	}
	return label.Matches(q.Terms, g)
}

// Nodes returns the nodes that are not retired, by name. Nobody may change them.
func (p *Fleet) Nodes() []*api.NodeRow { return p.rows(&Query{}) }

// Rows returns the nodes that a query picks, by name unless the query sorts them, and their totals. Nobody may change the rows.
func (p *Fleet) Rows(q Query) ([]*api.NodeRow, api.Totals) {
	rows := p.rows(&q)
	if q.Sort != "" { // they are by name already
		api.Sort(rows, q.Sort)
	}
	return rows, api.Count(rows)
}

func (p *Fleet) rows(q *Query) []*api.NodeRow {
	retired := q.retired()
	p.mu.RLock()
	defer p.mu.RUnlock()
	rows := make([]*api.NodeRow, 0, len(p.order))
	for _, n := range p.order {
		if q.picks(n.row, retired) {
			rows = append(rows, n.row)
		}
	}
	return rows
}
