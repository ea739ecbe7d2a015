package client

import (
	"context"

	"muster/gateway/api"
)

// WhoAmI tells whom the gateway takes this client for.
func (c *Client) WhoAmI(ctx context.Context) (api.Caller, error) {
	var who api.Caller
	err := c.do(ctx, "GET", "whoami", nil, nil, &who)
	return who, err
}

// Gateway tells how machines reach the gateway.
func (c *Client) Gateway(ctx context.Context) (api.Gateway, error) {
	var g api.Gateway
	err := c.do(ctx, "GET", "gateway", nil, nil, &g)
	return g, err
}
