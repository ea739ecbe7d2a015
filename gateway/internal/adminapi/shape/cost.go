package shape

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/history/cost"
)

// Cost is what a node has cost.
func Cost(row *api.NodeRow, sum *cost.Sum) api.NodeCost {
	out := api.NodeCost{NodeID: row.ID, Name: row.Name, Tenant: row.Tenant, Days: sum.Days,
		WatchedSeconds: int64(sum.Watched / time.Second), IdleGPUSeconds: int64(sum.Idle / time.Second), IdleCost: sum.IdleCost,
		Cost: sum.Cost, Prices: Each(sum.Prices, price)}
	return out
}

func price(p cost.Price) api.PriceSince {
	return api.PriceSince{Since: p.From, PricePerHour: p.PerHour}
}
