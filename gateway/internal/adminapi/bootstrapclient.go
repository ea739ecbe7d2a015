package adminapi

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// CreateNode makes a node that waits for its bootstrap, as the gateway sent it and read.
func (c *Client) CreateNode(ctx context.Context, q CreateNodeRequest) (raw json.RawMessage, made CreatedNode, err error) {
	if err := c.do(ctx, "POST", "nodes", nil, q, &raw); err != nil {
		return nil, made, err
	}
	return raw, made, understand(raw, &made)
}

// BootstrapOptions say what a bootstrap token is to be like. Zero fields mean the defaults: manual, its usual outer limit, a node
// that has not enrolled.
type BootstrapOptions struct {
	Mode  string
	TTL   time.Duration
	Again bool
}

// Bootstrap mints a bootstrap token for a node, as the gateway sent it and read.
func (c *Client) Bootstrap(ctx context.Context, node string, o BootstrapOptions) (raw json.RawMessage, made BootstrapScript, err error) {
	q := url.Values{}
	set(q, "mode", o.Mode)
	if o.TTL > 0 {
		q.Set("ttl", o.TTL.String())
	}
	if o.Again {
		q.Set("again", "true")
	}
	if err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/bootstrap-script", q, struct{}{}, &raw); err != nil {
		return nil, made, err
	}
	return raw, made, understand(raw, &made)
}
