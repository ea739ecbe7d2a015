package provider

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
)

// ofTenant is the filter of routes that have no other.
type ofTenant struct {
	Tenant string `json:"tenant"`
}

func listProviders(c Call, f ofTenant) (any, error) {
	return c.Accounts.Providers(c.Context(), f.Tenant)
}

func addProvider(c Call, q providers.Request) (any, error) {
	p, err := c.Accounts.AddProvider(c.Context(), q, c.Caller.Actor)
	if err == nil && !p.KeyReplaced {
		c.Created()
	}
	return p, err
}

func showProvider(c Call) (any, error) {
	list, err := c.Accounts.Providers(c.Context(), c.Caller.Tenant)
	if err != nil {
		return nil, err
	}
	name := c.Named("provider")
	at := slices.IndexFunc(list.Providers, func(p providers.Account) bool { return p.Name == name })
	if at < 0 {
		return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no provider account %.80q", name),
			"muster provider ls shows those that there are")
	}
	return list.Providers[at], nil
}

func removeProvider(c Call, f providers.RemoveFilter) (any, error) {
	name := c.Named("provider")
	return api.Done{ID: name, Status: "removed"}, c.Accounts.RemoveProvider(c.Context(), name, f, c.Caller.Actor)
}

func syncProvider(c Call, _ struct{}) (any, error) {
	return c.Accounts.SyncProvider(c.Context(), c.Named("provider"))
}

func limitProvider(c Call, q providers.SpendingLimit) (any, error) {
	return c.Accounts.SetProviderLimit(c.Context(), c.Named("provider"), q, c.Caller.Actor)
}

func limitTenant(c Call, q providers.SpendingLimit) (any, error) {
	return c.Accounts.SetTenantLimit(c.Context(), c.Named("tenant"), q, c.Caller.Actor)
}

func listSpending(c Call) (any, error) { return c.Accounts.Spending(c.Context()) }

func plan(c Call, f ofTenant) (any, error) { return c.Accounts.Plan(c.Context(), f.Tenant) }

func listInstances(c Call) (any, error) {
	return c.Accounts.Instances(c.Context(), c.Caller.Tenant, c.Named("provider"))
}

func showInstance(c Call) (any, error) {
	return c.Accounts.Instance(c.Context(), c.Caller.Tenant, c.Named("provider"), c.Named("instance"))
}

// act is about a machine that the caller may see. It needs the scope to spend where one starts, and else the one to change.
func act(c Call, q providers.InstanceAct) (any, error) {
	before, err := showInstance(c)
	if err != nil {
		return nil, err
	}
	scope := api.ScopeProvidersWrite
	switch q.Act {
	case providers.ActStart:
		scope = api.ScopeProvidersSpend
	case providers.ActStop, providers.ActDestroy, providers.ActRejoin:
	default:
		return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("an instance cannot %.40q", q.Act), "act is start, stop, destroy or rejoin")
	}
	if err := c.Caller.Needs(scope); err != nil {
		return nil, err
	}
	if err := c.Rents.Act(c.Context(), c.Named("provider"), c.Named("instance"), q.Act, c.Caller.Actor); err != nil {
		return nil, err
	}
	if now, err := showInstance(c); err == nil {
		return now, nil
	}
	return before, nil // it is done, and the company shows it no longer
}

func listLeases(c Call, f providers.LeaseFilter) (any, error) { return c.Leases.Leases(c.Context(), f) }

// setLease needs the scope to spend where it only moves an end later, and else the one to change: a lease may destroy. Where a change has a
// machine cost more, it needs both.
func setLease(c Call, q providers.LeaseRequest) (any, error) {
	if q.Node == "" && (q.Provider == "" || q.Instance == "") {
		return nil, wire.Refuse(wire.CodeBadRequest, "the body does not say whose lease it is", "name a node, or a provider and an instance_id")
	}
	scope := api.ScopeProvidersWrite
	only := providers.LeaseRequest{Node: q.Node, Provider: q.Provider, Instance: q.Instance, AddSeconds: q.AddSeconds}
	if q.AddSeconds > 0 && q == only {
		scope = api.ScopeProvidersSpend
	}
	if err := c.Caller.Needs(scope); err != nil {
		return nil, err
	}
	return c.Leases.SetLease(c.Context(), c.Caller.Tenant, q, c.Caller.Actor,
		func() error { return c.Caller.Needs(api.ScopeProvidersSpend) })
}

func listOffers(c Call, f providers.OfferFilter) (any, error) {
	labels := map[string]string{}
	for _, text := range f.Labels {
		key, value, _ := strings.Cut(text, "=")
		labels[key] = value
	}
	return c.Rents.Offers(c.Context(), f.Tenant, providers.Renting{Provider: f.Provider, Tenant: f.Tenant, GPU: f.GPU, GPUs: f.GPUs,
		Count: f.Count, MaxPrice: f.MaxPrice, Memory: f.Memory, Region: f.Region, DiskGB: f.DiskGB, Bid: f.Bid, Image: f.Image, Offers: f.Offers,
		Labels: labels, TTLSeconds: f.TTLSeconds, Act: f.Act, IdleEnd: f.IdleEnd})
}

// ask answers 201 for a new request, and 200 where the same request was made before. A plan is answered with offers.
func ask(c Call, q providers.Renting) (any, error) {
	tenant, err := c.Caller.Within(q.Tenant)
	if err != nil {
		return nil, err
	}
	q.Tenant = tenant
	if q.Plan {
		return c.Rents.Offers(c.Context(), tenant, q)
	}
	rented, created, err := c.Rents.Rent(c.Context(), q, c.Caller.Actor)
	if created {
		c.Created()
	}
	return rented, err
}

func listRentals(c Call, f ofTenant) (any, error) { return c.Rents.Rentals(c.Context(), f.Tenant) }

func showRental(c Call) (any, error) {
	return c.Rents.Rented(c.Context(), c.Caller.Tenant, c.Named("rental"))
}

func giveUp(c Call) (any, error) {
	return c.Rents.GiveUp(c.Context(), c.Caller.Tenant, c.Named("rental"), c.Caller.Actor)
}

func costs(c Call, f providers.CostReportFilter) (any, error) {
	return c.Accounts.Costs(c.Context(), f)
}
