package main

import (
	"context"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory/profile"
	"muster/store"
)

// openMAAS opens what makes nodes of the machines of MAAS.
func openMAAS(ctx context.Context, b base, p *parts) (*maas.Service, error) {
	s := b.settings.MAAS
	client, err := s.Region(b.log)
	if err != nil {
		return nil, err
	}
	m, err := maas.Open(ctx, maas.Config{
		Store: b.store, Region: client, URL: s.URL, Tenant: s.Tenant, Series: s.Series, Deadline: s.Timeout, Logger: b.log,
		Ref: b.fleet.Ref,
		Commission: func(ctx context.Context, name, tenant, provider, instance string, by store.Actor) (string, error) {
			n, err := b.fleet.Commission(ctx, name, tenant, provider, instance, by)
			if err == nil {
				b.overview.Moved(ctx, n.Node)
			}
			return n.ID, err
		},
		Move: func(ctx context.Context, nodeID, verb string, force bool, by store.Actor) error {
			return b.fleet.Provide(ctx, nodeID, fleet.Verb(verb), force, by)
		},
		Mint: func(ctx context.Context, nodeID, name string, lives time.Duration, by store.Actor) ([]byte, error) {
			return mintUserData(ctx, b, p, nodeID, name, lives, by)
		},
		Profiles: p.placement.Profiles,
		Over: func(ctx context.Context, allocation string) (bool, error) {
			a, err := p.placement.Allocation(ctx, "", allocation)
			var refused *wire.ErrorDetail
			if errors.As(err, &refused) && refused.Code == wire.CodeNotFound {
				return true, nil
			}
			return a.State == api.AllocationReleased, err
		},
		Assign: func(ctx context.Context, nodeID, name string, by store.Actor) error {
			return assignProfile(ctx, p.placement, nodeID, name, by)
		},
	})
	if err == nil && client != nil {
		b.tail.Add(m.Take)
	}
	return m, err
}

// ofMAAS is what an allocation wants, in the words of package maas.
func ofMAAS(w placement.Wanted) maas.Wanted {
	return maas.Wanted{Allocation: w.ID, Tenant: w.Tenant, Count: w.Machines, Fits: maas.Fits(w.GPU), DryRun: w.DryRun}
}

// couldGet tells whether MAAS has machines of a tenant with GPUs that no node has shown yet, or they may be rented.
func (p *parts) couldGet(ctx context.Context, w placement.Wanted) (bool, error) {
	if could, err := p.maas.Could(ctx, ofMAAS(w)); could || !w.Rent {
		return could, err
	}
	return true, p.rental.Rents.CanServe(ctx, w.Tenant)
}

// supply gets machines for an allocation that waits: those that MAAS has ready, or else what can be rented.
func (p *parts) supply(ctx context.Context, w placement.Wanted) string {
	nodes, err := p.maas.Serve(ctx, ofMAAS(w), store.Actor{Name: maas.Actor})
	if err != nil || len(nodes) > 0 {
		return maas.Says(nodes, p.rental.cost(nodes), err)
	}
	if says := p.rental.supply(ctx, w); says != "" {
		return says
	}
	return p.maas.Later(ctx, ofMAAS(w))
}

// mintUserData makes the script that a machine runs when its system is installed: it applies the profile, and joins.
func mintUserData(ctx context.Context, b base, p *parts, nodeID, name string, lives time.Duration, by store.Actor) ([]byte, error) {
	node, err := b.store.Node(store.Fresh(ctx), "", nodeID)
	if err != nil {
		return nil, err
	}
	q := bootstrap.NodeTokenRequest{Node: node, Mode: bootstrap.CloudInit, TTL: lives, Shell: true, Profile: name}
	if name != "" {
		known, err := p.placement.Profile(ctx, name)
		if err != nil {
			return nil, err
		}
		q.Restart = known.Restart
		if q.Apply, err = profile.Script(known); err != nil {
			return nil, err
		}
	}
	m, err := p.bootstrap.MintNodeToken(ctx, q, by)
	return []byte(m.UserData), err
}

// assignProfile gives a node that is about to be installed anew a profile, after none: the one that it has may be one that no host has
// beside it.
func assignProfile(ctx context.Context, s *placement.Service, nodeID, name string, by store.Actor) error {
	for _, next := range []string{"", name} {
		done, err := s.Assign(ctx, placement.Caller{By: by, Write: true}, api.AssignRequest{Profile: next, Nodes: []string{nodeID}})
		if err != nil {
			return err
		}
		for _, n := range done.Nodes {
			if n.Refused != "" {
				return wire.Refuse(wire.CodeIllegalMove, "the profile "+name+" is not assigned: "+n.Refused, "see muster profile ls")
			}
		}
	}
	return nil
}
