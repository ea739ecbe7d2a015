package adminapi

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/history"
)

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
	return s.History.Series(c.r.Context(), history.Query{NodeID: d.Node.ID, Metric: f.Metric, Since: f.Since, Until: f.Until,
		Step: time.Duration(f.Step) * time.Second, Value: f.Value})
}
