package adminapi

import (
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/page"
	"muster/gateway/internal/label"
	"muster/gateway/internal/view"
)

// showFleet sends nodes at a glance, out of memory. Their totals are those of all that the query picks, on whatever page.
func (c *call) showFleet(f fleetFilter) (any, error) {
	q, err := fleetQuery(f.FleetFilter)
	if err != nil {
		return nil, err
	}
	after, err := page.Read(f.Cursor, q.Sort)
	if err != nil {
		return nil, err
	}
	if !c.Overview.Ready() {
		return nil, stillReading()
	}
	rows, totals := c.Overview.Rows(q)
	view := api.FleetView{At: c.now(), Totals: totals}
	nodes, next := page.Cut(rows, after, f.Limit, q.Sort)
	view.Next = next
	page.Send(c.W, view, nodes, f.Brief)
	return streamed{}, nil
}

// fleetFilter is what showFleet takes. Brief nodes are for the console.
type fleetFilter struct {
	api.FleetFilter
	Brief bool `json:"brief"`
}

// stillReading refuses to show a part of the fleet as if it were the whole.
func stillReading() error {
	return wire.Refuse(wire.CodeUnavailable, "the gateway has just started, and still reads its nodes", "ask again in a few seconds")
}

// fleetQuery is what picks and orders nodes.
func fleetQuery(f api.FleetFilter) (q view.Query, err error) {
	q = view.Query{Tenant: f.Tenant, Status: f.Status, State: f.State, Sort: f.Sort, Idle: f.Idle, Unwell: f.Unwell, All: f.All}
	if q.Terms, err = label.ParseSelector(f.Selector); err != nil {
		return q, err
	}
	if err = label.CheckSelector(q.Status, q.State, q.Terms); err != nil {
		return q, err
	}
	if q.Sort != "" && !api.IsSort(q.Sort) {
		return q, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("nodes cannot be sorted by %.40q", q.Sort),
			"sort by one of "+strings.Join(api.Sorts(), ", ")+", maybe with a minus before it")
	}
	return q, nil
}

// terms reads a selector of nodes.
func terms(selector string) ([]label.Term, error) {
	terms, err := label.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	return terms, label.CheckSelector("", "", terms)
}

// ofTenant is the filter of lists that have no other.
type ofTenant struct {
	Tenant string `json:"tenant"`
}
