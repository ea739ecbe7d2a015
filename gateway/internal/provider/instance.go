package provider

import (
	"cmp"
	"context"
	"fmt"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/reconcile"
	rentals "muster/store/provider"
)

// Instances returns the instances of an account, as its company shows them, with what the gateway knows of them. tenant is the caller's;
// "": all.
func (s *Service) Instances(ctx context.Context, tenant, name string) (providers.InstanceList, error) {
	list := providers.InstanceList{Instances: []providers.Instance{}, Gone: []string{}}
	row, ok := s.market.Account(name)
	if !ok {
		return list, notFound("provider account", name)
	}
	if !s.Ready() {
		return list, wire.Refuse(wire.CodeUnavailable, "the gateway still reads the fleet", "try again in a few seconds")
	}
	_, machines, err := s.machines(ctx)
	if err != nil {
		return list, err
	}
	rejoins, err := s.Records.Rejoins(ctx, name, "")
	if err != nil {
		return list, err
	}
	_, list.SyncedAt, list.Known = s.market.Instances(name)
	for i := range machines {
		m := &machines[i]
		switch {
		case m.Account != name || tenant != "" && m.Tenant() != tenant:
		case m.Seen != nil:
			list.Instances = append(list.Instances, shown(m, rejoins))
		case m.Gone != nil:
			list.Gone = append(list.Gone, m.Node.ID)
		}
	}
	if tenant != "" && row.Tenant != tenant && len(list.Instances)+len(list.Gone) == 0 {
		return list, notFound("provider account", name)
	}
	return list, nil
}

// Instance returns one instance.
func (s *Service) Instance(ctx context.Context, tenant, name, id string) (providers.Instance, error) {
	list, err := s.Instances(ctx, tenant, name)
	if err != nil {
		return providers.Instance{}, err
	}
	for _, i := range list.Instances {
		if i.ID == id {
			return i, nil
		}
	}
	return providers.Instance{}, notFound("instance", name+"/"+id)
}

// shown is an instance with its node, its lease, and how far it is where it is to join again. rejoins are those of its account.
func shown(m *reconcile.Machine, rejoins []rentals.Rejoin) providers.Instance {
	v := m.Seen
	i := providers.Instance{Provider: v.Account, Kind: v.Kind, ID: v.ID, Name: v.Name, Tenant: v.Tenant, State: v.State, RawState: v.Raw,
		Why: v.Why, Host: v.Host, Region: v.Region, GPU: v.GPU, GPUs: v.GPUs, PerHour: perHour(v.Price), Storage: perHour(v.Storage),
		StartedAt: v.StartedAt, EndsAt: v.EndsAt, Foreign: m.Foreign, SeenAt: v.SeenAt.UTC(), RejoinCosts: cloud.RejoinCosts(v.Kind)}
	if a := v.SSH; a != nil {
		i.SSH = fmt.Sprintf("%s@%s:%d", a.User, a.Host, a.Port)
	}
	if n := m.Node; n != nil {
		i.Node, i.NodeID, i.Status = n.Name, n.ID, n.Status
		if n.State == wire.StateRetired {
			i.Status = n.State
		}
	}
	i.Rental = m.Rental
	if m.Lease != nil {
		i.Rental = cmp.Or(m.Lease.Rental, m.Rental)
		i.Lease = new(lease.Shown(*m.Lease, i.Node))
	}
	for _, x := range rejoins {
		if x.Instance == v.ID {
			i.Rejoin = &providers.Rejoin{State: x.State, AskedBy: x.AskedBy, AskedAt: x.AskedAt.UTC(), EndedAt: api.UTC(x.EndedAt), Why: x.Why}
		}
	}
	return i
}

func perHour(m *cloud.Money) *float64 {
	if m == nil {
		return nil
	}
	dollars := m.Dollars()
	return &dollars
}
