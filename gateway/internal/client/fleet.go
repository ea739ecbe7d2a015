package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"muster/gateway/api"
)

// LargestFleet is how many nodes one page of GET fleet has at most.
const LargestFleet = 20_000

// FleetView answers GET fleet: the nodes that the query names, and the totals of all that match it.
type FleetView struct {
	At     time.Time  `json:"at"` // of the gateway's clock
	Totals api.Totals `json:"totals"`
	Next   string     `json:"next"`  // empty: this is the last page
	Nodes  []api.Node `json:"nodes"` // the last member: the gateway sends them as it goes
}

// FleetFilter picks nodes. A zero field does not count.
type FleetFilter struct {
	Selector, Tenant, Status, State string
	Idle                            bool // nodes whose GPUs are all idle
	Unwell                          bool // nodes with findings
	All                             bool // retired ones too
	Sort                            string
	Limit                           int // 0: the totals alone
	Cursor                          string
}

func (f FleetFilter) query() url.Values {
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
func (c *Client) Fleet(ctx context.Context, f FleetFilter) (FleetView, error) {
	var view FleetView
	err := c.do(ctx, "GET", "fleet", f.query(), nil, &view)
	return view, err
}

// WholeFleet gives all nodes that the filter picks, on as many pages as that takes.
func (c *Client) WholeFleet(ctx context.Context, f FleetFilter) (FleetView, error) {
	const page = 5000 // one answer has a bound in bytes
	f.Limit = page
	f.Sort = "" // other orders have one page
	view, err := c.Fleet(ctx, f)
	for err == nil && view.Next != "" {
		f.Cursor = view.Next
		var more FleetView
		if more, err = c.Fleet(ctx, f); err == nil {
			view.Nodes = append(view.Nodes, more.Nodes...)
			view.Next = more.Next
		}
	}
	return view, err
}
