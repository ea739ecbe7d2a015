package maas

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"muster/gateway/internal/maas/region"
	records "muster/store/maas"
)

// look takes a complete view of MAAS and stores what is new in it. After an error, the view before stays, with its age.
func (s *Service) look(ctx context.Context) error {
	begun := s.Now()
	err := s.view(ctx, begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.state.SyncedAt, s.state.FailedAt, s.state.Error = &begun, nil, ""
		return nil
	}
	if ctx.Err() == nil {
		s.state.Error = err.Error()
		if s.state.FailedAt == nil {
			s.state.FailedAt = &begun
		}
		if region.KindOf(err) == region.KeyRefused {
			s.seen.user = "" // another key may be another user's
		}
	}
	return err
}

func (s *Service) view(ctx context.Context, begun time.Time) error {
	k := known{defined: map[string]bool{}, tags: map[string]bool{}}
	if k.user = s.whole().user; k.user == "" {
		version, err := s.Region.Version(ctx)
		if err != nil {
			return err
		}
		user, err := s.Region.WhoAmI(ctx)
		if err != nil {
			return err
		}
		if !user.Admin {
			return errors.New("the API key is of the user " + user.Name + ", who is no admin of MAAS: tags, commissioning and resets are for admins")
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
		return err
	}
	if k.profiles, err = s.Profiles(ctx); err != nil {
		return err
	}
	k.profiles = slices.Sorted(slices.Values(k.profiles))
	if err := s.list(ctx, begun); err != nil {
		return err
	}
	s.mu.Lock()
	s.seen = k
	s.mu.Unlock()
	return nil
}

// list reads all machines, and stores what differs from the view before.
func (s *Service) list(ctx context.Context, begun time.Time) error {
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
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		old := was[m.ID]
		delete(was, m.ID)
		if old == nil || old.GoneAt != nil || old.Status != m.Status || old.Body != string(body) {
			changed = append(changed, records.Seen{SystemID: m.ID, Status: m.Status, Body: string(body)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	var gone []string
	for id, m := range was {
		if m.GoneAt == nil {
			gone = append(gone, id)
		}
	}
	return s.records.See(ctx, begun, changed, gone)
}
