package adminapi

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

func (s *server) patchNode(c *call) (any, error) {
	var q NodePatch
	if err := c.decode(&q); err != nil {
		return nil, err
	}
	n := -1
	switch {
	case (q.GPUsExpected == nil) == !q.GPUsAsSeen:
		return nil, badRequest("one of gpus_expected and gpus_as_seen has to be set", `send {"gpus_expected":7} or {"gpus_as_seen":true}`)
	case q.GPUsExpected != nil && *q.GPUsExpected < 0:
		return nil, badRequest("a node has no fewer than 0 GPUs", `send {"gpus_expected":7} or {"gpus_as_seen":true}`)
	case q.GPUsExpected != nil:
		n = *q.GPUsExpected
	}
	node, err := s.Fleet.SetGPUs(c.r.Context(), c.caller.tenant, c.r.PathValue("node"), n, c.caller.actor)
	return nodeShape(node), err
}

// PatchNode changes what is on record of a node.
func (c *Client) PatchNode(ctx context.Context, node string, q NodePatch) (Node, error) {
	var n Node
	err := c.do(ctx, "PATCH", "nodes/"+url.PathEscape(node), nil, q, &n)
	return n, err
}
