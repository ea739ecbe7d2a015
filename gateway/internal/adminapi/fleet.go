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
func (s *server) showFleet(c *call) (any, error) {
	p, err := c.query("selector", "tenant", "status", "state", "idle", "unwell", "all", "sort", "limit", "cursor", "brief")
	if err != nil {
		return nil, err
	}
	q, err := c.fleetQuery(p)
	if err != nil {
		return nil, err
	}
	limit, err := p.number("limit", 0, api.LargestFleet)
	if err != nil {
		return nil, err
	}
	if !p.has("limit") {
		limit = usualPage
	}
	brief, err := p.flag("brief")
	if err != nil {
		return nil, err
	}
	after, err := page.Read(p.text("cursor"), q.Sort)
	if err != nil {
		return nil, err
	}
	if !s.Overview.Ready() {
		return nil, stillReading()
	}
	rows, totals := s.Overview.Rows(q)
	view := api.FleetView{At: s.now(), Totals: totals}
	nodes, next := page.Cut(rows, after, int(limit), q.Sort)
	view.Next = next
	page.Send(c.w, view, nodes, brief)
	return streamed{}, nil
}

// stillReading refuses to show a part of the fleet as if it were the whole.
func stillReading() error {
	return wire.Refuse(wire.CodeUnavailable, "the gateway has just started, and still reads its nodes", "ask again in a few seconds")
}

// fleetQuery reads what picks and orders nodes.
func (c *call) fleetQuery(p parameters) (q view.Query, err error) {
	q = view.Query{Status: p.text("status"), State: p.text("state"), Sort: p.text("sort")}
	if q.Tenant, err = c.caller.Within(p.text("tenant")); err != nil {
		return q, err
	}
	if q.Terms, err = label.ParseSelector(p.text("selector")); err != nil {
		return q, err
	}
	if err = label.CheckSelector(q.Status, q.State, q.Terms); err != nil {
		return q, err
	}
	if q.Sort != "" && !api.IsSort(q.Sort) {
		return q, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("nodes cannot be sorted by %.40q", q.Sort),
			"sort by one of "+strings.Join(api.Sorts(), ", ")+", maybe with a minus before it")
	}
	if q.Idle, err = p.flag("idle"); err != nil {
		return q, err
	}
	if q.Unwell, err = p.flag("unwell"); err != nil {
		return q, err
	}
	q.All, err = p.flag("all")
	return q, err
}
