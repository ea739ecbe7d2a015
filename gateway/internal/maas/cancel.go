package maas

import (
	"context"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/store"
	records "muster/store/maas"
)

// cancel ends what goes on with a machine. What has not reached MAAS ends at once. What has is taken back as a work that failed is.
func (s *Service) cancel(ctx context.Context, m *machine, by store.Actor) (machines.Machine, error) {
	if m.work == nil {
		if records.ReadEnded(m.Ended).Canceled {
			return s.shown(m, s.whole(), s.Now()), nil
		}
		return machines.Machine{}, wire.Refuse(wire.CodeIllegalMove, "nothing goes on with it", "nothing is to be done")
	}
	w := *m.work
	if w.Canceled {
		return s.shown(m, s.whole(), s.Now()), nil
	}
	f := s.facts(m, s.whole(), s.Now())
	if why, next := f.MayCancel(); why != "" {
		return machines.Machine{}, wire.Refuse(wire.CodeIllegalMove, why, m.fill(next))
	}
	w.Canceled, w.Failed, w.Tries, w.TryAt, w.Why = true, by.Name+" canceled it", 0, nil, ""
	e := store.Event{At: s.Now(), Kind: "maas.cancel", Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"act": w.Act, "machine": w.SystemID, "work": w.ID}}
	about(&e, m.node)
	var err error
	if f.Reached() {
		w, err = s.records.Step(ctx, w, e)
		m.work = &w
	} else {
		err = s.records.End(ctx, w, ended(w, w.Failed, s.Now()), e)
		m.work = nil
	}
	if errors.Is(err, store.ErrConflict) {
		return machines.Machine{}, wire.Refuse(wire.CodeUnavailable, m.SystemID+" changed just now",
			"look at it, and ask again: muster maas show "+m.SystemID)
	}
	s.wakeUp(m.SystemID)
	return s.shown(m, s.whole(), s.Now()), err
}

// ended is how a work ended, at a time; it failed if why is not empty.
func ended(w records.Work, why string, at time.Time) records.Ended {
	return records.Ended{Act: w.Act, At: at, Why: why, Canceled: w.Canceled && why == w.Failed, Allocates: w.Allocates}
}
