package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
)

// Node is a node's row with its present status.
type Node struct {
	store.Node
	Status  string // pending, online or stale
	Unheard bool   // it is online by what was heard before the gateway's start
}

// Page is one page of a list of nodes. Total counts all matches, Next is empty on the last page.
type Page struct {
	Nodes []Node
	Next  string
	Total int
}

// Nodes returns one page of the nodes of a tenant ("": of all), ordered by name. A query by status or by the number of GPUs
// flushes first, because the database finds the nodes by the heartbeats that it holds.
func (f *Fleet) Nodes(ctx context.Context, tenant string, q api.NodeFilter) (Page, error) {
	terms, err := label.ParseSelector(q.Selector)
	if err != nil {
		return Page{}, err
	}
	if err := label.CheckSelector(q.Status, q.State, terms); err != nil {
		return Page{}, err
	}
	f.watch(ctx)
	if byHeartbeat(q.Status, terms) {
		if err := f.Flush(ctx); err != nil {
			return Page{}, err
		}
	}
	rows, next, total, err := f.store.Nodes(ctx, store.NodeQuery{
		Tenant: tenant, Terms: terms, Status: q.Status, State: q.State,
		Retired: q.All || q.State == string(Retired), Limit: q.Limit, Cursor: q.Cursor, Ref: f.Ref(),
	})
	if errors.Is(err, store.ErrBadCursor) {
		return Page{}, wire.Refuse(wire.CodeBadRequest, "this cursor does not come from a list", "begin again without a cursor")
	}
	if err != nil {
		return Page{}, err
	}
	page := Page{Next: next, Total: total, Nodes: make([]Node, len(rows))}
	for i := range rows {
		page.Nodes[i] = f.node(rows[i])
	}
	return page, nil
}

// Node finds one node by id or name, within a tenant unless that is empty.
func (f *Fleet) Node(ctx context.Context, tenant, idOrName string) (Node, error) {
	f.watch(ctx)
	row, err := f.store.Node(ctx, tenant, idOrName)
	if errors.Is(err, store.ErrNotFound) {
		return Node{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no node is called %.80q", idOrName),
			"muster node ls --all shows the names")
	}
	if err != nil {
		return Node{}, err
	}
	return f.node(row), nil
}

func (f *Fleet) node(row store.Node) Node {
	f.overlay(&row)
	ref := f.Ref()
	n := Node{Node: row, Status: ref.Status(row.LastSeen, row.Interval)}
	n.Unheard = n.Status == store.StatusOnline && !ref.Heard(*row.LastSeen)
	return n
}

func byHeartbeat(status string, terms []store.Term) bool {
	return status != "" || slices.ContainsFunc(terms, func(t store.Term) bool { return t.Key == "status" || t.Key == "gpus" })
}

// Detail is a node with its certificates and runs. An operator needs them to choose when two machines use its identity.
type Detail struct {
	Node
	Certificates []store.Certificate // of the present enrolment, newest first
	Runs         []store.Run         // of its agents; the run that was heard last comes first
}

// Detail finds one node as Node does. Memory knows more about the runs than the database, if it knows the node.
func (f *Fleet) Detail(ctx context.Context, tenant, idOrName string) (Detail, error) {
	n, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Detail{}, err
	}
	d := Detail{Node: n}
	if d.Certificates, err = f.store.Certificates(ctx, n.ID); err != nil {
		return Detail{}, err
	}
	if d.Runs = f.runs(n.ID); d.Runs == nil {
		d.Runs, err = f.store.Runs(ctx, n.ID)
	}
	return d, err
}
