package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/store"
)

// Bounds of a token.
const (
	DefaultTTL = time.Hour
	maxTTL     = 30 * 24 * time.Hour
	minTTL     = time.Second
	maxUses    = 100_000
)

// MintToken makes an enrollment token. The caller has made sure that a node may have the name in it. The sign.Token holds the secret,
// which is kept nowhere else.
func (b *Bootstrap) MintToken(ctx context.Context, q api.TokenRequest, by store.Actor) (sign.Token, store.Token, error) {
	ttl, err := b.complete(&q)
	if err != nil {
		return sign.Token{}, store.Token{}, err
	}
	secret, err := sign.NewToken(sign.EnrollmentToken, b.config.Rand)
	if err != nil {
		return sign.Token{}, store.Token{}, err
	}
	key, err := sign.EnrollKey(secret.Secret)
	if err != nil {
		return sign.Token{}, store.Token{}, err
	}
	now := b.config.Now()
	row := store.Token{
		ID: secret.Public(), Tenant: q.Tenant, Labels: q.Labels, Uses: q.Uses, GPUs: q.GPUs, BindInstance: q.BindInstance,
		Name: q.Name, NodeID: q.Node, Key: key, CreatedAt: now, ExpiresAt: now.Add(ttl), CreatedBy: by.Name,
	}
	e := b.event("token.created", q.Tenant, by)
	e.Detail = map[string]string{"token": row.ID, "uses": strconv.Itoa(q.Uses), "expires": row.ExpiresAt.UTC().Format(time.RFC3339)}
	if q.Name != "" {
		e.Detail["name"] = q.Name
	}
	return secret, row, b.config.Store.CreateToken(ctx, row, e)
}

// complete fills in the defaults: the default tenant, one use, an hour. It refuses values that make no sense.
func (b *Bootstrap) complete(q *api.TokenRequest) (ttl time.Duration, err error) {
	if q.Tenant == "" {
		q.Tenant = store.DefaultTenant
	}
	if q.Uses == 0 {
		q.Uses = 1
	}
	if ttl = time.Duration(q.TTL); ttl == 0 {
		ttl = DefaultTTL
	}
	if err := wire.CheckTenant(q.Tenant); err != nil {
		return 0, err
	}
	if err := label.Check(q.Labels); err != nil {
		return 0, err
	}
	switch {
	case q.Uses < 1 || q.Uses > maxUses:
		return 0, badRequest(fmt.Sprintf("a token cannot have %d uses", q.Uses), fmt.Sprintf("a number from 1 to %d", maxUses))
	case ttl < minTTL || ttl > maxTTL:
		return 0, badRequest("a token cannot live "+ttl.String(), "a time from 1s to 720h; for longer, mint a new one when it is needed")
	case q.GPUs < 0 || q.GPUs > wire.MaxGPUs:
		return 0, badRequest(fmt.Sprintf("a token cannot expect %d GPUs", q.GPUs),
			fmt.Sprintf("a number from 1 to %d, or 0 if it is not known", wire.MaxGPUs))
	case q.Name != "" && q.Uses != 1:
		return 0, badRequest(fmt.Sprintf("a token with a name cannot have %d uses: one name is one node", q.Uses),
			"the name for one use, and make a token for each machine")
	}
	if q.Gateway != "" {
		if err := b.config.Reach.Check(q.Gateway); err != nil {
			return 0, badRequest("the gateway's URL "+err.Error(), "where the machine reaches the gateway, such as https://10.0.0.5:7443")
		}
	}
	return ttl, nil
}

// Tokens lists the tokens of a tenant (empty: of all), newest first. With all, it also lists those that have ended.
func (b *Bootstrap) Tokens(ctx context.Context, tenant string, all bool) ([]store.Token, error) {
	return b.config.Store.Tokens(ctx, store.TokenQuery{Tenant: tenant, All: all, Now: b.config.Now()})
}

// RevokeToken ends a token at once. Nodes that enrolled with it stay.
func (b *Bootstrap) RevokeToken(ctx context.Context, tenant, id string, by store.Actor) error {
	id = publicPart(id)
	e := b.event("token.revoked", tenant, by)
	e.Detail = map[string]string{"token": id}
	err := b.config.Store.RevokeToken(ctx, tenant, id, b.config.Now(), e)
	if errors.Is(err, store.ErrNotFound) {
		return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no token is called %.40q", id), "muster token ls --all shows the ids")
	}
	return err
}

// publicPart cuts a pasted token, mistyped or not, down to what may be shown: mse_<id>.
func publicPart(id string) string {
	id = strings.TrimSpace(id)
	parts := strings.SplitN(id, "_", 3)
	if len(parts) < 3 {
		return id
	}
	return parts[0] + "_" + parts[1]
}

func (b *Bootstrap) event(kind, tenant string, by store.Actor) store.Event {
	return store.Event{At: b.config.Now(), Kind: kind, Tenant: tenant, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK,
		Security: true}
}

func badRequest(what, allowed string) error {
	return wire.Refuse(wire.CodeBadRequest, what, "write "+allowed)
}
