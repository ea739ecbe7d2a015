package adminapi

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Cluster is the gateways on one store.
type Cluster struct {
	List     func() []api.MemberGateway // the active one first
	HandOver func(to string)            // has this gateway end when its answers are out; nil: it is by itself
}

// listGateways says which gateways there are.
func (s *server) listGateways(*call) (any, error) {
	return api.GatewayList{Shared: s.Cluster.HandOver != nil, Gateways: s.Cluster.List()}, nil
}

// handOver ends this gateway, so that another one takes its place.
func (s *server) handOver(c *call, q api.HandOver) (any, error) {
	if s.Cluster.HandOver == nil {
		return nil, wire.Refuse(wire.CodeIllegalMove, "this gateway is by itself: no other one could take its place", "muster help standby")
	}
	all := s.Cluster.List()
	ids := api.Each(all[1:], func(g api.MemberGateway) string { return g.ID })
	to := slices.IndexFunc(all[1:], func(g api.MemberGateway) bool { return g.ID == q.To || q.To == "" && g.Refuses == "" }) + 1
	switch {
	case len(ids) == 0:
		return nil, wire.Refuse(wire.CodeIllegalMove, "no gateway stands by",
			"start one on the same --store first: muster help standby")
	case q.To != "" && !slices.Contains(ids, q.To):
		return nil, wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("no gateway of the id %.80q stands by", q.To),
			"those that do: "+strings.Join(ids, ", "))
	case to == 0:
		return nil, wire.Refuse(wire.CodeIllegalMove, "no gateway that stands by would take over", "muster gateway ls says why")
	case all[to].Refuses != "":
		return nil, wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("the gateway %s would not take over: %s", q.To, all[to].Refuses),
			"set that right first; muster help standby")
	}
	q.To = all[to].ID // if it were anybody, this one could be the first to take the lease again, when its service has started it
	event := c.event("gateway.handed_over")
	event.Detail = map[string]string{"from": all[0].ID, "to": q.To}
	if err := s.Store.AddEvents(c.r.Context(), event); err != nil {
		return nil, err
	}
	s.Cluster.HandOver(q.To)
	return api.HandedOver{From: all[0].ID, To: q.To}, nil
}
