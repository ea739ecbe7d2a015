package maas

import (
	"context"
	"errors"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/store"
	records "muster/store/maas"
)

const (
	mostServed = 2                // machines that may fail for one allocation
	serveAgain = 30 * time.Minute // after one has failed for it
)

// Serve begins to deploy a ready machine for an allocation that no node fits, and gives the name of its node: the first of the tenant's
// that
// fits. The same allocation again gives the same machine. "": there is none, or deployments have failed for the allocation, so that what it
// needs, and not the machines, may be the reason.
func (s *Service) Serve(ctx context.Context, tenant, allocation string, fits func(machines.Machine) bool, by store.Actor) (string, error) {
	if !s.State().Known {
		return "", nil
	}
	all, err := s.load(store.Fresh(ctx))
	if err != nil {
		return "", err
	}
	k, now := s.whole(), s.Now()
	failed, soon := 0, false
	for _, m := range all {
		e, ended := records.ReadEnded(m.Ended)
		isFor := m.work != nil && m.work.Allocates == allocation || m.work == nil && ended && e.Why == "" && e.Allocates == allocation
		if isFor && m.node != nil {
			return m.node.Name, nil
		}
		if ended && e.Why != "" && e.Allocates == allocation {
			failed++
			soon = soon || now.Sub(e.At) < serveAgain
		}
	}
	if soon || failed >= mostServed {
		return "", nil
	}
	for _, m := range all {
		shown := s.shown(m, k, now)
		if m.node == nil || m.node.Tenant != tenant || m.node.State != wire.StateReady || shown.Finding != "" || !fits(shown) {
			continue
		}
		w := records.Work{SystemID: m.SystemID, ID: newID(), Act: machines.ActDeploy, Begun: now, Deadline: now.Add(s.Deadline), By: by.Name,
			Allocates: allocation}
		err := s.may(m, machines.Act{Act: machines.ActDeploy}, &w)
		if err == nil {
			err = s.begin(ctx, m, w, by)
		}
		var refused *wire.ErrorDetail
		switch {
		case errors.As(err, &refused): // somebody was faster
		case err != nil:
			return "", err
		default:
			s.wakeUp()
			return m.node.Name, nil
		}
	}
	return "", nil
}

// giveBackAll drains the machines that Serve had deployed for allocations, and begins to release them, each with the erasure that its
// profile
// asks for. A machine stays of which another allocation has a part by now.
func (s *Service) giveBackAll(ctx context.Context, all []*machine) (failed error) {
	for _, m := range all {
		e, ok := records.ReadEnded(m.Ended)
		if !ok || e.Allocates == "" || e.Why != "" || m.work != nil || m.node == nil || m.node.Held {
			continue
		}
		isOver, err := s.Over(ctx, e.Allocates)
		if err == nil && isOver {
			err = s.giveBack(ctx, m)
		}
		failed = errors.Join(failed, err) // one that cannot be released now delays no others
	}
	return failed
}

// giveBack drains a node only where its machine can be released.
func (s *Service) giveBack(ctx context.Context, m *machine) error {
	erase, err := s.Erases(ctx, m.node.Profile)
	if err != nil {
		return err
	}
	active := m.node.State == wire.StateActive
	if active {
		m.node.State = wire.StateDrained
	}
	now := s.Now()
	w := records.Work{SystemID: m.SystemID, ID: newID(), Act: machines.ActRelease, Begun: now, Deadline: now.Add(giveUpAfter), By: Actor,
		Erase: erase}
	if err := s.may(m, machines.Act{Act: machines.ActRelease}, &w); err != nil {
		return err
	}
	if active {
		if err := s.Move(ctx, m.node.ID, recovery.MoveDrain, false, itself()); err != nil {
			return err
		}
	}
	return s.begin(ctx, m, w, itself())
}
