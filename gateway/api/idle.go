package api

import "muster/agent/wire"

// Today is what was seen of a node on one day, by the gateway's clock. Time in which the gateway did not run is not in it.
type Today struct {
	Day            string   `json:"day"`              // such as 2026-11-23, UTC
	WatchedSeconds int64    `json:"watched_seconds"`  // for which its GPUs were known
	IdleGPUSeconds int64    `json:"idle_gpu_seconds"` // of each idle GPU by itself
	IdleCost       *float64 `json:"idle_cost"`        // of these, by their share of the price; null: it had no price
	Cost           *float64 `json:"cost"`             // the price, while the node was heard from; null: it had no price
}

// KnownIdleCost is the idle cost; nil: it had no price, or nobody knew what its GPUs did.
func (t *Today) KnownIdleCost() *float64 {
	if t.WatchedSeconds == 0 {
		return nil
	}
	return t.IdleCost
}

// IdleShare is the share of the node's GPUs that are idle now, from 0 to 1; nil: that is not known. A GPU that is missing is not idle.
func (g *NodeRow) IdleShare() *float64 {
	all := g.paidGPUs()
	if !g.Fresh || g.Status != wire.StatusOnline || g.State == wire.StateRetired || all == 0 {
		return nil
	}
	share := float64(g.IdleGPUs()) / float64(all)
	return &share
}

// paidGPUs is among how many GPUs the node's price is shared. One that is missing costs its share too.
func (g *NodeRow) paidGPUs() int { return len(g.GPUs) + Missing(len(g.GPUs), true, g.GPUsExpected) }

// GPUPricePerHour is what one of the node's GPUs costs in an hour: its share of the node's price. nil: there is no price, or no GPU.
func (g *NodeRow) GPUPricePerHour() *float64 {
	all := g.paidGPUs()
	if g.PricePerHour == nil || all == 0 {
		return nil
	}
	price := *g.PricePerHour / float64(all)
	return &price
}

// IdleGPUs is how many of the node's GPUs are idle.
func (g *NodeRow) IdleGPUs() int {
	idle := 0
	for i := range g.GPUs {
		if g.GPUs[i].IdleSince != nil {
			idle++
		}
	}
	return idle
}

// IdleCostPerHour is what the GPUs that are idle now cost in an hour; nil: there is no price, or nobody knows what the GPUs do.
func (g *NodeRow) IdleCostPerHour() *float64 {
	share := g.IdleShare()
	if share == nil || g.PricePerHour == nil {
		return nil
	}
	cost := *share * *g.PricePerHour
	return &cost
}
