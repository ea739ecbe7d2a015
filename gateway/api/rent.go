package api

import (
	"cmp"
	"fmt"
	"strings"

	"muster/agent/wire"
)

// Rent is what nodes cost in an hour, by their prices. Each amount is the sum of what is known; null: it is known of no node.
type Rent struct {
	Priced   int `json:"priced"`   // nodes that have a price
	Unpriced int `json:"unpriced"` // nodes that have none, or none that can be read

	PricePerHour      *float64 `json:"price_per_hour"`       // of the priced nodes
	IdleCostPerHour   *float64 `json:"idle_cost_per_hour"`   // of the GPUs that are idle now, by their share of their nodes' prices
	SilentCostPerHour *float64 `json:"silent_cost_per_hour"` // of the priced nodes that are not heard from, unless they are known to be down
}

// RentOf sums nodes. Retired nodes cost nothing any more.
func RentOf(nodes []*NodeRow) Rent {
	var r Rent
	for _, g := range nodes {
		if g.State != wire.StateRetired {
			r.add(g)
		}
	}
	return r
}

func (r *Rent) add(g *NodeRow) {
	if g.PricePerHour == nil {
		r.Unpriced++
		return
	}
	r.Priced++
	Add(&r.PricePerHour, cmp.Or(g.DownCost, g.PricePerHour))
	Add(&r.IdleCostPerHour, g.IdleCostPerHour())
	if g.Status != wire.StatusOnline && g.DownCost == nil {
		Add(&r.SilentCostPerHour, g.PricePerHour)
	}
}

// leastShown is the smallest amount that two digits do not show as nothing.
const leastShown = 0.005

// Text says it in words, such as "14.20 an hour, of that 2.10 idle, 1.10 silent · 1 without a price"; empty: no node has a price.
func (r Rent) Text() string {
	if r.PricePerHour == nil {
		return ""
	}
	text := fmt.Sprintf("%.2f an hour", *r.PricePerHour)
	var parts []string
	if r.IdleCostPerHour != nil && *r.IdleCostPerHour >= leastShown {
		parts = append(parts, fmt.Sprintf("%.2f idle", *r.IdleCostPerHour))
	}
	if r.SilentCostPerHour != nil && *r.SilentCostPerHour >= leastShown {
		parts = append(parts, fmt.Sprintf("%.2f silent", *r.SilentCostPerHour))
	}
	if len(parts) > 0 {
		text += ", of that " + strings.Join(parts, ", ")
	}
	if r.Unpriced > 0 {
		text += fmt.Sprintf(" · %d without a price", r.Unpriced)
	}
	return text
}
