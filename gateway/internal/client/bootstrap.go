package client

import (
	"context"
	"encoding/json"
	"net/url"

	"muster/gateway/api"
)

// CreateNode makes a node that waits for its bootstrap. The answer comes twice: as the gateway sent it, and read.
func (c *Client) CreateNode(ctx context.Context, q api.CreateNodeRequest) (raw json.RawMessage, made api.CreatedNode, err error) {
	if err := c.do(ctx, "POST", "nodes", nil, q, &raw); err != nil {
		return nil, made, err
	}
	return raw, made, understand(raw, &made)
}

// Bootstrap mints a bootstrap token for a node. The answer comes twice: as the gateway sent it, and read.
func (c *Client) Bootstrap(ctx context.Context, node string, o api.BootstrapOptions) (raw json.RawMessage, made api.BootstrapScript, err error) {
	q := url.Values{}
	set(q, "mode", o.Mode)
	if o.TTL > 0 {
		q.Set("ttl", o.TTL.String())
	}
	setIf(q, "again", o.Again)
	if err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/bootstrap-script", q, struct{}{}, &raw); err != nil {
		return nil, made, err
	}
	return raw, made, understand(raw, &made)
}
