package adminapi

import (
	"net/http"
	"time"

	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/client"
	"muster/gateway/internal/secret"
	"muster/store"
)

func (s *server) listTokens(c *call) (any, error) {
	p, err := c.query("all", "tenant")
	if err != nil {
		return nil, err
	}
	all, err := p.flag("all")
	if err != nil {
		return nil, err
	}
	tenant, err := c.caller.within(p.text("tenant"))
	if err != nil {
		return nil, err
	}
	tokens, err := s.Bootstrap.Tokens(c.r.Context(), tenant, all)
	answer := client.TokenList{Tokens: make([]client.Token, 0, len(tokens))}
	for _, t := range tokens {
		answer.Tokens = append(answer.Tokens, tokenShape(t, s.now()))
	}
	return answer, err
}

func (s *server) createToken(c *call) (any, error) {
	var q client.TokenRequest
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	tenant, err := c.caller.within(q.Tenant)
	if err != nil {
		return nil, err
	}
	if err := noToken("", q.Labels); err != nil {
		return nil, err
	}
	secret, row, err := s.Bootstrap.MintToken(c.r.Context(), bootstrap.TokenRequest{
		Tenant: tenant, Uses: q.Uses, TTL: time.Duration(q.TTL), Labels: q.Labels, GPUs: q.GPUs, BindInstance: q.BindInstance,
	}, c.caller.actor)
	if err != nil {
		return nil, err
	}
	shape := tokenShape(row, s.now())
	answer := client.NewToken{ID: shape.ID, Token: secret.Reveal(), ExpiresAt: shape.ExpiresAt, Tenant: shape.Tenant, Uses: shape.Uses,
		Labels: shape.Labels, GPUs: shape.GPUs, BindInstance: shape.BindInstance}
	if s.Command != nil {
		answer.Command = s.Command(answer.Token)
	}
	c.status = http.StatusCreated
	return answer, nil
}

func (s *server) revokeToken(c *call) (any, error) {
	id := c.r.PathValue("token")
	if err := s.Bootstrap.RevokeToken(c.r.Context(), c.caller.tenant, id, c.caller.actor); err != nil {
		return nil, err
	}
	return client.Done{ID: id, Status: client.StatusRevoked}, nil
}

// within is the tenant that a request is about: the caller's own where it has one, and then no other may be asked for.
func (c caller) within(asked string) (string, error) {
	if asked != c.tenant && secret.TokenLike(asked) {
		return "", badRequest("the tenant looks like a token", "a tenant is shown to everybody: choose another, and revoke the token if it is one: muster token revoke ID")
	}
	if c.tenant == "" || asked == "" || asked == c.tenant {
		return max(c.tenant, asked), nil // one of them is empty, or they are equal
	}
	return "", forbidden("this account is for the tenant "+c.tenant+" only", "leave the tenant out, or use an account of all tenants")
}

func tokenShape(t store.Token, now time.Time) client.Token {
	out := client.Token{ID: t.ID, Tenant: t.Tenant, Status: client.StatusLive, Uses: t.Uses, Used: t.Used, Labels: t.Labels, BindInstance: t.BindInstance,
		NodeID: t.NodeID, Node: t.NodeName, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(), CreatedBy: t.CreatedBy}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if t.GPUs > 0 {
		out.GPUs = &t.GPUs
	}
	switch {
	case t.RevokedAt != nil:
		at := t.RevokedAt.UTC()
		out.RevokedAt = &at
		out.Status = client.StatusRevoked
	case t.Used >= t.Uses:
		out.Status = client.StatusUsed
	case !now.Before(t.ExpiresAt):
		out.Status = client.StatusExpired
	}
	return out
}
