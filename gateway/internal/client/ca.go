package client

import (
	"context"
	"net/http"
	"net/url"

	"muster/agent/sign"
	"muster/gateway/api"
)

// CA tells about the roots, the intermediate and the keys.
func (c *Client) CA(ctx context.Context) (api.CA, error) {
	var out api.CA
	err := c.do(ctx, http.MethodGet, "ca", nil, nil, &out)
	return out, err
}

// RotateKey adds a new key of a role to the trust set.
func (c *Client) RotateKey(ctx context.Context, q api.RotateRequest) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "keys/rotate", q)
}

// AddKey adds an operator's key to the trust set. Tasks that are signed with it are good once the set is published.
func (c *Client) AddKey(ctx context.Context, q api.AddKeyRequest) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "keys", q)
}

// DropKey takes a key out of the trust set.
func (c *Client) DropKey(ctx context.Context, id string) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodDelete, "keys/"+url.PathEscape(id), nil)
}

// AddRoot announces a new root.
func (c *Client) AddRoot(ctx context.Context, q api.RootRequest) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "ca/roots", q)
}

// DropRoot takes a root, named by its pin, out of the trust set.
func (c *Client) DropRoot(ctx context.Context, pin string) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodDelete, "ca/roots/"+url.PathEscape(pin), nil)
}

// PublishTrust sends a set that was signed here.
func (c *Client) PublishTrust(ctx context.Context, set sign.Envelope) (api.TrustChange, error) {
	return c.trust(ctx, http.MethodPost, "trust", api.SignedSet{Set: set})
}

func (c *Client) trust(ctx context.Context, method, path string, in any) (api.TrustChange, error) {
	var out api.TrustChange
	err := c.do(ctx, method, path, nil, in, &out)
	return out, err
}

// Intermediate has an intermediate made.
func (c *Client) Intermediate(ctx context.Context, q api.IntermediateRequest) (api.IntermediateAnswer, error) {
	var out api.IntermediateAnswer
	err := c.do(ctx, http.MethodPost, "ca/intermediate", nil, q, &out)
	return out, err
}
