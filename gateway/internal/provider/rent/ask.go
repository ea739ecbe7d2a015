package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	mostMachines = 100
	mostGPUs     = 64 // in one machine
	mostPrice    = 1e6
	mostDiskGB   = 100_000
	mostWord     = 60
	mostImage    = 512
	leastIdle    = 10 * time.Minute
)

// Rent begins to rent machines, and returns as soon as all of them are on record. It uses only accounts of the tenant in the request;
// empty: any. The same id again returns the same request.
func (s *Service) Rent(ctx context.Context, q providers.Renting, by store.Actor) (rented providers.Rented, created bool, err error) {
	a, err := s.check(ctx, &q)
	if err != nil {
		return rented, false, err
	}
	q.ID = cmp.Or(q.ID, wire.NewTaskID())
	if found, err := s.same(ctx, q, by); err != nil || found != nil {
		if err != nil {
			return rented, false, err
		}
		rented, err = s.shown(ctx, *found)
		return rented, false, err
	}
	p, err := s.plan(ctx, a, q)
	if err != nil {
		return rented, false, err
	}
	request, err := s.begin(ctx, p, lease.Owner(by), "", by)
	if err != nil {
		return rented, false, err
	}
	rented, err = s.shown(ctx, request)
	return rented, true, err
}

// Offers shows what can be rented, and which of the offers a request would take. It uses only accounts of tenant; empty: any.
func (s *Service) Offers(ctx context.Context, tenant string, q providers.Renting) (providers.OfferList, error) {
	q.Tenant, q.Plan = cmp.Or(tenant, q.Tenant), true
	q.TTLSeconds = cmp.Or(q.TTLSeconds, int(time.Hour/time.Second))
	a, err := s.check(ctx, &q)
	if err != nil {
		return providers.OfferList{}, err
	}
	o, err := s.offers(ctx, a, q)
	if err != nil {
		return providers.OfferList{}, unseen(a, err)
	}
	known, err := s.known(ctx, a, o.bad)
	if err != nil {
		return providers.OfferList{}, err
	}
	list := providers.OfferList{Offers: []providers.Offer{}}
	chosen := choose(q, q.Count, o.at(q))
	for _, one := range o.offers {
		isChosen := slices.ContainsFunc(chosen, func(c cloud.Offer) bool { return c.ID == one.ID })
		list.Offers = append(list.Offers, providers.Offer{ID: one.ID, Host: one.Host, Region: one.Region, GPU: one.GPU, GPUs: one.GPUs,
			MemoryMiB: one.GPUMiB, PerHour: one.Price.Dollars(), Reliability: one.Reliability, Until: one.Until, Known: known[one.Host],
			Chosen: isChosen, Misfit: misfit(one, q, o.at(q).bad)})
	}
	slices.SortStableFunc(list.Offers, func(a, b providers.Offer) int { return cmp.Compare(a.PerHour, b.PerHour) })
	p := &plan{account: a, chosen: chosen}
	list.PerHour = p.price().Dollars()
	switch limit := s.passed(ctx, p); {
	case errors.Is(limit, rentals.ErrLimit) && len(chosen) > 0:
		list.Refused = limit.Error()
	case limit != nil && !errors.Is(limit, rentals.ErrLimit):
		return list, limit
	}
	return list, nil
}

// passed returns the ErrLimit that says which limit does not allow a plan.
func (s *Service) passed(ctx context.Context, p *plan) error {
	return s.Records.Passed(store.Fresh(ctx), rentals.Rental{Account: p.account.Name, Tenant: p.account.Tenant, Price: int64(p.price())})
}

// known is what muster knows of hosts from before.
func (s *Service) known(ctx context.Context, a rentals.Account, bad map[string]string) (map[string]string, error) {
	all, err := s.Records.Rentals(ctx, rentals.RentalQuery{Account: a.Name})
	good := map[string]int{}
	for _, r := range all {
		if r.Host != "" && r.ReadyAt != nil {
			good[r.Host]++
		}
	}
	known := map[string]string{}
	for host, count := range good {
		known[host] = fmt.Sprintf("%d of its machines passed", count)
	}
	for host, why := range bad {
		known[host] = "bad: " + why
	}
	return known, err
}

// check refuses a request that makes no sense, and completes it.
func (s *Service) check(ctx context.Context, q *providers.Renting) (rentals.Account, error) {
	if err := checkWant(q); err != nil {
		return rentals.Account{}, err
	}
	accounts, err := s.Records.Accounts(store.Fresh(ctx))
	if err != nil {
		return rentals.Account{}, err
	}
	i := slices.IndexFunc(accounts, func(a rentals.Account) bool {
		return a.Name == q.Provider && (q.Tenant == "" || a.Tenant == q.Tenant)
	})
	if i < 0 {
		text := fmt.Sprintf("no account is called %.60q", q.Provider)
		if q.Tenant != "" {
			text = fmt.Sprintf("the tenant %s has no account that is called %.60q", q.Tenant, q.Provider)
		}
		return rentals.Account{}, wire.Refuse(wire.CodeNotFound, text, "muster provider ls shows the accounts and whose they are")
	}
	a := accounts[i]
	q.MoreGPUs = q.MoreGPUs || q.GPUs == 0 && len(q.Offers) > 0
	q.Tenant, q.Count, q.GPUs = a.Tenant, max(q.Count, 1), max(q.GPUs, 1)
	if a.Kind == cloud.Lambda && a.SSHKey == "" {
		return a, wire.Refuse(wire.CodeBadRequest, "Lambda Cloud needs the name of an ssh key, and the account "+a.Name+" has none",
			"remove it, and add it again: muster provider add "+cloud.Lambda+" --key-file FILE --ssh-key NAME")
	}
	return a, lease.CanStop(a.Kind, q.Act)
}

// checkWant refuses what no account could serve.
func checkWant(q *providers.Renting) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	odd := func(text string, most int) bool { return len(text) > most || text != wire.Plain(text, most) }
	switch {
	case q.ID != "" && wire.CheckTaskID(q.ID) != nil:
		return wire.CheckTaskID(q.ID)
	case q.Tenant != "" && wire.CheckTenant(q.Tenant) != nil:
		return wire.CheckTenant(q.Tenant)
	case q.GPU == "" && len(q.Offers) == 0, odd(q.GPU, mostWord), !wire.LabelValue(q.GPU):
		return bad("it takes a model of GPUs", "--gpu H100")
	case q.GPUs < 0 || q.GPUs > mostGPUs:
		return bad(fmt.Sprintf("%d is no number of GPUs of one machine", q.GPUs), fmt.Sprintf("from 1 to %d", mostGPUs))
	case q.Count < 0 || q.Count > mostMachines:
		return bad(fmt.Sprintf("%d is no number of machines", q.Count), fmt.Sprintf("from 1 to %d", mostMachines))
	case q.MaxPrice == nil && len(q.Offers) == 0 && !q.Plan:
		return bad("it takes the highest price of one machine an hour", "--max-price 2.50")
	case q.MaxPrice != nil && !(*q.MaxPrice > 0 && *q.MaxPrice <= mostPrice):
		return bad("the highest price is no price", "such as 2.50, an hour, of one machine")
	case q.Memory < 0 || q.DiskGB < 0 || q.DiskGB > mostDiskGB:
		return bad("there is no such size", fmt.Sprintf("a disk has at most %d GB", mostDiskGB))
	case odd(q.Region, mostWord), odd(q.Image, mostImage), strings.ContainsRune(q.Image, ' '), len(q.Offers) > mostMachines:
		return bad("the region, the image or the list of offers cannot be read", "muster rent --gpu MODEL --plan shows regions and offers")
	case q.TTLSeconds < int(time.Minute/time.Second) || q.TTLSeconds > int(lease.Longest/time.Second):
		return bad(fmt.Sprintf("a machine cannot be rented for %s", time.Duration(q.TTLSeconds)*time.Second),
			"--ttl 8h: from a minute to 366 days; then muster lease extend")
	case q.Act != "" && q.Act != providers.ActStop && q.Act != providers.ActDestroy:
		return bad("what is rented is destroyed or stopped at the end of its lease", "destroy or stop")
	case q.IdleEnd != 0 && (q.IdleEnd < int(leastIdle/time.Second) || q.IdleEnd > int(lease.Longest/time.Second)):
		return bad(fmt.Sprintf("a lease cannot end after %d idle seconds", q.IdleEnd), "from 10 minutes on; 0: it does not")
	}
	if _, isSaid := q.Labels[label.Price]; isSaid {
		return bad("what a machine costs its company says", "leave out the label "+label.Price)
	}
	if own := 2; len(q.Labels) > wire.MaxLabels-own { // those of what is paid for
		return bad(fmt.Sprintf("%d labels are too many", len(q.Labels)), fmt.Sprintf("at most %d", wire.MaxLabels-own))
	}
	return label.Check(q.Labels)
}

// same gives the request with this id, if it asks for the same; nil: there is none.
func (s *Service) same(ctx context.Context, q providers.Renting, by store.Actor) (*rentals.Request, error) {
	found, err := s.Records.Requests(store.Fresh(ctx), rentals.RequestQuery{ID: q.ID})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if was := found[0]; was.Owner != lease.Owner(by) || was.Want != string(text) {
		return nil, wire.Refuse(wire.CodeAlreadyThere, "there is another request with the id "+q.ID, "leave the id out")
	}
	return &found[0], nil
}

// unseen refuses a request because a company does not answer.
func unseen(a rentals.Account, err error) error {
	return cloud.Refusal(err, "the offers of "+a.Name+" cannot be seen",
		"nothing was rented; muster provider ls shows whether the account works")
}

// plan chooses offers for all machines of a request, or says why it cannot.
func (s *Service) plan(ctx context.Context, a rentals.Account, q providers.Renting) (*plan, error) {
	o, err := s.offers(ctx, a, q)
	if err != nil {
		return nil, unseen(a, err)
	}
	count := max(q.Count, 1)
	chosen := choose(q, count, o.at(q))
	if len(chosen) < count {
		return nil, wire.Refuse(wire.CodeNoCapacity, fewOffers(a, q, o.at(q), len(chosen), count),
			"pay more, or ask for fewer: muster rent --gpu MODEL --plan shows what there is; nothing was rented")
	}
	return &plan{a, q, chosen}, nil
}

// begin puts a request and all its machines on record. If a limit does not allow one of them, none is rented.
func (s *Service) begin(ctx context.Context, p *plan, owner, allocation string, by store.Actor) (rentals.Request, error) {
	text, err := json.Marshal(p.want)
	if err != nil {
		return rentals.Request{}, err
	}
	ctx = context.WithoutCancel(ctx) // a caller who goes away must not leave half a request
	q := rentals.Request{ID: p.want.ID, Account: p.account.Name, Tenant: p.want.Tenant, Owner: owner, State: providers.RentedRenting,
		Want: string(text), Count: max(p.want.Count, 1), CreatedAt: s.Now(), Allocation: allocation}
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if err := s.Records.PutRequest(ctx, q); errors.Is(err, store.ErrConflict) {
		return q, wire.Refuse(wire.CodeAlreadyThere, "there is a request with the id "+q.ID+" already, or the account is gone", "try again")
	} else if err != nil {
		return q, err
	}
	for i, o := range p.chosen {
		err := s.intend(ctx, q, place{number: i + 1}, o, by)
		switch {
		case errors.Is(err, rentals.ErrLimit):
			if err := s.withdraw(ctx, q, err.Error()); err != nil {
				return q, err
			}
			return q, wire.Refuse(wire.CodeOverQuota, fmt.Sprintf("machine %d of %d, which cost %s an hour together, does not fit: %s", i+1,
				len(p.chosen), dollars(p.price()), err), "nothing was rented; muster provider limit shows and sets limits")
		case err != nil:
			return q, err
		}
	}
	return q, nil
}

// withdraw ends a request of which nothing was ordered yet.
func (s *Service) withdraw(ctx context.Context, q rentals.Request, why string) error {
	if err := s.endRequest(ctx, q, providers.RentedFailed, why); err != nil {
		return err
	}
	intended, err := s.Records.Rentals(store.Fresh(ctx), rentals.RentalQuery{Request: q.ID, Live: true})
	for _, r := range intended {
		err = errors.Join(err, s.end(ctx, r, providers.RentalFailed, "its request does not fit: "+why))
	}
	return err
}
