package rent

import (
	"context"
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

// afterAllocation is how long the lease of a machine goes on after the allocation that it is for: the end of the allocation ends it before.
const afterAllocation = 10 * time.Minute

// Serve rents what an allocation waits for, within the limits, from the account of its tenant that offers it for least. The id of the
// request is the allocation's, and its time is how long the allocation lasts. The same again rents nothing more, and says how far it is. A
// refusal says why nothing is rented, or why what was rented is not enough. What was rented is given back when the allocation ends. A
// request that is a plan rents nothing, and is told what it would.
func (s *Service) Serve(ctx context.Context, owner string, want providers.Renting) (waitsFor string, err error) {
	found, err := s.Records.Requests(store.Fresh(ctx), rentals.RequestQuery{ID: want.ID})
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return s.serve(ctx, owner, want)
	}
	switch q := found[0]; {
	case q.Allocation != want.ID:
		return "", wire.Refuse(wire.CodeAlreadyThere, "what was rented under the id "+want.ID+" is not for it",
			"muster rent ls shows it; ask for another allocation")
	case q.State == providers.RentedFailed:
		return "", wire.Refuse(wire.CodeNoCapacity, "not all that it needs can be rented: "+q.Why,
			"muster rent show "+q.ID+" shows what failed and what it cost")
	case q.State == providers.RentedDone:
		return "its machines are rented, and their slots are not free yet: muster slot ls", nil
	default:
		return s.howFar(ctx, q)
	}
}

func (s *Service) howFar(ctx context.Context, q rentals.Request) (string, error) {
	all, err := s.Records.Rentals(ctx, rentals.RentalQuery{Request: q.ID})
	if err != nil {
		return "", err
	}
	p := judge(q, all, func(time.Time) time.Duration { return 0 }, "")
	text := fmt.Sprintf("%d of %d machines are rented and ready", p.ready, q.Count)
	return strings.TrimSuffix(text+"; "+s.waiting(q.ID), "; "), nil
}

// CanServe refuses to rent for allocations of a tenant that has no account.
func (s *Service) CanServe(ctx context.Context, tenant string) error {
	accounts, err := s.Records.Accounts(store.Fresh(ctx))
	if err == nil && !slices.ContainsFunc(accounts, func(a rentals.Account) bool { return a.Tenant == tenant }) {
		err = noAccount(tenant)
	}
	return err
}

func noAccount(tenant string) *wire.ErrorDetail {
	return wire.Refuse(wire.CodeNoCapacity, "the tenant "+tenant+" has no account to rent from",
		"an operator adds one: muster provider add KIND --key-file FILE --tenant "+tenant)
}

// serve rents for an allocation from the account that offers it for least.
func (s *Service) serve(ctx context.Context, owner string, want providers.Renting) (string, error) {
	want.Labels = map[string]string{label.RentedFor: want.ID}
	want.TTLSeconds += int((lambdaLimit + checkLimit) / time.Second)
	accounts, err := s.Records.Accounts(store.Fresh(ctx))
	if err != nil {
		return "", err
	}
	var best *plan
	refused := noAccount(want.Tenant)
	for _, a := range accounts {
		if a.Tenant != want.Tenant {
			continue
		}
		p, err := s.planFor(ctx, a, want)
		if err != nil && !errors.As(err, &refused) {
			return "", err
		}
		if err == nil && (best == nil || p.price() < best.price()) {
			best = p
		}
	}
	if best == nil {
		return "", refused
	}
	if want.Plan {
		limit := s.passed(ctx, best)
		if errors.Is(limit, rentals.ErrLimit) {
			limit = wire.Refuse(wire.CodeOverQuota, best.says()+", does not fit: "+limit.Error(), "muster provider limit shows and sets limits")
		}
		return best.says(), limit
	}
	q, err := s.begin(ctx, best, owner, want.ID, store.Actor{})
	if err != nil {
		return "", err
	}
	return s.howFar(ctx, q)
}

// end is that of an allocation.
type end struct {
	at     *time.Time // nil: it waits
	isOver bool
}

const overWhy = "its allocation has ended"

// readAllocations learns when the allocations end that something is rented for, and ends the requests of those that are over.
func (s *Service) readAllocations(ctx context.Context, t *tables) (err error) {
	for id, q := range t.requests {
		if q.Allocation == "" {
			continue
		}
		var e end
		if e.at, e.isOver, err = s.Allocation(ctx, q.Allocation); err != nil {
			return err
		}
		t.ends[q.Allocation] = e
		if e.isOver && q.State == providers.RentedRenting {
			if err := s.endRequest(ctx, q, providers.RentedFailed, overWhy); err != nil {
				return err
			}
			q.State = providers.RentedFailed
			t.requests[id] = q
		}
	}
	return nil
}

// follow gives back the machine of an allocation that is over, and has its lease end with an allocation that is not.
func (s *Service) follow(ctx context.Context, e end, l *rentals.Lease, r *rentals.Rental) error {
	switch {
	case l == nil || l.State != providers.LeaseLive:
		return nil
	case e.isOver:
		_, err := s.Leases.End(ctx, lease.Ending{Account: r.Account, Instance: r.Instance, Act: providers.ActDestroy, Why: overWhy})
		return err
	case e.at == nil || l.EndsAt.Equal(e.at.Add(afterAllocation)):
		return nil
	}
	l.EndsAt, l.Warned = e.at.Add(afterAllocation), false
	if err := s.Records.PutLease(ctx, *l); err != nil {
		return err
	}
	l.Version++
	return nil
}

// planFor is plan for an allocation.
func (s *Service) planFor(ctx context.Context, a rentals.Account, want providers.Renting) (*plan, error) {
	want.Provider = a.Name
	if _, err := s.check(ctx, &want); err != nil {
		return nil, err
	}
	return s.plan(ctx, a, want)
}

// plan is what is to be rented for a request.
type plan struct {
	account rentals.Account
	want    providers.Renting
	chosen  []cloud.Offer
}

// says is what is to be rented, in words.
func (p *plan) says() string {
	what := "a machine"
	if len(p.chosen) > 1 {
		what = fmt.Sprintf("%d machines", len(p.chosen))
	}
	var kinds []string
	for _, o := range p.chosen {
		if kind := fmt.Sprintf("%d x %s", o.GPUs, o.GPU); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return fmt.Sprintf("%s with %s, rented from %s for %s an hour", what, strings.Join(kinds, " or "), p.account.Name, dollars(p.price()))
}

func (p *plan) price() (sum cloud.Money) {
	for _, o := range p.chosen {
		sum += o.Price
	}
	return sum
}
