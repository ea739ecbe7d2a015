package rent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

// mostShown is how many requests a list has.
const mostShown = 200

// Rentals returns the newest requests of a tenant; empty: of all tenants.
func (s *Service) Rentals(ctx context.Context, tenant string) (providers.RentedList, error) {
	list := providers.RentedList{Rentals: []providers.Rented{}}
	found, err := s.Records.Requests(ctx, rentals.RequestQuery{Tenant: tenant, Limit: mostShown})
	for _, q := range found {
		one, err := s.shown(ctx, q)
		if err != nil {
			return list, err
		}
		list.Rentals = append(list.Rentals, one)
	}
	return list, err
}

// Rented returns one request.
func (s *Service) Rented(ctx context.Context, tenant, id string) (providers.Rented, error) {
	q, err := s.request(ctx, tenant, id)
	if err != nil {
		return providers.Rented{}, err
	}
	return s.shown(ctx, q)
}

// GiveUp rents nothing more for a request, and gives back the machines that are not ready yet.
func (s *Service) GiveUp(ctx context.Context, tenant, id string, by store.Actor) (providers.Rented, error) {
	q, err := s.request(ctx, tenant, id)
	if err == nil && q.State == providers.RentedRenting {
		why := "given up by " + by.Name
		e := s.event("rental.failed", rentals.Rental{Request: q.ID, Account: q.Account, Tenant: q.Tenant}, map[string]string{"why": why})
		e.Actor, e.Address = by.Name, by.Address
		err = s.endRequest(ctx, q, providers.RentedFailed, why, e)
	}
	if err != nil {
		return providers.Rented{}, err
	}
	return s.Rented(ctx, tenant, id)
}

func (s *Service) request(ctx context.Context, tenant, id string) (q rentals.Request, err error) {
	found, err := s.Records.Requests(store.Fresh(ctx), rentals.RequestQuery{ID: id, Tenant: tenant})
	switch {
	case err != nil:
		return q, err
	case id == "" || len(found) == 0:
		return q, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("nothing is rented under the id %.40q", id), "muster rent ls")
	}
	return found[0], nil
}

// shown is a request as the API shows it, with what it has cost.
func (s *Service) shown(ctx context.Context, q rentals.Request) (providers.Rented, error) {
	ctx = store.Fresh(ctx)
	want, err := readWant(q)
	if err != nil {
		return providers.Rented{}, err
	}
	out := providers.Rented{ID: q.ID, Provider: q.Account, Tenant: q.Tenant, Owner: q.Owner, GPU: want.GPU, GPUs: max(want.GPUs, 1),
		Count: q.Count, State: q.State, CreatedAt: q.CreatedAt.UTC(), DoneAt: api.UTC(q.DoneAt), Why: cmp.Or(q.Why, s.waiting(q.ID)),
		Machines: []providers.Rental{}}
	all, err := s.Records.Rentals(ctx, rentals.RentalQuery{Request: q.ID})
	if err != nil {
		return out, err
	}
	slices.SortStableFunc(all, func(a, b rentals.Rental) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, r := range all {
		one, err := s.machine(ctx, r)
		if err != nil {
			return out, err
		}
		if r.State == providers.RentalReady {
			out.Ready++
		}
		api.Add(&out.Spent, one.Spent)
		out.Machines = append(out.Machines, one)
	}
	return out, nil
}

func (s *Service) machine(ctx context.Context, r rentals.Rental) (providers.Rental, error) {
	var offer cloud.Offer
	if err := json.Unmarshal([]byte(r.OfferJSON), &offer); err != nil {
		return providers.Rental{}, err
	}
	out := providers.Rental{ID: r.ID, State: r.State, Provider: r.Account, Instance: r.Instance, Host: r.Host, Region: offer.Region,
		PerHour: cloud.Money(r.Price).Dollars(), CreatedAt: r.CreatedAt.UTC(), ReadyAt: api.UTC(r.ReadyAt), EndedAt: api.UTC(r.EndedAt),
		Why: r.Why}
	if n, known := s.Node(r.NodeID); known {
		out.Node = n.Name
	}
	if r.Instance == "" {
		return out, nil
	}
	charged, err := s.Records.Charged(ctx, r.Account, r.Instance, dayOf(r.CreatedAt), dayOf(s.Now()))
	if charged != nil {
		out.Spent = new(cloud.Money(*charged).Dollars())
	}
	return out, err
}

// dayOf is the number of a day: whole days since 1970, UTC.
func dayOf(at time.Time) int64 { return at.Unix() / int64(24*time.Hour/time.Second) }
