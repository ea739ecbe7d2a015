package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// LogShippings lists the rules.
func (c *Client) LogShippings(ctx context.Context, tenant string) (api.LogShippingList, error) {
	var list api.LogShippingList
	err := c.do(ctx, "GET", "log-shippings", inTenant(tenant), nil, &list)
	return list, err
}

// SetLogShipping stores a rule in the place of the one before.
func (c *Client) SetLogShipping(ctx context.Context, name string, q api.LogShippingRequest) (api.LogShipping, error) {
	var set api.LogShipping
	err := c.do(ctx, "PUT", "log-shippings/"+url.PathEscape(name), nil, q, &set)
	return set, err
}

// DropLogShipping deletes a rule.
func (c *Client) DropLogShipping(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "log-shippings/"+url.PathEscape(name), nil, nil, nil)
}

// TestLogShipping pushes a test line to a rule's sink.
func (c *Client) TestLogShipping(ctx context.Context, name string) (api.AlertTest, error) {
	var tried api.AlertTest
	err := c.do(ctx, "POST", "log-shippings/"+url.PathEscape(name)+"/test", nil, nil, &tried)
	return tried, err
}
