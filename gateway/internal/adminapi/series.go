package adminapi

import (
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/history"
)

const longestStep = 365 * 24 * 60 * 60 // seconds

// nodeSeries answers what a node and its GPUs said of one metric.
func (s *server) nodeSeries(c *call) (any, error) {
	p, err := c.query("metric", "since", "until", "step", "value")
	if err != nil {
		return nil, err
	}
	q := history.Query{Metric: p.text("metric"), Value: p.text("value")}
	if q.Since, err = p.time("since", s.now()); err != nil {
		return nil, err
	}
	if q.Until, err = p.time("until", s.now()); err != nil {
		return nil, err
	}
	step, err := p.number("step", 1, longestStep)
	if err != nil {
		return nil, err
	}
	q.Step = time.Duration(step) * time.Second
	d, err := s.Fleet.Detail(c.r.Context(), c.caller.Tenant, c.r.PathValue("node"))
	if err != nil {
		return nil, err
	}
	if s.History == nil {
		return nil, wire.Refuse(wire.CodeUnavailable, "this gateway keeps no history",
			"start it with --history 1GiB; muster help history says how much room that takes")
	}
	q.NodeID = d.Node.ID
	return s.History.Series(c.r.Context(), q)
}
