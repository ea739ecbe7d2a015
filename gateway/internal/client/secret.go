package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// Secrets lists the names of the secrets.
func (c *Client) Secrets(ctx context.Context, tenant string) (api.SecretList, error) {
	var list api.SecretList
	err := c.do(ctx, "GET", "secrets", inTenant(tenant), nil, &list)
	return list, err
}

// SetSecret stores a secret of a tenant in place of the one before. No tenant: the caller's own, or default where the caller has none.
func (c *Client) SetSecret(ctx context.Context, tenant, name, value string) (api.Secret, error) {
	var set api.Secret
	err := c.do(ctx, "PUT", "secrets/"+url.PathEscape(name), inTenant(tenant), api.SecretRequest{Value: value}, &set)
	return set, err
}

// DropSecret deletes a secret of a tenant.
func (c *Client) DropSecret(ctx context.Context, tenant, name string) error {
	return c.do(ctx, "DELETE", "secrets/"+url.PathEscape(name), inTenant(tenant), nil, nil)
}

func inTenant(tenant string) url.Values {
	q := url.Values{}
	set(q, "tenant", tenant)
	return q
}
