package api

import "time"

// CostList answers GET fleet/costs: the nodes of which there is a record, by name.
type CostList struct {
	Costs []NodeCost `json:"costs"`
}

// NodeCost is what the gateway has seen of a node over some days. Time in which it did not run, or did not hear the node, is not in it.
type NodeCost struct {
	NodeID         string       `json:"node_id"`
	Name           string       `json:"name"`
	Tenant         string       `json:"tenant"`
	Days           int          `json:"days"`             // with a record
	WatchedSeconds int64        `json:"watched_seconds"`  // for which its GPUs were known
	IdleGPUSeconds int64        `json:"idle_gpu_seconds"` // of each idle GPU by itself
	IdleCost       *float64     `json:"idle_cost"`        // of these, by their share of the price; null: no price, or never watched
	Cost           *float64     `json:"cost"`             // the price, while it was heard from; null: it had none
	MeasuredCost   *float64     `json:"measured_cost"`    // of the cost, while it was known what its GPUs did; null: it had no price
	Prices         []PriceSince `json:"prices"`           // by day, one for each change
}

// PriceSince is what a node cost in an hour from a day on.
type PriceSince struct {
	Since        time.Time `json:"since"`
	PricePerHour *float64  `json:"price_per_hour"` // null: it had no price
}

// CostFilter picks nodes and days. What is zero does not count.
type CostFilter struct {
	Selector string    `json:"selector,omitempty"`
	Tenant   string    `json:"tenant,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
}
