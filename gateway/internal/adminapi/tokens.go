package adminapi

import (
	"cmp"
	"net/http"

	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/store"
)

func (s *server) listTokens(c *call, f api.ListFilter) (any, error) {
	now := s.now()
	tokens, err := s.Bootstrap.Tokens(c.r.Context(), f.Tenant, f.All)
	return api.TokenList{Tokens: api.Each(tokens, func(t store.Token) api.Token { return bootstrap.ShownToken(t, now) })}, err
}

// createToken shows the enrollment token once, with the command to join by it.
func (s *server) createToken(c *call, q api.TokenRequest) (any, error) {
	var err error
	if q.Tenant, err = c.caller.Within(q.Tenant); err != nil {
		return nil, err
	}
	if err := noToken(q.Name, q.Labels); err != nil {
		return nil, err
	}
	if q.Name != "" {
		if err := s.Fleet.Nameable(c.r.Context(), cmp.Or(q.Tenant, store.DefaultTenant), q.Name); err != nil {
			return nil, err
		}
	}
	secret, row, err := s.Bootstrap.MintToken(c.r.Context(), q, c.caller.Actor)
	if err != nil {
		return nil, err
	}
	made := bootstrap.ShownToken(row, s.now())
	answer := api.NewToken{ID: made.ID, Token: secret.Reveal(), ExpiresAt: made.ExpiresAt, Tenant: made.Tenant, Uses: made.Uses,
		Labels: made.Labels, GPUs: made.GPUs, BindInstance: made.BindInstance, Name: row.Name}
	if s.Command != nil {
		answer.Command = s.Command(answer.Token, q.Gateway)
	}
	c.status = http.StatusCreated
	return answer, nil
}

// revokeToken takes the public part of a token, which is its id.
func (s *server) revokeToken(c *call) (any, error) {
	id := c.r.PathValue("token")
	if err := s.Bootstrap.RevokeToken(c.r.Context(), c.caller.Tenant, id, c.caller.Actor); err != nil {
		return nil, err
	}
	return api.Done{ID: id, Status: api.StatusRevoked}, nil
}
