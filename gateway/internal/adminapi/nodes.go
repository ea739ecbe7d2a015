package adminapi

import (
	"cmp"
	"context"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/page"
	"muster/gateway/internal/adminapi/row"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
	"muster/store"
)

// listNodes lists one page of nodes. The query has the caller's tenant, so a selector for another tenant finds nothing.
func (c *call) listNodes(f api.NodeFilter) (any, error) {
	if f.Selector != "" || f.Status != "" || f.State != "" {
		return c.pickedNodes(f)
	}
	list, err := c.Fleet.Nodes(c.Context(), store.NodeQuery{Tenant: c.Caller.Tenant, Retired: f.All, Limit: f.Limit, Cursor: f.Cursor})
	return api.NodePage{Nodes: api.Each(list.Nodes, c.node), Next: list.Next, Total: list.Total}, err
}

// pickedNodes asks the view, after it has seen all that has happened so far.
func (c *call) pickedNodes(f api.NodeFilter) (any, error) {
	q, err := fleetQuery(api.FleetFilter{Selector: f.Selector, Status: f.Status, State: f.State, All: f.All, Tenant: c.Caller.Tenant})
	if err != nil {
		return nil, err
	}
	after, err := page.Read(f.Cursor, "")
	if err != nil {
		return nil, err
	}
	ctx := c.Context()
	if byHeartbeat(&q) {
		if err := c.Fleet.Flush(ctx); err != nil { // the view takes what was written
			return nil, err
		}
	}
	whole := context.WithoutCancel(ctx) // others get these events too, and only once
	if err := cmp.Or(c.Tail.Read(whole), c.Overview.Settle(ctx)); err != nil {
		return nil, err
	}
	if c.Placement != nil {
		c.Placement.Settle()
	}
	rows, _ := c.Overview.Rows(q)
	picked, next := page.Cut(rows, after, f.Limit, "")
	ids := make([]string, len(picked))
	for i, row := range picked {
		ids[i] = row.ID
	}
	nodes, err := c.Fleet.These(ctx, ids)
	return api.NodePage{Nodes: api.Each(nodes, c.node), Next: next, Total: len(rows)}, err
}

// byHeartbeat is true of a query by what nodes report. Others do not wait for a write, and go on while the database takes none.
func byHeartbeat(q *view.Query) bool {
	return q.Status != "" || slices.ContainsFunc(q.Terms, func(t label.Term) bool { return t.Key == "status" || t.Key == "gpus" })
}

// showNode finds a node by its name or its id.
func (c *call) showNode() (any, error) {
	d, err := c.Fleet.Detail(c.Context(), c.Caller.Tenant, c.Named("node"))
	return c.detail(d), err
}

// node is a node with what the release part knows of it.
func (s *server) node(n fleet.Node) api.Node {
	out := shownNode(n)
	if s.Releases != nil {
		out.Update = s.Releases.Updating(n.ID)
	}
	if row, known := s.Overview.Row(n.ID); known {
		out.Placement, out.DownCost = row.Placement, row.DownCost
	}
	return out
}

func (s *server) detail(d fleet.Detail) api.NodeDetail {
	out := shownDetail(d)
	out.Node = s.node(d.Node)
	out.Findings = s.findings(d.ID)
	out.Today = s.today(d.ID)
	return out
}

// moved is the answer with a node that the caller has changed.
func (c *call) moved(n fleet.Node, err error) (any, error) {
	if err == nil {
		c.renew(n)
	}
	return c.node(n), err
}

// renew makes new what memory has of a node, before its change is answered: so the caller sees the change with the next request.
func (c *call) renew(n fleet.Node) {
	c.Overview.Moved(c.Context(), n.Node)
	if c.Releases != nil {
		c.Releases.Moved(n.Node)
	}
}

// apply serves the routes that move a node.
func apply(verb fleet.Verb) func(*call) (any, error) {
	return row.Reads(func(c *call, _ struct{}) (any, error) {
		n, err := c.Fleet.Apply(c.Context(), c.Caller.Tenant, c.Named("node"), verb, c.Caller.Actor)
		return c.moved(n, err)
	})
}

// setLabels changes some of the operator's labels and leaves the others as they are.
func (c *call) setLabels(q api.LabelsRequest) (any, error) {
	if len(q.Set)+len(q.Remove) == 0 {
		return nil, wire.Refuse(wire.CodeBadRequest, "there is no label to set or remove",
			`send {"set":{"tier":"sovereign"}} or {"remove":["tier"]}`)
	}
	if err := noToken("", q.Set); err != nil {
		return nil, err
	}
	n, err := c.Fleet.SetLabels(c.Context(), c.Caller.Tenant, c.Named("node"), q.Set, q.Remove, c.Caller.Actor)
	return c.moved(n, err)
}

// allowRecovery lets a node back in, or ends an identity conflict in favour of one certificate.
func (c *call) allowRecovery(q api.RecoveryRequest) (any, error) {
	n, err := c.Fleet.AllowRecovery(c.Context(), c.Caller.Tenant, c.Named("node"), q, c.Caller.Actor)
	return c.moved(n, err)
}

// patchNode sets how many GPUs a node should have.
func (c *call) patchNode(q api.NodePatch) (any, error) {
	const example = `send {"gpus_expected":7} or {"gpus_as_seen":true}`
	n := -1 // the number that is seen
	switch {
	case (q.GPUsExpected == nil) == !q.GPUsAsSeen:
		return nil, wire.Refuse(wire.CodeBadRequest, "one of gpus_expected and gpus_as_seen has to be set", example)
	case q.GPUsExpected != nil && *q.GPUsExpected < 0:
		return nil, wire.Refuse(wire.CodeBadRequest, "a node cannot have fewer than 0 GPUs", example)
	case q.GPUsExpected != nil:
		n = *q.GPUsExpected
	}
	node, err := c.Fleet.SetGPUs(c.Context(), c.Caller.Tenant, c.Named("node"), n, c.Caller.Actor)
	return c.moved(node, err)
}
