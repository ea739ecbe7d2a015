package maas

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/region"
	records "muster/store/maas"
)

// look takes a complete view of MAAS and stores what is new in it. After an error, the view before stays, with its age.
func (s *Service) look(ctx context.Context) error {
	begun := s.Now()
	s.mu.Lock()
	s.state.AskedAt, s.state.NextAt = &begun, nil
	s.mu.Unlock()
	k, err := s.viewInTime(ctx, begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.AskedAt, s.begun = nil, begun
	close(s.ended)
	s.ended = make(chan struct{})
	if err == nil {
		s.seen, s.state.SyncedAt, s.state.FailedAt, s.state.Error = k, &begun, nil, ""
		return nil
	}
	if ctx.Err() == nil {
		s.state.Error = err.Error()
		if s.state.FailedAt == nil {
			s.state.FailedAt = &begun
		}
	}
	return err
}

// syncTime is how long Sync waits.
const syncTime = 20 * time.Second

// Sync has Run take a view now, and waits for its end, but not for long: AskedAt says that it has not ended. If MAAS is off, nobody looks.
func (s *Service) Sync(ctx context.Context) machines.State {
	if s.Region == nil {
		return s.State()
	}
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	asked := s.Now()
	select {
	case s.soon <- struct{}{}:
	default:
	}
	for ctx.Err() == nil {
		s.mu.Lock()
		ended, begun := s.ended, s.begun
		s.mu.Unlock()
		if !begun.Before(asked) {
			state := s.State()
			state.AskedAt = nil // it is another one that goes on
			return state
		}
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	return s.State()
}

// now returns how the gateway stands with MAAS. Where no view is of now, and one is taken, it waits for that, but not for long.
func (s *Service) now(ctx context.Context) machines.State {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	state := s.State()
	if state.Known || state.AskedAt == nil {
		return state
	}
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return s.State()
}

const (
	shortestView = time.Minute
	longestView  = 10 * time.Minute // MAAS makes a list of thousands of machines in minutes
)

// viewInTime waits no longer for a view than what the last ones took lets expect.
func (s *Service) viewInTime(ctx context.Context, begun time.Time) (known, error) {
	limit := cmp.Or(s.patience, longestView)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	from := time.Now() // of the machine's own clock, as the limit is
	k, err := s.view(ctx, begun)
	s.patience = patience(limit, time.Since(from), err)
	return k, err
}

// patience is the limit of the next view, after one with a limit that took so long.
func patience(limit, took time.Duration, err error) time.Duration {
	if err != nil {
		return min(2*limit, longestView)
	}
	return min(max(shortestView, 4*took), longestView)
}

// view asks whose the key is until a view was complete: the key stays as long as the gateway runs.
func (s *Service) view(ctx context.Context, begun time.Time) (known, error) {
	k := known{defined: map[string]bool{}, tags: map[string]bool{}}
	if k.user = s.whole().user; k.user == "" {
		version, err := s.Region.Version(ctx)
		if err != nil {
			return k, err
		}
		user, err := s.Region.WhoAmI(ctx)
		if err != nil {
			return k, err
		}
		if !user.Admin {
			return k, errors.New("the API key is of the user " + user.Name +
				", who is no admin of MAAS: tags, commissioning and resets are for admins")
		}
		k.user = user.Name
		s.mu.Lock()
		s.state.Version = version
		s.mu.Unlock()
	}
	err := s.Region.Tags(ctx, func(t region.Tag) error {
		k.tags[t.Name] = true
		if t.Definition != "" {
			k.defined[t.Name] = true
		}
		return nil
	})
	if err != nil {
		return k, err
	}
	profiles, err := s.Profiles(ctx)
	if err != nil {
		return k, err
	}
	k.profiles = slices.Sorted(slices.Values(api.Each(profiles, func(p api.Profile) string { return p.Name })))
	return k, s.list(ctx, begun)
}

// list reads all machines, and stores what differs from the view before. What a work looked at meanwhile, it knows better.
func (s *Service) list(ctx context.Context, begun time.Time) error {
	isOld, release := s.holding(s.jobs.now())
	defer release()
	before, err := s.records.Machines(ctx)
	if err != nil {
		return err
	}
	was := make(map[string]*records.Machine, len(before))
	for i := range before {
		was[before[i].SystemID] = &before[i]
	}
	var changed []records.Seen
	err = s.Region.Machines(ctx, region.Filter{}, func(m region.Machine) error {
		row, err := seenOf(m)
		old := was[m.ID]
		delete(was, m.ID)
		if err == nil && (old == nil || old.GoneAt != nil || old.Status != m.Status || old.Body != row.Body) {
			changed = append(changed, row)
		}
		return err
	})
	if err != nil {
		return err
	}
	changed = slices.DeleteFunc(changed, func(row records.Seen) bool { return isOld(row.SystemID) })
	var gone []string
	for id, m := range was {
		if m.GoneAt == nil && !isOld(id) {
			gone = append(gone, id)
		}
	}
	return s.records.See(ctx, begun, changed, gone)
}

// holding holds machines until release. isOld is true for one that a work has, or had since: that one is not held.
func (s *Service) holding(since int) (isOld func(id string) bool, release func()) {
	var held []string
	isOld = func(id string) bool {
		if !s.jobs.hold(id, since) {
			return true
		}
		held = append(held, id)
		return false
	}
	return isOld, func() {
		for _, id := range held {
			if s.jobs.release(id) {
				s.wakeUp(id)
			}
		}
	}
}

// seenOf is what is kept of a machine.
func seenOf(m region.Machine) (records.Seen, error) {
	body, err := json.Marshal(m)
	return records.Seen{SystemID: m.ID, Status: m.Status, Body: string(body)}, err
}
