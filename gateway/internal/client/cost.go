package client

import (
	"context"
	"net/url"
	"time"

	"muster/gateway/api"
)

// Costs gives what nodes have cost.
func (c *Client) Costs(ctx context.Context, f api.CostFilter) (api.CostList, error) {
	q := url.Values{}
	set(q, "selector", f.Selector)
	set(q, "tenant", f.Tenant)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	var list api.CostList
	err := c.do(ctx, "GET", "fleet/costs", q, nil, &list)
	return list, err
}
