package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// badFor is how long a host is not rented again on which a machine did not come up or did not pass.
const badFor = 7 * 24 * time.Hour

// visit does what a rental needs now.
func (s *Service) visit(ctx context.Context, t *tables, r rentals.Rental) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	q := t.requests[r.Request]
	want, err := readWant(q)
	if err != nil {
		return err
	}
	v, err := s.look(ctx, t, q, want, &r)
	if err != nil {
		return err
	}
	switch do, why := next(r, v); do {
	case rest:
		return s.waitsFor(ctx, r, why)
	case drop, vanish:
		return s.end(ctx, r, providers.RentalFailed, why)
	case order:
		return s.order(ctx, t.Account, q, want, r)
	case search:
		return s.search(ctx, t.Account, q, want, v.open, r)
	case heard:
		return s.heard(ctx, v, r)
	case ready:
		r.State, r.ReadyAt, r.Why = providers.RentalReady, new(s.Now()), ""
		return s.Records.PutRental(ctx, r, s.event("rental.ready", r, nil))
	case fail:
		if err := s.blame(ctx, t.Kind, r, why); err != nil {
			return err
		}
		return s.giveBack(ctx, t.Account, r, why)
	case giveUp:
		return s.giveBack(ctx, t.Account, r, why)
	default:
		return s.end(ctx, r, providers.RentalEnded, why)
	}
}

// look collects what is known of a rental's machine, and fills in its node.
func (s *Service) look(ctx context.Context, t *tables, q rentals.Request, want providers.Renting, r *rentals.Rental) (sight, error) {
	v := sight{limit: limitOf(t.Kind), accept: !want.NoAccept, open: q.State == providers.RentedRenting}
	if r.Instance == "" {
		return v, nil
	}
	l, known := t.leases[r.Instance]
	if known {
		v.lease = &l
	} else if was, err := s.Records.Lease(store.Fresh(ctx), r.Account, r.Instance); err == nil {
		v.gone = was.AskedAt == nil && was.Act != providers.ActKeep
	} else if !errors.Is(err, store.ErrNotFound) {
		return v, err
	}
	if q.Allocation != "" {
		if err := s.follow(ctx, t.ends[q.Allocation], v.lease, r); err != nil {
			return v, err
		}
	}
	now := s.Now()
	since := r.CreatedAt
	switch {
	case r.BootedAt != nil:
		since = *r.BootedAt
	case r.AskedAt != nil:
		since = *r.AskedAt
	}
	v.waited = now.Sub(since) - s.Away(since, now)
	v.node = s.nodeOf(t.Kind, r)
	if i := s.seen(r.Account, r.Instance); i != nil && i.State == cloud.Broken && i.SeenAt.After(since) {
		v.broken = cmp.Or(i.Why, i.Raw, "the company says that it failed")
	}
	if r.State == providers.RentalChecking && v.accept {
		s.accept(ctx, r, &v)
	}
	return v, nil
}

// accept has a node prove what it is, and fills in what came of that. One that cannot be asked has time until it can.
func (s *Service) accept(ctx context.Context, r *rentals.Rental, v *sight) {
	if err := s.Accept(ctx, r.NodeID, r.ID); err != nil {
		v.why = err.Error()
		return
	}
	v.passed, v.checked, v.why = s.Accepted(ctx, r.NodeID, r.ID)
}

// seen is an instance of an account's last complete list; nil: it is not there.
func (s *Service) seen(account, id string) *market.Seen {
	all, _, _ := s.Market.Instances(account)
	at, found := slices.BinarySearchFunc(all, id, func(i *market.Seen, id string) int { return strings.Compare(i.ID, id) })
	if !found {
		return nil
	}
	return all[at]
}

// nodeOf is the node that a rental's machine has become: by the name in its token, or by the instance that it says it is.
func (s *Service) nodeOf(kind string, r *rentals.Rental) *api.NodeRow {
	if n, known := s.Node(r.NodeID); known && r.NodeID != "" {
		return n
	}
	if n, known := s.Named(nameOf(*r)); known && n.Tenant == r.Tenant {
		return n
	}
	if n, known := s.NodeOf(kind, r.Instance); known && n.Tenant == r.Tenant && n.State != wire.StateRetired {
		return n
	}
	return nil
}

// waitsFor notes what a rental waits for.
func (s *Service) waitsFor(ctx context.Context, r rentals.Rental, why string) error {
	if r.Why == why {
		return nil
	}
	r.Why = why
	return s.Records.PutRental(ctx, r)
}

// end ends a rental that has no machine, or whose machine is no more. A token that nobody used is void.
func (s *Service) end(ctx context.Context, r rentals.Rental, state, why string) error {
	kind := "rental.failed"
	if state == providers.RentalEnded {
		kind = "rental.ended"
	}
	r.State, r.EndedAt, r.Why = state, new(s.Now()), wire.Plain(why, wire.MaxText)
	if err := s.Records.PutRental(ctx, r, s.event(kind, r, map[string]string{"why": r.Why})); err != nil {
		return err
	}
	s.forget(r.ID)
	return s.revoke(ctx, r)
}

func (s *Service) revoke(ctx context.Context, r rentals.Rental) error {
	if r.Token == "" || r.BootedAt != nil {
		return nil
	}
	return s.Revoke(context.WithoutCancel(ctx), r.Token)
}

// giveBack fails a rental and ends the lease of its machine. If the second does not come to pass, endFailed does it.
func (s *Service) giveBack(ctx context.Context, a rentals.Account, r rentals.Rental, why string) error {
	if err := s.end(ctx, r, providers.RentalFailed, why); err != nil {
		return err
	}
	return s.destroy(ctx, a, r, r.Instance, why)
}

// destroy ends the lease of an instance that was made for a rental.
func (s *Service) destroy(ctx context.Context, a rentals.Account, r rentals.Rental, instance, why string) error {
	_, err := s.Leases.End(ctx, lease.Ending{Account: a.Name, Instance: instance, Act: providers.ActDestroy, Why: why, Hurry: true,
		Rental: r.ID, Tenant: r.Tenant})
	return err
}

// blame remembers a host as bad. Where the company does not tell the host, nobody is to blame.
func (s *Service) blame(ctx context.Context, kind string, r rentals.Rental, why string) error {
	if r.Host == "" {
		return nil
	}
	now := s.Now()
	return s.Records.BadHost(ctx, kind, r.Host, wire.Plain(why, wire.MaxText), now, now.Add(badFor))
}

// heard notes that a machine is a node now. Its lease learns which one.
func (s *Service) heard(ctx context.Context, v sight, r rentals.Rental) error {
	if v.lease.NodeID != v.node.ID {
		l := *v.lease
		l.NodeID = v.node.ID
		if err := s.Records.PutLease(ctx, l); err != nil {
			return err
		}
	}
	r.State, r.BootedAt, r.NodeID, r.Why = providers.RentalChecking, new(s.Now()), v.node.ID, ""
	return s.Records.PutRental(ctx, r)
}

// endFailed ends leases of machines whose rentals have failed, where the gateway was stopped between the two.
func (s *Service) endFailed(ctx context.Context, t *tables) (failed error) {
	live := map[string]bool{}
	for _, r := range t.live {
		live[r.ID] = true
	}
	for _, l := range t.leases {
		if l.State != providers.LeaseLive || l.Rental == "" || live[l.Rental] {
			continue
		}
		rows, err := s.Records.Rentals(store.Fresh(ctx), rentals.RentalQuery{ID: l.Rental})
		for _, r := range rows {
			if r.State == providers.RentalFailed {
				err = s.destroy(ctx, t.Account, r, l.Instance, r.Why)
			}
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// readWant reads what a request asks for.
func readWant(q rentals.Request) (want providers.Renting, err error) {
	err = json.Unmarshal([]byte(q.Want), &want)
	return want, err
}
