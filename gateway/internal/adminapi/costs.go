package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
)

// listCosts answers what nodes have cost, and how much of that their idle GPUs. Retired nodes count too.
func (c *call) listCosts(f api.CostFilter) (any, error) {
	q, err := fleetQuery(api.FleetFilter{Selector: f.Selector, Tenant: f.Tenant, All: true})
	if err != nil {
		return nil, err
	}
	if f.Until.IsZero() {
		f.Until = c.now()
	}
	if !c.Overview.Ready() {
		return nil, stillReading()
	}
	rows, _ := c.Overview.Rows(q)
	if len(rows) > api.LargestFleet {
		return nil, wire.Refuse(wire.CodeBadRequest, "these are too many nodes for one answer", "name fewer with selector=")
	}
	picked := make(map[string]bool, len(rows))
	for _, row := range rows {
		picked[row.ID] = true
	}
	sums, err := c.Costs.Sums(c.Context(), f.Since, f.Until, func(id string) bool { return picked[id] })
	if err != nil {
		return nil, err
	}
	list := api.CostList{Costs: []api.NodeCost{}}
	for _, row := range rows {
		if sum := sums[row.ID]; sum != nil {
			sum.Name = row.Name
			sum.Tenant = row.Tenant
			list.Costs = append(list.Costs, *sum)
		}
	}
	return list, nil
}

// today is what was seen of a node on this day.
func (s *server) today(nodeID string) *api.Today {
	if row, known := s.Overview.Row(nodeID); known {
		return row.Today
	}
	return nil
}
