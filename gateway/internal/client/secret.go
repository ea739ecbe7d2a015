package client

import (
	"context"
	"net/url"
	"time"
)

// MaxSecret is how many bytes the value of a secret has at most. Most are for one variable of a process, which takes no more on Linux.
const MaxSecret = 64 << 10

// Secret is what the gateway shows of a value that tasks use. The value itself is never shown.
type Secret struct {
	Name      string    `json:"name"` // by which the params of a task name it
	Tenant    string    `json:"tenant"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
}

// SecretList answers GET secrets.
type SecretList struct {
	Secrets []Secret `json:"secrets"`
}

// SecretRequest gives a secret its value.
type SecretRequest struct {
	Value string `json:"value"`
}

// Secrets lists the names of the secrets.
func (c *Client) Secrets(ctx context.Context, tenant string) (SecretList, error) {
	var list SecretList
	err := c.do(ctx, "GET", "secrets", inTenant(tenant), nil, &list)
	return list, err
}

// SetSecret stores a secret of a tenant in place of the one before. No tenant: the caller's own, or default where the caller has none.
func (c *Client) SetSecret(ctx context.Context, tenant, name, value string) (Secret, error) {
	var set Secret
	err := c.do(ctx, "PUT", "secrets/"+url.PathEscape(name), inTenant(tenant), SecretRequest{value}, &set)
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
