package client

import (
	"context"

	"muster/gateway/api"
)

// WholeFleet gives all nodes that the filter picks, on as many pages as that takes.
func (c *Client) WholeFleet(ctx context.Context, f api.FleetFilter) (api.FleetView, error) {
	const page = 5000 // one answer has a bound in bytes
	f.Limit = page
	f.Sort = "" // other orders have one page
	view, err := Get[api.FleetView](ctx, c, api.PathFleet, f)
	for err == nil && view.Next != "" {
		f.Cursor = view.Next
		var more api.FleetView
		if more, err = Get[api.FleetView](ctx, c, api.PathFleet, f); err == nil {
			view.Nodes = append(view.Nodes, more.Nodes...)
			view.Next = more.Next
		}
	}
	return view, err
}
