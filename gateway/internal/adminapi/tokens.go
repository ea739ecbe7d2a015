package adminapi

import (
	"cmp"

	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

func (c *call) listTokens(f api.ListFilter) (any, error) {
	now := c.now()
	tokens, err := c.Bootstrap.Tokens(c.Context(), f.Tenant, f.All)
	return api.TokenList{Tokens: api.Each(tokens, func(t store.Token) api.Token { return bootstrap.ShownToken(t, now) })}, err
}

// createToken shows the enrollment token once, with the command to join by it.
func (c *call) createToken(q api.TokenRequest) (any, error) {
	var err error
	if q.Tenant, err = c.Caller.Within(q.Tenant); err != nil {
		return nil, err
	}
	if err := noToken(q.Name, q.Labels); err != nil {
		return nil, err
	}
	if q.Name != "" {
		if err := c.Fleet.Nameable(c.Context(), cmp.Or(q.Tenant, store.DefaultTenant), q.Name); err != nil {
			return nil, err
		}
	}
	secret, row, err := c.Bootstrap.MintToken(c.Context(), q, c.Caller.Actor)
	if err != nil {
		return nil, err
	}
	made := bootstrap.ShownToken(row, c.now())
	answer := api.NewToken{ID: made.ID, Token: secret.Reveal(), ExpiresAt: made.ExpiresAt, Tenant: made.Tenant, Uses: made.Uses,
		Labels: made.Labels, GPUs: made.GPUs, BindInstance: made.BindInstance, Name: row.Name}
	if c.Command != nil {
		answer.Command = c.Command(answer.Token, q.Gateway)
	}
	c.Created()
	return answer, nil
}

// revokeToken takes the public part of a token, which is its id.
func (c *call) revokeToken() (any, error) {
	id := c.Named("token")
	if err := c.Bootstrap.RevokeToken(c.Context(), c.Caller.Tenant, id, c.Caller.Actor); err != nil {
		return nil, err
	}
	return api.Done{ID: id, Status: api.StatusRevoked}, nil
}
