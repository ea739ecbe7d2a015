package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
)

// nodeUses answers who worked on the GPUs of a node.
func (s *server) nodeUses(c *call, f api.GPUUseFilter) (any, error) {
	d, err := s.Fleet.Detail(c.r.Context(), c.caller.Tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	return s.Usage.Of(c.r.Context(), d.Node.ID, f.Since, f.Limit)
}

// nodeSeries answers what a node and its GPUs said of one metric.
func (s *server) nodeSeries(c *call, f api.SeriesQuery) (any, error) {
	d, err := s.Fleet.Detail(c.r.Context(), c.caller.Tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	if s.History == nil {
		return nil, wire.Refuse(wire.CodeUnavailable, "this gateway keeps no history",
			"start it with --history 1GiB; muster help history says how much room that takes")
	}
	return s.History.Series(c.r.Context(), d.Node.ID, f)
}
