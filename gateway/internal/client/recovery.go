package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// AllowRecovery lets a node back in without a visit.
func (c *Client) AllowRecovery(ctx context.Context, node string, q api.RecoveryRequest) (api.Node, error) {
	var n api.Node
	err := c.do(ctx, "POST", "nodes/"+url.PathEscape(node)+"/allow-recovery", nil, q, &n)
	return n, err
}
