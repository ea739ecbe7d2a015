package shape

import (
	"muster/gateway/api"
	"muster/gateway/internal/logs/ship"
)

// Shipping is where logs are sent, and how far that is.
func Shipping(r ship.Rule) api.LogShipping {
	return api.LogShipping{Name: r.Name, Tenant: r.Tenant, Selector: r.Selector, Sources: r.Sources, To: r.To, Auth: r.Auth,
		TenantID: r.Org, BytesPerSecond: r.BytesPerSecond, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy, Nodes: r.Nodes, Sent: r.Sent,
		SentBytes: r.SentBytes, Dropped: r.Dropped, Waiting: r.Waiting, BufferBytes: r.BufferBytes, LagSeconds: r.Lag.Seconds(),
		SentAt: r.SentAt, FailingSince: r.FailingSince, Error: r.Error,
		Withheld: r.Withheld, WithheldWhy: r.WithheldWhy}
}
