package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// PSKs lists the live pre-shared keys, newest first.
func (c *Client) PSKs(ctx context.Context) (api.PSKList, error) {
	var list api.PSKList
	err := c.do(ctx, "GET", "psk", nil, nil, &list)
	return list, err
}

// SetPSK makes a pre-shared key the only one.
func (c *Client) SetPSK(ctx context.Context, q api.PSKRequest) (api.NewPSK, error) {
	var k api.NewPSK
	err := c.do(ctx, "POST", "psk", nil, q, &k)
	return k, err
}

// RotatePSK adds a second pre-shared key.
func (c *Client) RotatePSK(ctx context.Context, q api.PSKRequest) (api.NewPSK, error) {
	var k api.NewPSK
	err := c.do(ctx, "POST", "psk/rotate", nil, q, &k)
	return k, err
}

// ClearPSK ends every pre-shared key but the one to keep; empty ends all.
func (c *Client) ClearPSK(ctx context.Context, keep string) error {
	q := url.Values{}
	set(q, "keep", keep)
	return c.do(ctx, "DELETE", "psk", q, nil, nil)
}
