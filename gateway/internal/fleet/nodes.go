package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
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

// Nodes lists nodes page by page. Refusals are *wire.ErrorDetail.
func (f *Fleet) Nodes(ctx context.Context, q store.NodeQuery) (Page, error) {
	f.watch(ctx)
	rows, next, total, err := f.store.Nodes(ctx, q)
	if errors.Is(err, store.ErrBadCursor) {
		return Page{}, wire.Refuse(wire.CodeBadRequest, "this cursor does not come from a list", "begin again without a cursor")
	}
	return Page{api.Each(rows, f.node), next, total}, err
}

// These returns the nodes with these ids, by name. It leaves out ids that are not there.
func (f *Fleet) These(ctx context.Context, ids []string) ([]Node, error) {
	f.watch(ctx)
	rows, err := f.store.NodesByID(ctx, ids)
	slices.SortFunc(rows, func(a, b store.Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return api.Each(rows, f.node), err
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
	n := Node{Node: row, Status: ref.Status(row.State, row.LastSeen, row.Interval)}
	n.Unheard = n.Status == store.StatusOnline && !ref.Heard(*row.LastSeen)
	return n
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
