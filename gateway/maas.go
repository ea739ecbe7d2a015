package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	client, err := s.Region()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(s.URL, "http://") {
		b.log.Warn("MAAS is asked without TLS: who listens on the way to it reads the key", "url", s.URL)
	}
	return maas.Open(ctx, maas.Config{
		Store: b.store, Region: client, URL: s.URL, Tenant: s.Tenant, Series: s.Series, Deadline: s.Timeout, Logger: b.log,
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
		Profiles: func(ctx context.Context) ([]string, error) {
			all, err := p.placement.Profiles(ctx)
			return api.Each(all, func(p api.Profile) string { return p.Name }), err
		},
		Over: func(ctx context.Context, allocation string) (bool, error) {
			a, err := p.placement.Allocation(ctx, "", allocation)
			var refused *wire.ErrorDetail
			if errors.As(err, &refused) && refused.Code == wire.CodeNotFound {
				return true, nil
			}
			return a.State == api.AllocationReleased, err
		},
		Erases: func(ctx context.Context, name string) (bool, error) {
			known, err := p.placement.Profile(ctx, name)
			return known.Erase, err
		},
		Assign: func(ctx context.Context, nodeID, name string, by store.Actor) error {
			return assignProfile(ctx, p.placement, nodeID, name, by)
		},
	})
}

// couldGet tells whether MAAS has a machine of a tenant with GPUs that no node has shown yet.
func (p *parts) couldGet(ctx context.Context, w placement.Wanted) bool {
	return w.Machines == 1 && p.maas.Could(ctx, w.Tenant, maas.Fits(w.GPU))
}

// supply gets a machine for an allocation that waits: one that MAAS has ready, or else what can be rented.
func (p *parts) supply(ctx context.Context, w placement.Wanted) string {
	if w.Machines > 1 {
		return p.rental.supply(ctx, w)
	}
	node, err := p.maas.Serve(ctx, w.Tenant, w.ID, maas.Fits(w.GPU), store.Actor{Name: maas.Actor})
	switch {
	case err != nil:
		return "no machine of MAAS is deployed for it: " + err.Error()
	case node != "":
		return "the machine " + node + ", which MAAS installs for it, and the approval of its slots: muster slot ls --node " + node
	}
	return p.rental.supply(ctx, w)
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
		if q.Apply, err = profile.Script(known); err != nil {
			return nil, err
		}
	}
	m, err := p.bootstrap.MintNodeToken(ctx, q, by)
	return []byte(m.UserData), err
}

// assignProfile gives a node a profile.
func assignProfile(ctx context.Context, s *placement.Service, nodeID, name string, by store.Actor) error {
	done, err := s.Assign(ctx, placement.Caller{By: by, Write: true}, api.AssignRequest{Profile: name, Nodes: []string{nodeID}})
	if err != nil {
		return err
	}
	for _, n := range done.Nodes {
		if n.Refused != "" {
			return fmt.Errorf("the profile %s is not assigned: %s", name, n.Refused)
		}
	}
	return nil
}
