package rent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

// offersEach is how often offers are looked for that a request lacks.
const offersEach = 30 * time.Second

// advance intends what a request still lacks, and ends a request that has all or can get no more.
func (s *Service) advance(ctx context.Context, a rentals.Account, q rentals.Request) error {
	all, err := s.Records.Rentals(store.Fresh(ctx), rentals.RentalQuery{Request: q.ID})
	if err != nil {
		return err
	}
	now := s.Now()
	p := judge(q, all, func(since time.Time) time.Duration { return now.Sub(since) - s.Away(since, now) }, s.waiting(q.ID))
	switch {
	case len(p.open) > 0:
		return s.fill(ctx, a, q, all, p.open)
	case p.pending > 0:
		return nil
	case len(p.lost) > 0:
		cost, err := s.wasted(ctx, all)
		if err != nil {
			return err
		}
		return s.endRequest(ctx, q, providers.RentedFailed, fmt.Sprintf("%d of %d are ready; what failed has cost %s; %s", p.ready, q.Count,
			cost, strings.Join(p.lost, "; ")))
	}
	return s.endRequest(ctx, q, providers.RentedDone, "")
}

// wasted says what the machines of a request have cost that came to nothing.
func (s *Service) wasted(ctx context.Context, all []rentals.Rental) (string, error) {
	sum, unknown := 0.0, 0
	for _, r := range all {
		if r.Instance == "" || r.State != providers.RentalFailed && (r.State != providers.RentalEnded || r.ReadyAt != nil) {
			continue
		}
		one, err := s.machine(ctx, r)
		switch {
		case err != nil:
			return "", err
		case one.Spent == nil:
			unknown++
		default:
			sum += *one.Spent
		}
	}
	text := fmt.Sprintf("about $%.2f", sum)
	if unknown > 0 {
		text += fmt.Sprintf(", and of %d it is not known", unknown)
	}
	return text, nil
}

// fill intends machines for these places. What stands in the way is noted, and tried again.
func (s *Service) fill(ctx context.Context, a rentals.Account, q rentals.Request, all []rentals.Rental, open []place) error {
	want, err := readWant(q)
	if err != nil {
		return err
	}
	n := s.note(q.ID)
	if s.Elapsed() < n.again {
		return nil
	}
	n.again = s.Elapsed() + offersEach
	o, err := s.offers(ctx, a, want)
	if err != nil {
		s.wait(q.ID, wire.Plain(err.Error(), wire.MaxText))
		return nil
	}
	for _, r := range all {
		if r.State != providers.RentalFailed && r.State != providers.RentalEnded {
			o.used = append(o.used, r.Host)
		}
	}
	s.beginning.Lock()
	defer s.beginning.Unlock()
	chosen := choose(want, len(open), o)
	for i, at := range open[:len(chosen)] {
		err := s.intend(ctx, q, at, chosen[i], store.Actor{})
		if errors.Is(err, rentals.ErrLimit) {
			s.wait(q.ID, err.Error())
			return nil
		}
		if err != nil {
			return err
		}
	}
	s.wait(q.ID, "")
	if len(chosen) < len(open) {
		s.wait(q.ID, fewOffers(a, want, o, len(chosen), len(open)))
	}
	return nil
}

// intend puts on record that a machine is to be rented.
func (s *Service) intend(ctx context.Context, q rentals.Request, at place, o cloud.Offer, by store.Actor) error {
	offer, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r := rentals.Rental{ID: named(q.ID, at), Request: q.ID, Number: at.number, Account: q.Account, Tenant: q.Tenant,
		State: providers.RentalIntended, OfferJSON: string(offer), Host: o.Host, Price: int64(o.Price), CreatedAt: s.Now()}
	e := s.event("rental.intended", r, map[string]string{"offer": o.ID, "host": o.Host, "price_per_hour": dollars(o.Price)})
	if by.Name != "" {
		e.Actor, e.Address = by.Name, by.Address
	}
	return s.Records.Intend(ctx, r, e)
}

// endRequest says that nothing more is rented for a request.
func (s *Service) endRequest(ctx context.Context, q rentals.Request, state, why string, events ...store.Event) error {
	s.wait(q.ID, "")
	s.forget(q.ID)
	err := s.Records.EndRequest(ctx, q.ID, state, wire.Plain(why, wire.MaxText), s.Now(), events...)
	if errors.Is(err, store.ErrConflict) {
		return nil // it is over already
	}
	return err
}

// wait notes why nothing can be ordered for a request now; "": something can.
func (s *Service) wait(request, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == "" {
		delete(s.waits, request)
		return
	}
	s.waits[request] = why
}

func (s *Service) waiting(request string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits[request]
}

// offering is what a company offers, and what is known of its hosts.
type offering struct {
	offers []cloud.Offer
	bad    map[string]string // why, by host
	used   []string          // hosts on which the request has a machine
}

// at is what counts before anything is rented: whoever names offers may name those of a bad host.
func (o offering) at(q providers.Renting) offering {
	if len(q.Offers) > 0 {
		o.bad = nil
	}
	return o
}

func (s *Service) offers(ctx context.Context, a rentals.Account, want providers.Renting) (o offering, err error) {
	c, err := s.Market.Cloud(a.Name)
	if err != nil {
		return o, err
	}
	hosts, err := s.Records.BadHosts(ctx, a.Kind, s.Now())
	if err != nil {
		return o, err
	}
	o.bad = map[string]string{}
	for _, h := range hosts {
		o.bad[h.Host] = h.Why
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o.offers, err = c.Offers(ctx, wantOf(want))
	return o, err
}

// fewOffers says that there are not enough offers, and of those that a person has chosen, why not.
func fewOffers(a rentals.Account, q providers.Renting, o offering, there, wanted int) string {
	if len(q.Offers) > 0 {
		text := fmt.Sprintf("%d of the offers that are chosen can be had from %s, and %d are wanted", there, a.Name, wanted)
		for _, id := range q.Offers {
			i := slices.IndexFunc(o.offers, func(one cloud.Offer) bool { return one.ID == id })
			switch {
			case i < 0:
				text += fmt.Sprintf("; %.60q is taken by somebody else, or there is no such offer", id)
			case misfit(o.offers[i], q, o.bad) != "":
				text += fmt.Sprintf("; %.60q: %s", id, misfit(o.offers[i], q, o.bad))
			}
		}
		return wire.Plain(text, wire.MaxText)
	}
	what := q.GPU
	if q.GPUs > 1 {
		what = fmt.Sprintf("%d x %s", q.GPUs, q.GPU)
	}
	text := fmt.Sprintf("%s offers %d machines with %s", a.Name, there, what)
	if q.MaxPrice != nil {
		text += " for at most " + dollars(money(*q.MaxPrice)) + " an hour"
	}
	return fmt.Sprintf("%s, and %d are wanted", text, wanted)
}
