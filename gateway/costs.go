package main

import (
	"muster/gateway/internal/cost"
	"muster/gateway/internal/glance"
	"muster/gateway/internal/overview"
	records "muster/store/costs"
)

// openCosts opens what sums what nodes cost. It knows the nodes by the picture of the fleet, which shows its sums.
func (g *gateway) openCosts() {
	g.costs = cost.New(cost.Config{Records: records.New(g.store.Records()), Ready: g.overview.Ready, Logger: g.log,
		Nodes: func() []*glance.Node {
			rows, _ := g.overview.Rows(overview.Query{})
			return rows
		}})
}

func (g *gateway) today(nodeID string) *glance.Today { return g.costs.Today(nodeID) }
