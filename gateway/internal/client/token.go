package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// CreateToken mints an enrollment token.
func (c *Client) CreateToken(ctx context.Context, q api.TokenRequest) (api.NewToken, error) {
	var t api.NewToken
	err := c.do(ctx, "POST", "tokens", nil, q, &t)
	return t, err
}

// Tokens lists tokens, newest first; with all also those that are spent.
func (c *Client) Tokens(ctx context.Context, tenant string, all bool) (api.TokenList, error) {
	q := url.Values{}
	set(q, "tenant", tenant)
	setIf(q, "all", all)
	var list api.TokenList
	err := c.do(ctx, "GET", "tokens", q, nil, &list)
	return list, err
}

// RevokeToken ends a token, named by its public part.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "tokens/"+url.PathEscape(id), nil, nil, nil)
}
