package provider

import (
	"context"
	"errors"
	"math"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
)

const (
	mostPriced = 200         // nodes that get a price in one round
	showsBy    = time.Minute // a price that a node was given shows by then, unless somebody else's is before it
	priceAgain = 10 * time.Minute
)

// priced is a price that a node was given, and does not show.
type priced struct {
	price cloud.Money
	first time.Time
	tried time.Time
}

// setPrices gives nodes what their machines are charged now: less while they are stopped. The price that a person or a credential gave a
// node stays.
func (s *Service) setPrices(ctx context.Context, machines []reconcile.Machine) error {
	now := s.Now()
	kept := make(map[string]*priced, len(s.prices))
	given := 0
	for i := range machines {
		m := &machines[i]
		price, ok := charged(m)
		if !ok || m.Node.PricePerHour != nil && math.Round(*m.Node.PricePerHour*float64(cloud.Dollar)) == float64(price) {
			continue
		}
		p := s.prices[m.Node.ID]
		if p == nil || p.price != price {
			p = &priced{price: price, first: now}
		}
		kept[m.Node.ID] = p
		if given == mostPriced || now.Sub(p.tried) < priceAgain {
			continue
		}
		given++
		if err := s.setPrice(ctx, m.Node, reconcile.Label(price)); err != nil {
			return err
		}
		p.tried = now
	}
	s.prices = kept
	return nil
}

// setPrice labels a node for its company. What is there already is no change, and no event.
func (s *Service) setPrice(ctx context.Context, n *api.NodeRow, perHour string) error {
	e := store.Event{At: s.Now(), Kind: "node.labelled", Actor: "gateway", NodeID: n.ID, NodeName: n.Name, Tenant: n.Tenant,
		Outcome: store.OutcomeOK, Detail: map[string]string{"set." + label.Price: perHour, "by": n.Provider}}
	if err := s.Records.SetPrice(ctx, n.ID, perHour, e); !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// charged is the price of a node whose machine runs or is stopped, if it is known.
func charged(m *reconcile.Machine) (cloud.Money, bool) {
	if m.Seen == nil || m.Seen.State != cloud.Running && m.Seen.State != cloud.Stopped || m.Seen.Price == nil || *m.Seen.Price == 0 ||
		m.Node == nil || m.Node.State == wire.StateRetired {
		return 0, false
	}
	return *m.Seen.Price, true
}

// down are the nodes whose machines are stopped, broken or gone by views of now, with what they are charged an hour, in dollars.
func down(accounts []reconcile.Account, machines []reconcile.Machine) map[string]float64 {
	known := map[string]bool{}
	for _, a := range accounts {
		known[a.Name] = a.Known
	}
	costs := map[string]float64{}
	for i := range machines {
		m := &machines[i]
		if m.Node == nil || m.Node.State == wire.StateRetired || !known[m.Account] {
			continue
		}
		if m.Gone != nil {
			costs[m.Node.ID] = 0
		} else if m.Seen != nil && (m.Seen.State == cloud.Stopped || m.Seen.State == cloud.Broken) {
			if price, _ := rate(m.Seen.Instance); price != nil {
				costs[m.Node.ID] = price.Dollars()
			}
		}
	}
	return costs
}

// isTold is true if a node shows another price than the one that it was given, and has had the time to show that.
func (s *Service) isTold(nodeID string, now time.Time) bool {
	p := s.prices[nodeID]
	return p != nil && !p.tried.IsZero() && now.Sub(p.first) >= showsBy
}
