package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	surface "muster/gateway/internal/adminapi/provider"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/httpserver/daemon"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud/dial"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/provider/reconcile"
	"muster/gateway/internal/provider/rent"
	"muster/gateway/internal/view"
	"muster/store"
	slots "muster/store/placement"
	rentals "muster/store/provider"
)

// rental are the parts that know the companies which rent machines.
type rental struct {
	base
	tasks     func(context.Context, store.TaskQuery) ([]store.Task, string, error)
	placement *placement.Service
	bootstrap *bootstrap.Bootstrap
	command   func(token, at string) string // that joins a machine; the listeners give it
	surface.Service
}

// openRental opens the accounts, the leases and what is rented. The command is known when the listeners are.
func openRental(ctx context.Context, b base, p *parts) (*rental, error) {
	r := &rental{base: b, tasks: b.store.Tasks, placement: p.placement, bootstrap: p.bootstrap}
	records := rentals.New(b.store.Records())
	var err error
	r.Accounts, err = provider.Open(ctx, provider.Config{
		Config: market.Config{Store: b.store, Records: records, Dial: dial.Company, Logger: b.log},
		Ready:  b.overview.Ready, NodeCosts: b.costs.Sums, Down: b.overview.Down,
		Nodes: func() []*api.NodeRow {
			rows, _ := b.overview.Rows(view.Query{All: true})
			return rows
		},
	})
	if err != nil {
		return nil, err
	}
	r.Leases = lease.Open(lease.Config{
		World: lease.World{Records: records, Ready: b.overview.Ready, Market: r.Accounts.Market(), Soon: r.Accounts.Market().Soon,
			Node: b.overview.Row, NodeOf: r.nodeOf, Away: b.fleet.Absent, Logger: b.log},
		Nodes: b.overview.Nodes, Busy: r.busy, Drain: r.apply(fleet.Drain), Resume: r.apply(fleet.Resume), Retire: r.apply(fleet.Retire),
	})
	r.Rents = rent.Open(rent.Config{Leases: r.Leases, Named: r.named, Mint: r.mint, Revoke: r.revoke, Accept: p.placement.Accept,
		Accepted: p.placement.Accepted, Allocation: r.allocation})
	return r, nil
}

// works lists what these parts do by themselves.
func (r *rental) works() []daemon.Part {
	return []daemon.Part{{Name: "providers", Run: r.Accounts.Run}, {Name: "leases", Run: r.Leases.Run}, {Name: "rentals", Run: r.Rents.Run}}
}

// supply rents what an allocation needs that waits, where it may.
func (r *rental) supply(ctx context.Context, w placement.Wanted) string {
	if !w.Rent {
		return ""
	}
	says, err := r.Rents.Serve(ctx, w.Owner, providers.Renting{ID: w.ID, Tenant: w.Tenant, GPU: w.GPU, GPUs: w.GPUs, MoreGPUs: true,
		Count: w.Machines, MaxPrice: &w.MaxPrice, TTLSeconds: int(w.TTL / time.Second), Plan: w.DryRun})
	if err != nil {
		return "a machine that can be rented: " + err.Error()
	}
	return says
}

// nodeOf finds the node that says that it is this instance, also a retired one; the newest of several.
func (r *rental) nodeOf(kind, instance string) (*api.NodeRow, bool) {
	rows, _ := r.overview.Rows(view.Query{All: true})
	var found *api.NodeRow
	for _, n := range rows {
		isIt := n.Provider == kind && n.InstanceID != "" && reconcile.InstanceID(kind, n.InstanceID) == instance
		if isIt && (found == nil || found.CreatedAt.Before(n.CreatedAt)) {
			found = n
		}
	}
	return found, found != nil
}

// named finds a node that is not retired by its name.
func (r *rental) named(name string) (*api.NodeRow, bool) {
	rows := r.overview.Nodes()
	if i := slices.IndexFunc(rows, func(n *api.NodeRow) bool { return n.Name == name }); i >= 0 {
		return rows[i], true
	}
	return nil, false
}

// cost is what nodes cost an hour together, by their labels; empty: that is not known.
func (r *rental) cost(nodes []string) string {
	sum := 0.0
	for _, name := range nodes {
		n, known := r.named(name)
		if !known || n.PricePerHour == nil {
			return ""
		}
		sum += *n.PricePerHour
	}
	return fmt.Sprintf("$%.2f", sum)
}

// busy is what works on a node: allocations that are not over, and the tasks and programs of people. What cannot be read counts as work.
func (r *rental) busy(nodeID string) (work []string) {
	for _, h := range r.placement.Holds(nodeID) {
		if text := "the allocation " + h.Allocation; h.State == slots.Held && !slices.Contains(work, text) {
			work = append(work, text)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	tasks, _, err := r.tasks(ctx, store.TaskQuery{Node: nodeID, Open: true, Limit: 100})
	if err != nil {
		return append(work, "its tasks cannot be read")
	}
	work = append(work, ofPeople(tasks)...)
	if n, known := r.overview.Row(nodeID); known {
		for _, run := range n.Runs {
			if run.State == wire.RunRunning {
				work = append(work, "the program "+run.Name)
			}
		}
	}
	return work
}

// ofPeople names the tasks that people wait for. What the gateway looks at by itself is no reason to pay for a machine.
func ofPeople(tasks []store.Task) (work []string) {
	for _, t := range tasks {
		if t.CreatedBy != inventory.ByGateway {
			work = append(work, "the task "+t.ID)
		}
	}
	return work
}

// apply moves a node. What the reason was, the events of its lease say.
func (r *rental) apply(verb fleet.Verb) func(ctx context.Context, nodeID string) error {
	return func(ctx context.Context, nodeID string) error {
		return r.fleet.Provide(ctx, nodeID, verb, true, store.Actor{Name: "gateway"})
	}
}

// mint makes a token with the command that joins a machine.
func (r *rental) mint(ctx context.Context, q api.TokenRequest, by store.Actor) (api.NewToken, error) {
	shown, row, err := r.bootstrap.MintToken(ctx, q, by)
	if err != nil {
		return api.NewToken{}, err
	}
	return api.NewToken{ID: row.ID, Token: shown.Reveal(), ExpiresAt: row.ExpiresAt, Tenant: row.Tenant, Uses: row.Uses, Labels: q.Labels,
		Name: row.Name, Command: r.command(shown.Reveal(), q.Gateway)}, nil
}

// revoke ends a token; one that is not there any more is ended.
func (r *rental) revoke(ctx context.Context, id string) error {
	err := r.bootstrap.RevokeToken(ctx, "", id, store.Actor{Name: "gateway"})
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// allocation says when an allocation ends; nil: it waits.
func (r *rental) allocation(ctx context.Context, id string) (ends *time.Time, over bool, err error) {
	a, err := r.placement.Allocation(ctx, "", id)
	var refused *wire.ErrorDetail
	switch {
	case errors.As(err, &refused) && refused.Code == wire.CodeNotFound:
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case a.State == api.AllocationWaiting:
		return nil, false, nil
	}
	return a.EndsAt, a.State == api.AllocationReleasing || a.State == api.AllocationReleased, nil
}

// told is what people are told of providers and leases.
func (r *rental) told() (all []alert.Fact) {
	for _, f := range r.Accounts.Told() {
		subject := f.Provider
		if f.Instance != "" {
			subject += "/" + f.Instance
		}
		all = append(all, alert.Fact{Condition: f.Kind, Subject: subject, Tenant: f.Tenant, Since: f.Since, Text: f.Text, Next: f.Next})
	}
	return all
}
