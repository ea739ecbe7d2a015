package main

import (
	"muster/gateway/api"
	"muster/gateway/internal/history/cost"
	records "muster/store/costs"
)

// openCosts opens what sums what nodes cost. It knows the nodes by the picture of the fleet, which shows its sums.
func (g *gateway) openCosts() {
	g.costs = cost.New(cost.Config{Records: records.New(g.store.Records()), Ready: g.overview.Ready, Logger: g.log,
		Nodes: g.overview.Nodes})
}

func (g *gateway) today(nodeID string) *api.Today { return g.costs.Today(nodeID) }
