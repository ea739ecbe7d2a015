package client

import (
	"context"

	"muster/gateway/api"
)

// Login mints a code.
func (c *Client) Login(ctx context.Context, q api.LoginRequest) (api.Login, error) {
	var l api.Login
	err := c.do(ctx, "POST", "logins", nil, q, &l)
	return l, err
}
