package provider

import (
	"context"
	"slices"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// Providers returns the accounts of a tenant; "": of all tenants.
func (s *Service) Providers(ctx context.Context, tenant string) (providers.List, error) {
	all, err := s.priced(ctx, s.market.List(tenant)...)
	return providers.List{Providers: all}, err
}

// priced fills in what accounts cost an hour: the sum that counts against their limits, so that nobody sees another one beside the limit.
// It is not known before the first view.
func (s *Service) priced(ctx context.Context, accounts ...providers.Account) ([]providers.Account, error) {
	rows, err := s.Records.Spent(ctx)
	for i := range accounts {
		for _, r := range rows {
			if a := &accounts[i]; a.Instances != nil && r.Of == rentals.OfAccount && r.Name == a.Name {
				a.PerHour = perHour((*cloud.Money)(&r.PerHour))
			}
		}
	}
	return accounts, err
}

// AddProvider stores an account whose key the company takes, or replaces its key.
func (s *Service) AddProvider(ctx context.Context, q providers.Request, by store.Actor) (providers.Account, error) {
	return s.market.Add(ctx, q, by)
}

// RemoveProvider forgets an account and its key. It refuses while the account rents machines, unless the company cannot be asked any more
// and the filter says to forget the machines.
func (s *Service) RemoveProvider(ctx context.Context, name string, f providers.RemoveFilter, by store.Actor) error {
	if f.ForgetMachines {
		return s.market.Forget(ctx, name, by)
	}
	return s.market.Remove(ctx, name, by)
}

// SyncProvider looks at an account now, and compares the fleet with it.
func (s *Service) SyncProvider(ctx context.Context, name string) (providers.Account, error) {
	if err := s.market.Sync(ctx, name); err != nil {
		return providers.Account{}, cloud.Refusal(err, "the company does not show the instances of "+name,
			"what was seen last stays, with its age; the gateway goes on trying")
	}
	s.Round(ctx)
	a, err := s.market.Show(name, "")
	if err != nil {
		return a, err
	}
	all, err := s.priced(store.Fresh(ctx), a)
	return all[0], err
}

// SetProviderLimit says what the machines of an account may cost an hour.
func (s *Service) SetProviderLimit(ctx context.Context, name string, q providers.SpendingLimit, by store.Actor) (
	providers.Spending, error,
) {
	if err := s.market.SetLimit(ctx, name, q, by); err != nil {
		return providers.Spending{}, err
	}
	return s.spendingOf(ctx, rentals.OfAccount, name)
}

// SetTenantLimit says what the machines of a tenant may cost an hour, on all accounts.
func (s *Service) SetTenantLimit(ctx context.Context, tenant string, q providers.SpendingLimit, by store.Actor) (
	providers.Spending, error,
) {
	if err := wire.CheckTenant(tenant); err != nil {
		return providers.Spending{}, err
	}
	limit, shown, err := market.Limit(q)
	if err != nil {
		return providers.Spending{}, err
	}
	if err := s.isThere(ctx, tenant); limit != nil && err != nil {
		return providers.Spending{}, err
	}
	e := store.Event{At: s.Now(), Kind: "spending.limited", Actor: by.Name, Address: by.Address, Tenant: tenant, Outcome: store.OutcomeOK,
		Security: true, Detail: map[string]string{"limit": shown}}
	if err := s.Records.SetTenantLimit(ctx, tenant, limit, s.Now(), by.Name, e); err != nil {
		return providers.Spending{}, err
	}
	return s.spendingOf(ctx, rentals.OfTenant, tenant)
}

// isThere refuses a tenant of which there is nothing: a limit for a name that is mistyped would limit nobody.
func (s *Service) isThere(ctx context.Context, tenant string) error {
	all, err := s.Store.Tenants(ctx, tenant, s.Now())
	if err == nil && len(all) == 0 && len(s.market.List(tenant)) == 0 {
		err = wire.Refuse(wire.CodeNotFound, "no node, account or token has the tenant "+tenant,
			"muster tenant ls shows the tenants that there are")
	}
	return err
}

// Spending returns what each account and tenant costs now, and how much it may cost.
func (s *Service) Spending(ctx context.Context) (providers.SpendingList, error) {
	rows, err := s.Records.Spent(ctx)
	list := providers.SpendingList{Spending: make([]providers.Spending, len(rows))}
	for i, r := range rows {
		list.Spending[i] = providers.Spending{Of: r.Of + " " + r.Name, Now: cloud.Money(r.PerHour).Dollars(),
			PerHour: perHour((*cloud.Money)(r.Limit))}
	}
	return list, err
}

// spendingOf is one of them.
func (s *Service) spendingOf(ctx context.Context, of, name string) (providers.Spending, error) {
	list, err := s.Spending(store.Fresh(ctx))
	for _, one := range slices.Backward(list.Spending) {
		if one.Of == of+" "+name {
			return one, err
		}
	}
	return providers.Spending{Of: of + " " + name}, err
}
