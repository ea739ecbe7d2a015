package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/api"
)

// Cluster is the gateways on one store.
type Cluster struct {
	List     func() []api.MemberGateway // the active one first
	HandOver func(to string)            // has this gateway end when its answers are out; nil: it is by itself
}

// listGateways says which gateways there are.
func (c *call) listGateways() (any, error) {
	return api.GatewayList{Shared: c.Cluster.HandOver != nil, Gateways: c.Cluster.List()}, nil
}

// handOver ends this gateway, so that another one takes its place.
func (c *call) handOver(q api.HandOver) (any, error) {
	if c.Cluster.HandOver == nil {
		return nil, wire.Refuse(wire.CodeIllegalMove, "this gateway is by itself: no other one could take its place", "muster help standby")
	}
	l := api.GatewayList{Gateways: c.Cluster.List()}
	from := l.Gateways[0].ID
	to, why, next := l.Successor(q.To)
	if why != "" {
		return nil, wire.Refuse(wire.CodeIllegalMove, why, next)
	}
	event := c.event("gateway.handed_over")
	event.Detail = map[string]string{"from": from, "to": to}
	if err := c.Store.AddEvents(c.Context(), event); err != nil {
		return nil, err
	}
	c.Cluster.HandOver(to)
	return api.HandedOver{From: from, To: to}, nil
}
