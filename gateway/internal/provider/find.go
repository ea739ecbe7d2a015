package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
	rentals "muster/store/provider"
)

// foundKey names a finding.
type foundKey struct{ account, instance, kind string }

func keyOf(f *providers.Finding) foundKey { return foundKey{f.Provider, f.Instance, f.Kind} }

const rentedElsewhere = "rented by another gateway, or before this one was restored"

// settle keeps what is found now, and what is not found any more.
func (s *Service) settle(ctx context.Context, accounts []reconcile.Account, machines []reconcile.Machine) error {
	now := s.Now()
	found, waiting := reconcile.Find(accounts, machines, now)
	found = s.certain(found, accounts, now)
	var opened, closed []rentals.Finding
	var began, ended []store.Event
	is := make(map[foundKey]bool, len(found))
	for i := range found {
		f := &found[i]
		key := keyOf(f)
		is[key] = true
		since, was := s.open[key]
		if !was {
			since = now.UTC()
			opened = append(opened, rentals.Finding{Account: f.Provider, Instance: f.Instance, Kind: f.Kind, Since: since})
			began = append(began, event("provider.finding", f, now))
		}
		f.Since = since
	}
	earlier := s.earlier()
	for key, since := range s.open {
		if !is[key] {
			f := earlier[key]
			if f == nil { // of an earlier run
				a, _ := s.market.Account(key.account)
				f = &providers.Finding{Kind: key.kind, Provider: key.account, Instance: key.instance, Tenant: a.Tenant}
			}
			closed = append(closed, rentals.Finding{Account: key.account, Instance: key.instance, Kind: key.kind, Since: since})
			ended = append(ended, event("provider.settled", f, now))
		}
	}
	if err := s.keep(ctx, opened, nil, began); err != nil {
		return err
	}
	if err := s.keep(ctx, nil, closed, ended); err != nil {
		return err
	}
	slices.SortStableFunc(found, worst)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings, s.waiting, s.foreign = found, waiting, foreign(machines)
	s.looked = true
	return nil
}

// foreign counts the machines that another gateway has rented: they are that one's to judge.
func foreign(machines []reconcile.Machine) map[reconcile.Waiting]int {
	all := map[reconcile.Waiting]int{}
	for i := range machines {
		if m := &machines[i]; m.Foreign {
			all[reconcile.Waiting{Account: m.Account, Tenant: m.Seen.Tenant, Why: rentedElsewhere}]++
		}
	}
	return all
}

// certain leaves out what an old view seems to say: with it nothing new is found.
func (s *Service) certain(found []providers.Finding, accounts []reconcile.Account, now time.Time) []providers.Finding {
	known := map[string]bool{}
	for _, a := range accounts {
		known[a.Name] = a.Known
	}
	return slices.DeleteFunc(found, func(f providers.Finding) bool {
		_, isOpen := s.open[keyOf(&f)]
		switch {
		case isOpen, reconcile.OfLease(f.Kind), f.Kind == providers.FoundUnknown && f.Instance == "":
			return false
		case f.Kind == providers.FoundPrice && !s.isTold(f.NodeID, now):
			return true
		}
		return !known[f.Provider]
	})
}

// keep writes findings, one for each event. s.open follows what is written.
func (s *Service) keep(ctx context.Context, opened, closed []rentals.Finding, events []store.Event) error {
	for len(events) > 0 {
		n := min(len(events), store.Piece)
		first, last := opened[:min(n, len(opened))], closed[:min(n, len(closed))]
		if err := s.Records.SetFindings(ctx, first, last, events[:n]...); err != nil {
			return err
		}
		for _, f := range first {
			s.open[foundKey{f.Account, f.Instance, f.Kind}] = f.Since
		}
		for _, f := range last {
			delete(s.open, foundKey{f.Account, f.Instance, f.Kind})
		}
		opened, closed, events = opened[len(first):], closed[len(last):], events[n:]
	}
	return nil
}

// earlier are the findings of the last round.
func (s *Service) earlier() map[foundKey]*providers.Finding {
	all := make(map[foundKey]*providers.Finding, len(s.findings))
	for i := range s.findings {
		all[keyOf(&s.findings[i])] = &s.findings[i]
	}
	return all
}

func event(kind string, f *providers.Finding, at time.Time) store.Event {
	e := store.Event{At: at, Kind: kind, Actor: "gateway", NodeID: f.NodeID, NodeName: f.Node, Tenant: f.Tenant, Outcome: store.OutcomeOK,
		Detail: map[string]string{"finding": f.Kind, "provider": f.Provider}}
	if f.Instance != "" {
		e.Detail["instance"] = f.Instance
	}
	if f.Text != "" {
		e.Detail["text"] = f.Text
	}
	if f.PerDay != nil {
		e.Detail["cost_per_day"] = fmt.Sprintf("%.2f", *f.PerDay)
	}
	return e
}

// worst sorts what is severe before the rest, and what costs most first.
func worst(a, b providers.Finding) int {
	cost := func(f *providers.Finding) float64 {
		if f.PerDay == nil {
			return -1
		}
		return *f.PerDay
	}
	isWarn := func(f *providers.Finding) int {
		if f.Severity == api.SeveritySevere {
			return 0
		}
		return 1
	}
	return cmp.Or(isWarn(&a)-isWarn(&b), cmp.Compare(cost(&b), cost(&a)), strings.Compare(a.Provider, b.Provider),
		strings.Compare(a.Instance, b.Instance), strings.Compare(a.Kind, b.Kind))
}
