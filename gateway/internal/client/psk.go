package client

import (
	"context"
	"net/url"
	"time"
)

// PSKRequest sets or rotates the cluster's pre-shared key: one of the two fields.
type PSKRequest struct {
	Generate bool   `json:"generate,omitempty"`
	Secret   string `json:"secret,omitempty"`
}

// NewPSK answers a PSKRequest. Secret is there only when the gateway made it, and only this once.
type NewPSK struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
}

// PSK is a live pre-shared key, named by its key's hash.
type PSK struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
}

// PSKList answers GET psk.
type PSKList struct {
	PSKs []PSK `json:"psks"`
}

// PSKs lists the live pre-shared keys, newest first.
func (c *Client) PSKs(ctx context.Context) (PSKList, error) {
	var list PSKList
	err := c.do(ctx, "GET", "psk", nil, nil, &list)
	return list, err
}

// SetPSK makes a pre-shared key the only one.
func (c *Client) SetPSK(ctx context.Context, q PSKRequest) (NewPSK, error) {
	var k NewPSK
	err := c.do(ctx, "POST", "psk", nil, q, &k)
	return k, err
}

// RotatePSK adds a second pre-shared key.
func (c *Client) RotatePSK(ctx context.Context, q PSKRequest) (NewPSK, error) {
	var k NewPSK
	err := c.do(ctx, "POST", "psk/rotate", nil, q, &k)
	return k, err
}

// ClearPSK ends every pre-shared key but the one to keep; empty ends all.
func (c *Client) ClearPSK(ctx context.Context, keep string) error {
	q := url.Values{}
	set(q, "keep", keep)
	return c.do(ctx, "DELETE", "psk", q, nil, nil)
}
