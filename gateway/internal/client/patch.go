package client

import (
	"context"
	"net/url"
)

// NodePatch changes what is on record of a node: how many GPUs it has. GPUsExpected is a person's word and stands until another one,
// or until the node enrols anew; GPUsAsSeen goes back to the highest number that is seen from now on.
type NodePatch struct {
	GPUsExpected *int `json:"gpus_expected,omitempty"`
	GPUsAsSeen   bool `json:"gpus_as_seen,omitempty"`
}

// PatchNode changes what is on record of a node.
func (c *Client) PatchNode(ctx context.Context, node string, q NodePatch) (Node, error) {
	var n Node
	err := c.do(ctx, "PATCH", "nodes/"+url.PathEscape(node), nil, q, &n)
	return n, err
}
