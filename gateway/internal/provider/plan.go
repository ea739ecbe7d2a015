package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/reconcile"
)

// Plan returns what is wrong, with the command that settles it. tenant is the caller's; "": all.
func (s *Service) Plan(ctx context.Context, tenant string) (providers.Plan, error) {
	found, waiting, others, err := s.found()
	if err != nil {
		return providers.Plan{}, err
	}
	list, err := s.Providers(ctx, tenant)
	if err != nil {
		return providers.Plan{}, err
	}
	p := providers.Plan{Providers: list.Providers, Findings: []providers.Finding{}, Unjudged: counted(waiting, tenant),
		Foreign: counted(others, tenant)}
	paid := map[[2]string]float64{} // of each machine, once
	pay := func(account, instance string, perDay float64) {
		machine := [2]string{account, instance}
		more := max(perDay-paid[machine], 0)
		paid[machine] += more
		p.PerDay += more
	}
	for _, f := range found {
		if tenant != "" && f.Tenant != tenant {
			continue
		}
		p.Findings = append(p.Findings, f)
		if f.PerDay != nil {
			pay(f.Provider, f.Instance, *f.PerDay)
		}
	}
	for _, u := range p.Unjudged {
		pay(u.Provider, u.Instance, u.PerDay)
	}
	return p, nil
}

// counted sums up machines that are not judged, of a tenant; "": of all.
func counted(waiting map[reconcile.Waiting]int, tenant string) []providers.Unjudged {
	sums := map[providers.Unjudged]int{}
	for w, n := range waiting {
		if tenant == "" || w.Tenant == tenant {
			sums[providers.Unjudged{Provider: w.Account, Instance: w.Instance, Why: w.Why, PerDay: w.PerDay}] += n
		}
	}
	all := make([]providers.Unjudged, 0, len(sums))
	for u, n := range sums {
		u.Machines = n
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b providers.Unjudged) int {
		return cmp.Or(strings.Compare(a.Provider, b.Provider), strings.Compare(a.Instance, b.Instance), strings.Compare(a.Why, b.Why))
	})
	return all
}

// found are the findings of the last round, what it could not judge, and what is not its to judge. Nobody may change them.
func (s *Service) found() (all []providers.Finding, waiting, others map[reconcile.Waiting]int, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.looked && len(s.market.Accounts()) > 0 {
		return nil, nil, nil, wire.Refuse(wire.CodeUnavailable, "the fleet was not held against its providers yet",
			"try again in a few seconds")
	}
	return s.findings, s.waiting, s.foreign, nil
}

// mostSingle is how many findings of one kind on one account are told one by one.
const mostSingle = 20

// Told returns the findings of which people are told. If an account has many findings of one kind, they become one finding without an
// instance.
func (s *Service) Told() []providers.Finding {
	found, _, _, err := s.found()
	if err != nil {
		return nil
	}
	type group struct{ account, kind, tenant string }
	groups := map[group][]providers.Finding{}
	var order []group
	for _, f := range found {
		g := group{f.Provider, f.Kind, f.Tenant}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], f)
	}
	var all []providers.Finding
	for _, g := range order {
		if members := groups[g]; len(members) > mostSingle {
			all = append(all, summed(members))
		} else {
			all = append(all, members...)
		}
	}
	return all
}

// summed is one finding for many.
func summed(members []providers.Finding) providers.Finding {
	first := slices.MinFunc(members, func(a, b providers.Finding) int { return a.Since.Compare(b.Since) })
	sum := providers.Finding{Kind: first.Kind, Severity: first.Severity, Provider: first.Provider, Tenant: first.Tenant, Since: first.Since,
		Next: "muster provider plan"}
	unpriced := 0
	for i := range members {
		api.Add(&sum.PerDay, members[i].PerDay)
		if members[i].PerDay == nil {
			unpriced++
		}
	}
	sum.Text = fmt.Sprintf("%d machines of %s, such as %s", len(members), first.Provider, first.Text)
	if sum.PerDay != nil {
		sum.Text += fmt.Sprintf("; all of them cost $%.2f a day", *sum.PerDay)
	}
	if unpriced > 0 {
		sum.Text += fmt.Sprintf("; what %d of them cost is not known", unpriced)
	}
	return sum
}
