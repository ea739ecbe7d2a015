package account

import (
	"time"

	"muster/gateway/api"
	"muster/store"
)

// Shown returns an account without its token.
func Shown(a store.Account, now time.Time) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Role: api.RoleOf(a.Scopes), Scopes: append([]string{}, a.Scopes...), Tenant: a.Tenant,
		Status:    Status(a, now),
		CreatedAt: a.CreatedAt.UTC(), ExpiresAt: api.UTC(a.ExpiresAt), RevokedAt: api.UTC(a.RevokedAt), LastUsedAt: api.UTC(a.LastUsedAt),
		CreatedBy: a.CreatedBy}
}
