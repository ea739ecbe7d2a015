package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
)

// nodeUses answers who worked on the GPUs of a node.
func (c *call) nodeUses(f api.GPUUseFilter) (any, error) {
	d, err := c.Fleet.Detail(c.Context(), c.Caller.Tenant, c.Named("node"))
	if err != nil {
		return nil, err
	}
	return c.Usage.Of(c.Context(), d.Node.ID, f.Since, f.Limit)
}

// nodeSeries answers what a node and its GPUs said of one metric.
func (c *call) nodeSeries(f api.SeriesQuery) (any, error) {
	d, err := c.Fleet.Detail(c.Context(), c.Caller.Tenant, c.Named("node"))
	if err != nil {
		return nil, err
	}
	if c.History == nil {
		return nil, wire.Refuse(wire.CodeUnavailable, "this gateway keeps no history",
			"start it with --history 1GiB; muster help history says how much room that takes")
	}
	return c.History.Series(c.Context(), d.Node.ID, f)
}
