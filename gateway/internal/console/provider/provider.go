// Package provider gathers what the console's page of providers shows. It asks the admin API, and knows no form, no template and no URL of
// a page.
package provider

import (
	"context"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/picture"
)

const (
	mostInstances = 500 // that a page has
	costsOf       = 24 * time.Hour
)

// Providers is the page of accounts with companies that rent machines, of what runs there, and of what does not agree with the fleet.
type Providers struct {
	Account   string // the one that is shown alone; empty: all
	Plan      providers.Plan
	Unpriced  int // findings whose cost is not known
	Instances []Instance
	More      int // instances that are not listed
	now       time.Time
	Leases    []providers.Lease
	Cost      []providers.CostRow // of the last day, by provider
}

// Instance is a row of the page.
type Instance struct {
	providers.Instance
	There picture.Mark
}

// Of returns the page that the address asks for.
func Of(q *picture.Query, now time.Time) Providers {
	return Providers{Account: q.Asked("account"), now: now}
}

// Fill asks for the plan, for the machines of each account, for the leases and for the costs.
func (p *Providers) Fill(ctx context.Context, c *client.Client) (err error) {
	if p.Plan, err = client.Get[providers.Plan](ctx, c, api.PathProviderPlan, nil); err != nil {
		return err
	}
	leases, err := client.Get[providers.LeaseList](ctx, c, api.PathLeases, providers.LeaseFilter{Provider: p.Account})
	if err != nil {
		return err
	}
	p.Leases = leases.Leases
	cost, err := client.Get[providers.CostReport](ctx, c, api.PathCostReport, providers.CostReportFilter{Since: p.now.UTC().Add(-costsOf)})
	if err != nil {
		return err
	}
	p.Cost = slices.DeleteFunc(cost.Rows, func(r providers.CostRow) bool { return p.Account != "" && r.Group != p.Account })
	p.Plan.Findings = slices.DeleteFunc(p.Plan.Findings, func(f providers.Finding) bool { return p.Account != "" && f.Provider != p.Account })
	isOther := func(u providers.Unjudged) bool { return p.Account != "" && u.Provider != p.Account }
	p.Plan.Unjudged, p.Plan.Foreign = slices.DeleteFunc(p.Plan.Unjudged, isOther), slices.DeleteFunc(p.Plan.Foreign, isOther)
	for _, f := range p.Plan.Findings {
		if f.PerDay == nil {
			p.Unpriced++
		}
	}
	for _, account := range p.Plan.Providers {
		if p.Account != "" && account.Name != p.Account {
			continue
		}
		list, err := client.Get[providers.InstanceList](ctx, c, api.At(api.PathInstances, account.Name), nil)
		if err != nil {
			return err
		}
		for _, i := range list.Instances {
			p.Instances = append(p.Instances, Instance{i, picture.InstanceOf(i.State)})
		}
	}
	p.More = max(len(p.Instances)-mostInstances, 0)
	p.Instances = p.Instances[:min(len(p.Instances), mostInstances)]
	return nil
}
