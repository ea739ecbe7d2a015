package client

import (
	"context"
	"net/url"
	"strconv"

	"muster/gateway/api"
)

func fleetQuery(f api.FleetFilter) url.Values {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	set(q, "selector", f.Selector)
	set(q, "tenant", f.Tenant)
	set(q, "status", f.Status)
	set(q, "state", f.State)
	setIf(q, "idle", f.Idle)
	setIf(q, "unwell", f.Unwell)
	setIf(q, "all", f.All)
	set(q, "sort", f.Sort)
	set(q, "cursor", f.Cursor)
	return q
}

// Fleet gives one page of nodes at a glance.
func (c *Client) Fleet(ctx context.Context, f api.FleetFilter) (api.FleetView, error) {
	var view api.FleetView
	err := c.do(ctx, "GET", "fleet", fleetQuery(f), nil, &view)
	return view, err
}

// WholeFleet gives all nodes that the filter picks, on as many pages as that takes.
func (c *Client) WholeFleet(ctx context.Context, f api.FleetFilter) (api.FleetView, error) {
	const page = 5000 // one answer has a bound in bytes
	f.Limit = page
	f.Sort = "" // other orders have one page
	view, err := c.Fleet(ctx, f)
	for err == nil && view.Next != "" {
		f.Cursor = view.Next
		var more api.FleetView
		if more, err = c.Fleet(ctx, f); err == nil {
			view.Nodes = append(view.Nodes, more.Nodes...)
			view.Next = more.Next
		}
	}
	return view, err
}
