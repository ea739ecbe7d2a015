package maas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/store"
	records "muster/store/maas"
)

const (
	mostServed = 2                // deployments that may fail for one allocation
	serveAgain = 30 * time.Minute // after one has failed for it
)

// Wanted is what a waiting allocation needs.
type Wanted struct {
	Allocation, Tenant string
	Count              int // machines
	Fits               func(machines.Machine) bool
	DryRun             bool // nothing is begun and nothing is given back
}

// Serve begins to deploy ready machines for an allocation that no node fits: the first machines of its tenant that fit, and all that it
// needs or none. It returns the names of their nodes. The same allocation again gets the same machines. If a deployment has failed, it gets
// another machine: at once if others are deployed for it, else after a while. Meanwhile it keeps those that it has. It gets none if there
// are too few machines, or if deployments have failed so often that the wish, and not the machines, may be the reason. Then the machines
// that it has are given back.
func (s *Service) Serve(ctx context.Context, q Wanted, by store.Actor) (nodes []string, err error) {
	if !s.State().Known {
		return nil, nil
	}
	all, err := s.load(store.Fresh(ctx))
	if err != nil {
		return nil, err
	}
	now := s.Now()
	failed, soon, works := 0, false, false
	var has []*machine
	for _, m := range all {
		if m.serves(q.Allocation) {
			has = append(has, m)
			nodes = append(nodes, m.node.Name)
			works = works || m.work == nil
		}
		if at, did := m.failedFor(q.Allocation, now); did {
			failed++
			soon = soon || now.Sub(at) < serveAgain
		}
	}
	if len(has) >= q.Count {
		return nodes, nil
	}
	var begun []start
	if failed < mostServed {
		begun = s.free(all, q, q.Count-len(has), by)
	}
	switch isEnough := len(has)+len(begun) >= q.Count; {
	case !isEnough && q.DryRun:
		return nil, nil
	case !isEnough:
		return nil, s.giveBackEach(ctx, has)
	case soon && !works: // what fails may be what it needs
		return nodes, nil
	case s.hasImage(ctx, "") != nil: // Later says so
		return nil, nil
	case !q.DryRun:
		err = s.begin(ctx, by, begun...)
	}
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) { // somebody was faster: the next time, others are found
		return nil, nil
	}
	for _, w := range begun {
		nodes = append(nodes, w.node.Name)
	}
	return nodes, err
}

// serves is true for a machine that was, or is being, deployed for an allocation.
func (m *machine) serves(allocation string) bool {
	if m.node == nil {
		return false
	}
	if m.work != nil {
		return m.work.Allocates == allocation && m.work.Failed == ""
	}
	e := records.ReadEnded(m.Ended)
	return e.Why == "" && e.Allocates == allocation
}

// failedFor tells when the last deployment of the machine has failed, if that was for an allocation.
func (m *machine) failedFor(allocation string, now time.Time) (at time.Time, did bool) {
	if w := m.work; w != nil && w.Failed != "" && w.Allocates == allocation {
		return now, true
	}
	e := records.ReadEnded(m.Ended)
	return e.At, e.Why != "" && e.Allocates == allocation
}

// free finds machines that can be deployed for an allocation.
func (s *Service) free(all []*machine, q Wanted, count int, by store.Actor) (begun []start) {
	k, now := s.whole(), s.Now()
	for _, m := range all {
		if len(begun) == count {
			break
		}
		if m.node == nil || m.node.Tenant != q.Tenant || m.node.State != wire.StateReady {
			continue
		}
		if shown := s.shown(m, k, now); shown.Finding != "" || !q.Fits(shown) {
			continue
		}
		w := records.Work{SystemID: m.SystemID, ID: newID(), Act: machines.ActDeploy, Begun: now, Deadline: now.Add(s.Deadline), By: by.Name,
			Allocates: q.Allocation}
		if s.may(m, "", &w) == nil {
			begun = append(begun, start{m, w})
		}
	}
	return begun
}

// giveBackAll gives back the machines that Serve had deployed for allocations that are over. A machine stays of which another allocation
// has a part by now.
func (s *Service) giveBackAll(ctx context.Context, all []*machine) (failed error) {
	for _, m := range all {
		e := records.ReadEnded(m.Ended)
		if e.Allocates == "" || !m.serves(e.Allocates) {
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

// giveBackEach gives back machines of an allocation that gets no others. What is still deployed is given back when it is there.
func (s *Service) giveBackEach(ctx context.Context, has []*machine) (failed error) {
	for _, m := range has {
		if m.work == nil {
			failed = errors.Join(failed, s.giveBack(ctx, m))
		}
	}
	return failed
}

// giveBack drains the node of a machine that nobody has a part of, and begins to release it with the erasure that its profile asks for. It
// is drained only where it can be released.
func (s *Service) giveBack(ctx context.Context, m *machine) error {
	if m.node.Held || m.work != nil {
		return nil
	}
	erase, err := s.erases(ctx, m, machines.Act{Act: machines.ActRelease})
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
	if err := s.may(m, "", &w); err != nil {
		return fmt.Errorf("machine %s: %w", m.SystemID, err)
	}
	if active {
		if err := s.Move(ctx, m.node.ID, recovery.MoveDrain, false, itself()); err != nil {
			return err
		}
	}
	return s.begin(ctx, itself(), start{m, w})
}

// Says puts into words what Serve has done, or why it could not. cost is that of an hour; empty: it is not known.
func Says(nodes []string, cost string, err error) string {
	if err != nil {
		return "a machine of MAAS: " + err.Error()
	}
	if cost != "" {
		cost = " for " + cost + " an hour"
	}
	what, slots := "the machine", "its slots"
	if len(nodes) > 1 {
		what, slots = "the machines", "their slots"
	}
	return fmt.Sprintf("%s %s, which MAAS installs for it%s, and the approval of %s: muster slot ls --node %s", what,
		strings.Join(nodes, ", "), cost, slots, nodes[0])
}
