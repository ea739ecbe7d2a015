package rent

import (
	"context"
	"errors"
	"strings"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

const strayWhy = "it was made for a rental that had ended, or that has another machine"

// endStrays gives back instances with the name of one of our rentals that are none of ours: an order came to something after all, a company
// made two, or one that was destroyed is still there. A name that no record has is another gateway's, and a machine that does not fit the
// record of its name is somebody else's.
func (s *Service) endStrays(ctx context.Context, t *tables) (failed error) {
	live := map[string]*rentals.Rental{}
	for i := range t.live {
		live[t.live[i].ID] = &t.live[i]
	}
	all, _, _ := s.Market.Instances(t.Name)
	for _, i := range all {
		id, ours := strings.CutPrefix(i.Name, rentals.NamePrefix)
		if !ours || i.State == cloud.Ending || i.State == cloud.Gone || s.isForeign(t.Name, i) {
			continue
		}
		if l, known := t.leases[i.ID]; known && l.State != providers.LeaseEnded {
			continue // it has an end
		}
		r := live[id]
		if r != nil && (r.Instance == "" || r.Instance == i.ID) {
			continue // it is looked for, or it was made after this round began
		}
		failed = errors.Join(failed, s.endStray(ctx, t, i, id))
	}
	return failed
}

func (s *Service) endStray(ctx context.Context, t *tables, i *market.Seen, id string) error {
	ctx = store.Fresh(ctx)
	rows, err := s.Records.Rentals(ctx, rentals.RentalQuery{ID: id, Account: t.Name})
	if err != nil {
		return err
	}
	if len(rows) == 0 || !fits(rows[0], i) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.foreign[[2]string{t.Name, i.ID}] = true
		return nil
	}
	r := rows[0]
	l, err := s.Records.Lease(ctx, t.Name, i.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return err
	case l.State != providers.LeaseEnded || l.Act != providers.ActDestroy || l.EndedAt == nil || !i.SeenAt.After(*l.EndedAt):
		return nil
	}
	if r.State == providers.RentalFailed && r.Instance == "" && errors.Is(err, store.ErrNotFound) {
		r.Instance = i.ID
		now := s.Now()
		l = rentals.Lease{Account: t.Name, Instance: i.ID, Tenant: r.Tenant, Owner: byGateway, State: providers.LeaseEnding,
			Act: providers.ActDestroy, Why: strayWhy, Rental: r.ID, EndsAt: now, CreatedAt: now}
		return s.Records.Created(ctx, r, l, s.event("rental.created", r, map[string]string{"why": strayWhy}))
	}
	return s.destroy(ctx, t.Account, r, i.ID, strayWhy)
}

// slack is by how much clocks may differ.
const slack = 10 * time.Minute

// fits is true for a machine that can have been made for a rental: on its host, and not before the company was asked. A name alone proves
// nothing, since anybody can give it to a machine.
func fits(r rentals.Rental, i *market.Seen) bool {
	switch {
	case r.AskedAt == nil, r.Host != "" && i.Host != "" && r.Host != i.Host:
		return false
	case i.StartedAt != nil && i.StartedAt.Before(r.AskedAt.Add(-slack)):
		return false
	}
	return !i.FirstAt.Before(r.AskedAt.Add(-slack))
}

// first is an instance with when it was first seen: now, where no list on record has it.
func (s *Service) first(account string, i cloud.Instance) *market.Seen {
	if was := s.seen(account, i.ID); was != nil {
		return was
	}
	return &market.Seen{Instance: i, FirstAt: s.Now()}
}

func (s *Service) isForeign(account string, i *market.Seen) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.foreign[[2]string{account, i.ID}]
}
