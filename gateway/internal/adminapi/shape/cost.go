package shape

import (
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/gateway/internal/history/cost"
)

// Cost is what a node has cost.
func Cost(row *api.Node, sum *cost.Sum) client.NodeCost {
	out := client.NodeCost{NodeID: row.ID, Name: row.Name, Tenant: row.Tenant, Days: sum.Days,
		WatchedSeconds: int64(sum.Watched / time.Second), IdleGPUSeconds: int64(sum.Idle / time.Second), IdleCost: sum.IdleCost,
		Cost: sum.Cost, Prices: Each(sum.Prices, price)}
	return out
}

func price(p cost.Price) client.PriceSince {
	return client.PriceSince{Since: p.From, PricePerHour: p.PerHour}
}
