package store

import (
	"context"
	"time"
)

// Tenant says how much there is of each kind of thing in a tenant.
type Tenant struct {
	Name     string
	Nodes    int // not retired
	Retired  int // nodes
	Accounts int // live
	Tokens   int // that can still be used
}

// Tenants returns the tenants ("": all, else this one) of nodes, accounts and tokens, by name.
func (s *Store) Tenants(ctx context.Context, tenant string, now time.Time) ([]Tenant, error) {
	return all(ctx, s, func(r *row) Tenant {
		return Tenant{Name: r.Text(), Nodes: int(r.Number()), Retired: int(r.Number()), Accounts: int(r.Number()), Tokens: int(r.Number())}
	}, do(`SELECT tenant, sum(nodes), sum(retired), sum(accounts), sum(tokens) FROM (
		SELECT tenant, iif(retired, 0, nodes) AS nodes, iif(retired, nodes, 0) AS retired, 0 AS accounts, 0 AS tokens FROM totals WHERE nodes > 0
		UNION ALL SELECT tenant, 0, 0, 1, 0 FROM accounts WHERE revoked_at IS NULL AND COALESCE(expires_at, ? + 1) > ? AND tenant <> ''
		UNION ALL SELECT tenant, 0, 0, 0, 1 FROM tokens t WHERE revoked_at IS NULL AND expires_at > ? AND t.uses > `+tokenUsed+`)
		WHERE tenant = ? OR ? = '' GROUP BY tenant ORDER BY tenant`, millis(now), millis(now), millis(now), tenant, tenant))
}
