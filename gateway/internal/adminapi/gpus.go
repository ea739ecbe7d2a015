package adminapi

import (
	"muster/gateway/internal/client"
)

func (s *server) patchNode(c *call) (any, error) {
	var q client.NodePatch
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
