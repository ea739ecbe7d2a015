package bootstrap

import (
	"cmp"
	"time"

	"muster/gateway/api"
	"muster/store"
)

// ShownToken returns a token as the API shows it. If several things have ended it, its status is revoked first, then used.
func ShownToken(t store.Token, now time.Time) api.Token {
	out := api.Token{ID: t.ID, Tenant: t.Tenant, Status: api.StatusLive, Uses: t.Uses, Used: t.Used, Labels: api.Texts(t.Labels),
		BindInstance: t.BindInstance, NodeID: t.NodeID, Node: cmp.Or(t.NodeName, t.Name), CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: t.ExpiresAt.UTC(), RevokedAt: api.UTC(t.RevokedAt), CreatedBy: t.CreatedBy}
	if t.GPUs > 0 {
		out.GPUs = &t.GPUs
	}
	switch {
	case t.RevokedAt != nil:
		out.Status = api.StatusRevoked
	case t.Used >= t.Uses:
		out.Status = api.StatusUsed
	case !now.Before(t.ExpiresAt):
		out.Status = api.StatusExpired
	}
	return out
}
