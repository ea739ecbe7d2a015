package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
	rentals "muster/store/provider"
)

// Leases returns the leases that match the filter. Those that end soonest come first.
func (s *Service) Leases(ctx context.Context, f providers.LeaseFilter) (providers.LeaseList, error) {
	rows, err := s.Records.Leases(ctx, rentals.LeaseQuery{Account: f.Provider, Tenant: f.Tenant, Ended: f.All})
	if err != nil {
		return providers.LeaseList{}, err
	}
	list := providers.LeaseList{Leases: make([]providers.Lease, 0, len(rows))}
	for _, l := range rows {
		list.Leases = append(list.Leases, s.shown(l))
	}
	slices.SortStableFunc(list.Leases, func(a, b providers.Lease) int {
		return cmp.Or(a.EndsAt.Compare(b.EndsAt), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Instance, b.Instance))
	})
	return list, nil
}

// shown is a lease with the name of its node.
func (s *Service) shown(l rentals.Lease) providers.Lease {
	n, known := s.Node(l.NodeID)
	if !known {
		return Shown(l, "")
	}
	return Shown(l, n.Name)
}

// Shown returns a lease as the API shows it. node is the name of its node; empty: there is none.
func Shown(l rentals.Lease, node string) providers.Lease {
	out := providers.Lease{Provider: l.Account, Instance: l.Instance, Tenant: l.Tenant, Owner: l.Owner, State: l.State, EndsAt: l.EndsAt.UTC(),
		Act: l.Act, Why: l.Why, Tries: l.Tries, TryAt: api.UTC(l.TryAt), CreatedAt: l.CreatedAt.UTC(), EndedAt: api.UTC(l.EndedAt),
		Rental: l.Rental, Node: node}
	if l.Idle != nil {
		out.IdleSeconds = new(int64(l.Idle.Seconds()))
	}
	return out
}

func (s *Service) account(ctx context.Context, name string) (rentals.Account, error) {
	all, err := s.Records.Accounts(store.Fresh(ctx))
	if err != nil {
		return rentals.Account{}, err
	}
	for _, a := range all {
		if a.Name == name {
			return a, nil
		}
	}
	return rentals.Account{}, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no account is called %.60q", name), "muster provider ls")
}

// target finds the machine that a request is about, among those that the caller may see.
func (s *Service) target(ctx context.Context, tenant string, q providers.LeaseRequest) (rentals.Account, string, error) {
	if q.Node != "" {
		return s.ofNode(ctx, tenant, q.Node)
	}
	a, err := s.account(ctx, q.Provider)
	if err != nil {
		return a, "", err
	}
	l, err := s.Records.Lease(store.Fresh(ctx), a.Name, q.Instance)
	switch known := err == nil; {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return a, "", err
	case tenant != "" && a.Tenant != tenant && !(known && l.Tenant == tenant):
		return a, "", wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no account is called %.60q", q.Provider), "muster provider ls")
	case known && l.State != providers.LeaseEnded:
		return a, q.Instance, nil
	}
	return a, q.Instance, s.isThere(a, q.Instance)
}

// isThere refuses a machine that its company does not show.
func (s *Service) isThere(a rentals.Account, instance string) error {
	switch seen, at := s.listed(a.Name, instance); {
	case seen != nil:
		return nil
	case at == nil:
		return wire.Refuse(wire.CodeUnavailable, "the machines of "+a.Name+" were not seen yet", "muster provider sync "+a.Name+" looks now")
	}
	return wire.Refuse(wire.CodeNotFound, fmt.Sprintf("%s has no instance %.60q", a.Name, instance), "muster provider instances "+a.Name)
}

// ofNode finds the machine of a node: by its lease, or by what the node says that it is.
func (s *Service) ofNode(ctx context.Context, tenant, name string) (rentals.Account, string, error) {
	nodes := s.Nodes()
	i := slices.IndexFunc(nodes, func(n *api.NodeRow) bool {
		return (n.Name == name || n.ID == name) && (tenant == "" || n.Tenant == tenant)
	})
	if i < 0 {
		return rentals.Account{}, "", wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no node is called %.60q", name), "muster ls")
	}
	n := nodes[i]
	leases, err := s.Records.Leases(store.Fresh(ctx), rentals.LeaseQuery{})
	if err != nil {
		return rentals.Account{}, "", err
	}
	for _, l := range leases {
		if l.NodeID == n.ID && l.State != providers.LeaseEnded {
			a, err := s.account(ctx, l.Account)
			return a, l.Instance, err
		}
	}
	accounts, err := s.Records.Accounts(store.Fresh(ctx))
	if err != nil {
		return rentals.Account{}, "", err
	}
	for _, a := range accounts {
		if a.Kind != n.Provider || a.Tenant != n.Tenant { // a node may say of itself what it likes
			continue
		}
		id := reconcile.InstanceID(a.Kind, n.InstanceID)
		if seen, _ := s.listed(a.Name, id); seen != nil {
			return a, id, nil
		}
	}
	return rentals.Account{}, "", wire.Refuse(wire.CodeNotFound, "no account shows a machine for the node "+n.Name,
		"muster provider instances shows the machines: name it as ACCOUNT/INSTANCE")
}
