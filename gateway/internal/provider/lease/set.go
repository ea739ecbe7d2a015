package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/reconcile"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	// Longest is how long a lease may last from now.
	Longest = 366 * 24 * time.Hour

	shortest  = time.Minute
	leastIdle = 10 * time.Minute // GPUs count as idle after ten minutes
	retries   = 5                // where somebody else was faster
)

// SetLease puts a machine under a lease, changes its lease, or ends it. tenant bounds what machines these may be; empty: any. maySpend
// refuses a caller who may not spend money: it is called if the machine may cost more than by its present lease.
func (s *Service) SetLease(ctx context.Context, tenant string, q providers.LeaseRequest, by store.Actor, maySpend func() error) (
	providers.Lease, error,
) {
	if err := check(q); err != nil {
		return providers.Lease{}, err
	}
	a, instance, err := s.target(ctx, tenant, q)
	if err != nil {
		return providers.Lease{}, err
	}
	if err := CanStop(a.Kind, q.Act); err != nil {
		return providers.Lease{}, err
	}
	return s.change(ctx, a, instance, func(l *rentals.Lease, isNew bool) (kind string, err error) {
		was := *l
		if q.End {
			kind, err = s.end(l, isNew, a, Ending{Act: q.Act, Why: "ended by " + by.Name})
		} else {
			kind, err = s.set(ctx, l, isNew, a, q, by)
		}
		if err == nil && !isNew && costsMore(was, *l, q.End) {
			err = maySpend()
		}
		return kind, err
	}, by)
}

// costsMore is true if a machine may cost more by the second lease than by the first. One that has no lease has no end at all, so that a
// first one costs nothing. A stop at once costs no more than what goes on.
func costsMore(was, is rentals.Lease, isEnd bool) bool {
	acts := []string{providers.ActDestroy, providers.ActStop, providers.ActKeep} // what is left to pay for grows
	switch {
	case was.State == providers.LeaseEnded:
		return false
	case isEnd:
		return is.State == providers.LeaseEnded && was.Act != providers.ActKeep
	case is.EndsAt.After(was.EndsAt), slices.Index(acts, is.Act) > slices.Index(acts, was.Act):
		return true
	}
	return was.Idle != nil && (is.Idle == nil || *is.Idle > *was.Idle)
}

// check refuses what makes no sense for any lease.
func check(q providers.LeaseRequest) error {
	bad := func(what, hint string) error { return wire.Refuse(wire.CodeBadRequest, what, hint) }
	most := int(Longest / time.Second)
	switch {
	case (q.Node == "") == (q.Instance == "") || (q.Provider == "") != (q.Instance == ""):
		return bad("it takes a node, or an account and an instance", "muster lease set NODE 8h, or ACCOUNT/INSTANCE in the place of NODE")
	case q.TTLSeconds != 0 && q.AddSeconds != 0, q.End && q.TTLSeconds+q.AddSeconds != 0:
		return bad("a lease cannot both end at one time and be extended or ended", "choose one of the three")
	case q.TTLSeconds != 0 && (q.TTLSeconds < int(shortest/time.Second) || q.TTLSeconds > most):
		return bad(fmt.Sprintf("a lease cannot last for %s", time.Duration(q.TTLSeconds)*time.Second),
			"from a minute to 366 days; then muster lease extend")
	case q.AddSeconds < 0 || q.AddSeconds > most:
		return bad(fmt.Sprintf("a lease cannot be extended by %d seconds", q.AddSeconds), "from a second to 366 days")
	case q.Act != "" && q.Act != providers.ActStop && q.Act != providers.ActDestroy && q.Act != providers.ActKeep:
		return bad(fmt.Sprintf("%.40q is nothing that the end of a lease does", q.Act), "stop, destroy or keep; keep only tells")
	case q.IdleSeconds != nil && *q.IdleSeconds != 0 && (*q.IdleSeconds < int(leastIdle/time.Second) || *q.IdleSeconds > most):
		return bad(fmt.Sprintf("a lease cannot end after %d idle seconds", *q.IdleSeconds), "from 10 minutes on; 0: it does not")
	}
	return nil
}

// CanStop refuses to stop a machine whose company can only destroy it.
func CanStop(kind, act string) error {
	if kind == cloud.Lambda && act == providers.ActStop {
		return wire.Refuse(wire.CodeBadRequest, "Lambda Cloud cannot stop machines", "destroy, or keep, which only tells")
	}
	return nil
}

// set changes a lease as a request says, and returns the kind of the event.
func (s *Service) set(ctx context.Context, l *rentals.Lease, isNew bool, a rentals.Account, q providers.LeaseRequest, by store.Actor) (
	string, error,
) {
	now, kind := s.Now(), "lease.set"
	ended := l.State == providers.LeaseEnded
	wasEnding := l.State == providers.LeaseDraining || l.State == providers.LeaseEnding
	if err := s.takeOver(ctx, l); err != nil {
		return "", err
	}
	switch {
	case l.State == providers.LeaseEnding && l.AskedAt != nil:
		return "", wire.Refuse(wire.CodeIllegalMove, "the lease of "+l.Instance+" is over, and its company was asked to "+l.Act+" it",
			"muster lease ls shows how far that is")
	case (isNew || ended) && q.TTLSeconds == 0:
		return "", wire.Refuse(wire.CodeBadRequest, l.Instance+" has no lease, so there is nothing to change", "muster lease set INSTANCE 8h")
	case q.AddSeconds != 0:
		kind = "lease.extended"
		l.EndsAt = l.EndsAt.Add(time.Duration(q.AddSeconds) * time.Second)
	case q.TTLSeconds != 0:
		l.EndsAt = now.Add(time.Duration(q.TTLSeconds) * time.Second)
	}
	switch {
	case l.EndsAt.Sub(now) > Longest:
		return "", wire.Refuse(wire.CodeBadRequest, "the lease would end in more than 366 days", "extend it by less")
	case !l.EndsAt.After(now) && q.AddSeconds != 0:
		return "", wire.Refuse(wire.CodeIllegalMove, "the lease ended at "+l.EndsAt.UTC().Format(time.RFC3339)+" even so",
			"muster lease set INSTANCE 8h")
	}
	if ended {
		l.CreatedAt, l.Owner = now, Owner(by)
	}
	act := cmp.Or(q.Act, l.Act, usualAct(a.Kind, l.Rental))
	if err := s.mayEnd(ctx, a, *l, act); err != nil {
		return "", err
	}
	if l.EndsAt.After(now) || act == providers.ActKeep {
		l.State, l.DrainedAt, l.AskedAt, l.EndedAt, l.TryAt, l.Tries = providers.LeaseLive, nil, nil, nil, nil, 0
	}
	if q.TTLSeconds+q.AddSeconds != 0 {
		l.Why = decided(l, by)
	}
	if wasEnding && l.State == providers.LeaseLive {
		l.Why = "it was about to " + l.Act + " the machine, and " + Owner(by) + " has taken that back"
	}
	l.Warned = l.Warned && l.EndsAt.Sub(now) <= reconcile.WarnBefore
	l.Act = act
	if q.IdleSeconds != nil {
		l.Idle = nil
		if *q.IdleSeconds > 0 {
			l.Idle = new(time.Duration(*q.IdleSeconds) * time.Second)
		}
	}
	return kind, nil
}

// mayEnd refuses a lease that would end a machine of another gateway.
func (s *Service) mayEnd(ctx context.Context, a rentals.Account, l rentals.Lease, act string) error {
	foreign, err := s.isForeign(ctx, l, s.nodeOf(a, l))
	if err != nil || !foreign || act == providers.ActKeep {
		return err
	}
	name := l.Account + "/" + l.Instance
	return wire.Refuse(wire.CodeIllegalMove, "another gateway has rented "+name+", and may use it: no lease here can "+act+" it",
		"--act keep only tells; muster provider "+act+" "+name+" does it now all the same")
}

// decided says who has decided the end of a lease, where that is not its owner.
func decided(l *rentals.Lease, by store.Actor) string {
	if who := Owner(by); who != l.Owner {
		return "set by " + who
	}
	return ""
}

// Owner returns the name that leases and requests have for their owner.
func Owner(by store.Actor) string { return cmp.Or(strings.TrimPrefix(by.Name, "account:"), byGateway) }

// takeOver makes a machine whose rental has failed the person's who puts it under a lease again: else it would be given back.
func (s *Service) takeOver(ctx context.Context, l *rentals.Lease) error {
	if l.State == providers.LeaseLive || l.Rental == "" {
		return nil
	}
	found, err := s.Records.Rentals(store.Fresh(ctx), rentals.RentalQuery{ID: l.Rental})
	if err == nil && (len(found) == 0 || found[0].State == providers.RentalFailed) {
		l.Rental = ""
	}
	return err
}

// usualAct is what is done with a machine about which nobody has said anything: muster destroys only what it has rented.
func usualAct(kind, rental string) string {
	switch {
	case rental != "":
		return providers.ActDestroy
	case CanStop(kind, providers.ActStop) != nil:
		return providers.ActKeep
	}
	return providers.ActStop
}

// Ending ends a lease now.
type Ending struct {
	Account, Instance string
	Act               string // ActStop or ActDestroy; empty: as the lease says
	Why               string
	Hurry             bool   // what works there gets no time to finish
	Rental            string // of a machine that has no lease yet
	Tenant            string // of such a machine; empty: its account's
	By                store.Actor
}

// End ends a lease now. If the machine has no lease, it makes one that has ended. It is the only way to stop or destroy a machine. The same
// call again changes nothing.
func (s *Service) End(ctx context.Context, e Ending) (providers.Lease, error) {
	a, err := s.account(ctx, e.Account)
	if err != nil {
		return providers.Lease{}, err
	}
	if err := CanStop(a.Kind, e.Act); err != nil {
		return providers.Lease{}, err
	}
	return s.change(ctx, a, e.Instance, func(l *rentals.Lease, isNew bool) (string, error) { return s.end(l, isNew, a, e) }, e.By)
}

// end changes a lease so that it is over; "": it is so already.
func (s *Service) end(l *rentals.Lease, isNew bool, a rentals.Account, e Ending) (string, error) {
	if isNew {
		l.Rental, l.Tenant = e.Rental, cmp.Or(e.Tenant, l.Tenant)
	}
	act := cmp.Or(e.Act, l.Act, usualAct(a.Kind, l.Rental))
	now := s.Now()
	switch isOver := l.State == providers.LeaseEnding || l.State == providers.LeaseDraining && !e.Hurry; {
	case act == providers.ActStop && l.Act == providers.ActDestroy && l.State == providers.LeaseDraining:
		return "", wire.Refuse(wire.CodeIllegalMove, l.Instance+" is to be destroyed: "+l.Why,
			"to keep it: muster lease set "+l.Account+"/"+l.Instance+" 1h --act stop")
	case isOver && l.Act == act, l.State == providers.LeaseEnded && act == providers.ActKeep:
		return "", nil
	case l.AskedAt != nil && l.State == providers.LeaseEnding && act != providers.ActDestroy:
		return "", wire.Refuse(wire.CodeIllegalMove, "the company was asked to "+l.Act+" "+l.Instance+" already",
			"muster lease ls shows how far that is")
	case act == providers.ActKeep: // the machine stays as it is, and nobody has decided for how long
		l.Act, l.Why, l.State, l.EndedAt = act, wire.Plain(e.Why, wire.MaxText), providers.LeaseEnded, &now
		return "lease.ended", nil
	case l.State == providers.LeaseEnded:
		l.AskedAt, l.EndedAt, l.Tries = nil, nil, 0
	}
	asked := l.State == providers.LeaseEnding
	l.Act, l.Why, l.TryAt = act, wire.Plain(e.Why, wire.MaxText), nil
	if isNew || l.EndsAt.After(now) {
		l.EndsAt = now
	}
	if l.State != providers.LeaseDraining {
		l.State, l.DrainedAt = providers.LeaseDraining, &now
	}
	if e.Hurry || asked {
		l.State = providers.LeaseEnding
	}
	return "lease.ending", nil
}

// change reads a lease, changes it and stores it, until nobody else was faster. Where edit returns no kind of event, it stays as it is.
func (s *Service) change(ctx context.Context, a rentals.Account, instance string,
	edit func(l *rentals.Lease, isNew bool) (string, error), by store.Actor) (providers.Lease, error) {
	for range retries {
		l, err := s.Records.Lease(store.Fresh(ctx), a.Name, instance)
		isNew := errors.Is(err, store.ErrNotFound)
		if err != nil && !isNew {
			return providers.Lease{}, err
		}
		if isNew {
			l = rentals.Lease{Account: a.Name, Instance: instance, Tenant: a.Tenant, Owner: Owner(by), CreatedAt: s.Now()}
		}
		if n := s.nodeOf(a, l); n != nil {
			l.NodeID = n.ID
		}
		kind, err := edit(&l, isNew)
		if err != nil {
			return providers.Lease{}, err
		}
		if kind != "" {
			err = s.Records.PutLease(ctx, l, s.event(kind, l, by, nil))
		}
		if err == nil {
			return s.shown(l), nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return providers.Lease{}, err
		}
	}
	return providers.Lease{}, wire.Refuse(wire.CodeUnavailable, "the lease of "+instance+" changes all the time", "try again")
}
