package placement

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
	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/store"
	records "muster/store/placement"
)

// The most allocations that wait.
const (
	mostOfTenant = 200
	mostOfOwner  = 50
)

// readQueue reads what waits, at the start.
func (s *Service) readQueue(ctx context.Context) error {
	rows, err := s.Records.Queue(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		s.queued = append(s.queued, askOf(row))
	}
	live, err := s.Records.Live(ctx)
	for _, row := range live {
		if isToEquip(row, s.Now()) {
			s.claimed = append(s.claimed, askOf(row))
		}
	}
	return err
}

// isToEquip tells whether an allocation may lack what follows from its claim: the gateway or the database may have failed in between.
func isToEquip(row records.Allocation, now time.Time) bool {
	return row.State == records.Allocated && now.Sub(*row.ClaimedAt) < equipTime
}

// equipOrLater makes what the owner of an allocation gets; what fails is made by a later round.
func (s *Service) equipOrLater(ctx context.Context, a *ask) {
	if err := s.equip(ctx, a); err != nil {
		s.Logger.Warn("an owner does not get yet what was asked for", "allocation", a.ID, "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claimed = append(s.claimed, a)
	}
}

// equipAgain makes what allocations may lack.
func (s *Service) equipAgain(ctx context.Context) (failed error) {
	s.mu.Lock()
	claimed := s.claimed
	s.claimed = nil
	s.mu.Unlock()
	var again []*ask
	for _, a := range claimed {
		row, err := s.Records.Allocation(store.Fresh(ctx), a.ID)
		if errors.Is(err, store.ErrNotFound) || err == nil && !isToEquip(row, s.Now()) {
			continue // it has ended: nothing of it may come onto its nodes
		}
		if err == nil {
			err = s.equip(ctx, a)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			again = append(again, a)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = append(again, s.claimed...)
	return failed
}

// askOf is an allocation on record as it was asked for. What is on record was checked before.
func askOf(row records.Allocation) *ask {
	a := &ask{Allocation: row}
	var more extras
	_ = json.Unmarshal([]byte(row.Wish), &a.wish)
	_ = json.Unmarshal([]byte(row.User), &more)
	a.picks, _ = label.ParseSelector(a.wish.Selector)
	a.user, a.launch = more.User, more.Launch
	a.gpus = map[string][]string{}
	for _, h := range row.Holds {
		a.gpus[h.NodeID] = append(a.gpus[h.NodeID], h.UUID)
	}
	return a
}

// queue has an allocation wait.
func (s *Service) queue(ctx context.Context, wanted ask, why string, by store.Actor) error {
	s.queueing.Lock()
	defer s.queueing.Unlock()
	if err := s.queueFull(&wanted.Allocation); err != nil {
		return err
	}
	detail := map[string]string{"allocation": wanted.ID, "tenant": wanted.Tenant, "waits_for": why}
	e := s.Event("allocation.waiting", nil, by, detail)
	e.Tenant = wanted.Tenant
	if err := s.Records.Add(ctx, wanted.Allocation, e); errors.Is(err, store.ErrConflict) {
		return errTaken
	} else if err != nil {
		return err
	}
	return s.enqueue(ctx, wanted.ID, why)
}

// queueFull refuses an allocation where its tenant or its owner has too many that wait.
func (s *Service) queueFull(wanted *records.Allocation) error {
	var ofTenant, ofOwner int
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.queued {
		if w.Tenant == wanted.Tenant {
			ofTenant++
		}
		if w.Owner == wanted.Owner {
			ofOwner++
		}
	}
	if ofTenant < mostOfTenant && ofOwner < mostOfOwner {
		return nil
	}
	return wire.Refuse(wire.CodeOverQuota, fmt.Sprintf("too many allocations wait: %d of %s, and %d of the tenant %s", ofOwner, wanted.Owner,
		ofTenant, wanted.Tenant), fmt.Sprintf("at most %d of an owner and %d of a tenant wait: muster alloc release ends one", mostOfOwner,
		mostOfTenant))
}

// enqueue takes an allocation that waits into memory, if it is not there.
func (s *Service) enqueue(ctx context.Context, id, why string) error {
	row, err := s.Records.Allocation(store.Fresh(ctx), id) // with its number
	if err != nil {
		return err
	}
	s.mu.Lock()
	if !slices.ContainsFunc(s.queued, func(w *ask) bool { return w.ID == id }) {
		s.waits[id] = why
		s.queued = append(s.queued, askOf(row))
		slices.SortStableFunc(s.queued, func(a, b *ask) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Number, b.Number))
		})
	}
	s.mu.Unlock()
	if row, err = s.Records.Allocation(store.Fresh(ctx), id); err == nil && row.State != records.Waiting {
		s.leave(id) // it ended, or got its GPUs, before it was in the queue
	}
	return err
}

// serve places what waits and can be placed now, in its order. A wish that has failed is not tried again for the same tenant in this pass.
func (s *Service) serve(ctx context.Context) error {
	s.mu.Lock()
	waiting := slices.Clone(s.queued)
	s.mu.Unlock()
	taken := map[string]pick.Taken{} // by those before, by tenant
	failed := map[[2]string]string{} // why, by tenant and wish
	for _, w := range waiting {
		wish := [2]string{w.Tenant, w.Wish}
		why, known := failed[wish]
		if !known {
			if taken[w.Tenant] == nil {
				taken[w.Tenant] = pick.Taken{}
			}
			var err error
			why, err = s.place(ctx, w, false, taken[w.Tenant])
			if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
		}
		if why == "" {
			continue
		}
		s.mu.Lock()
		s.waits[w.ID] = why
		s.mu.Unlock()
		if !known && !strings.HasPrefix(why, overQuota) {
			s.takeFor(taken[w.Tenant], w)
		}
		failed[wish] = why
	}
	return nil
}

// takeFor adds what an allocation waits for.
func (s *Service) takeFor(taken pick.Taken, w *ask) {
	nodes, _ := s.Offer(w.ID, w.Tenant, w.picks)
	taken.Add(nodes, w.wish)
}

// takenBefore is what others wait for that are served before an allocation.
func (s *Service) takenBefore(wanted *ask) pick.Taken {
	s.mu.Lock()
	first := s.before(&wanted.Allocation)
	s.mu.Unlock()
	taken, seen := pick.Taken{}, map[string]bool{}
	for _, w := range first {
		if !seen[w.Wish] {
			seen[w.Wish] = true
			s.takeFor(taken, w)
		}
	}
	return taken
}

// before are the allocations of the same tenant that are served before this one, without those that only their quota stops: they must not
// keep back what their tenant may have. The caller holds the lock.
func (s *Service) before(wanted *records.Allocation) (first []*ask) {
	for _, w := range s.queued {
		switch {
		case w.ID == wanted.ID:
			return first
		case w.Priority < wanted.Priority:
			return first
		case w.Tenant == wanted.Tenant && !strings.HasPrefix(s.waits[w.ID], overQuota):
			first = append(first, w)
		}
	}
	return first
}

// ahead counts them. The caller holds the lock.
func (s *Service) ahead(a records.Allocation) int { return len(s.before(&a)) }
