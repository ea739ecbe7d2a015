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

// Shares are of the node's GPUs, from 0 to 1: those that are idle now, and those of which it is known whether they work. Nobody knows that
// of a GPU that is missing, or whose use its node does not say.
func (g *NodeRow) Shares() (idle, known float64) {
	all := g.paidGPUs()
	if !g.Fresh || g.Status != wire.StatusOnline || g.State == wire.StateRetired || all == 0 {
		return 0, 0
	}
	for i := range g.GPUs {
		if g.GPUs[i].Use != "" {
			known++
		}
	}
	return float64(g.IdleGPUs()) / float64(all), known / float64(all)
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
	idle, known := g.Shares()
	if known == 0 || g.PricePerHour == nil {
		return nil
	}
	cost := idle * *g.PricePerHour
	return &cost
}
