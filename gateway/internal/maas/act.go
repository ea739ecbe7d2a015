package maas

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/store"
	records "muster/store/maas"
)

// Act begins something with machines, each for itself. The works that it begins are on record, and go on at once. It refuses a machine that
// has a work already.
func (s *Service) Act(ctx context.Context, q machines.Act, by store.Actor) (machines.Acted, error) {
	out := machines.Acted{Machines: []machines.Machine{}, Refused: map[string]string{}}
	acts := []string{machines.ActDeploy, machines.ActRelease, machines.ActReset, machines.ActDecommission, machines.ActCommission,
		machines.ActCancel}
	switch state := s.now(ctx); {
	case !slices.Contains(acts, q.Act):
		return out, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there is no act %.40q", q.Act), "one of "+strings.Join(acts, ", "))
	case q.Series != "" && !isSeries(q.Series):
		return out, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.40q is no series", q.Series), seriesForm)
	case len(q.Machines) == 0:
		return out, wire.Refuse(wire.CodeBadRequest, "no machine is named", "name at least one: muster maas ls")
	case !state.Enabled:
		return out, wire.Refuse(wire.CodeUnavailable, "MAAS is off", "start the gateway with --maas-url: muster help maas")
	case !state.Known && q.Act != machines.ActCancel: // what has not reached MAAS ends all the same
		return out, unseen(state)
	}
	if q.Profile != "" { // before the node loses the one that it has
		all, err := s.Profiles(ctx)
		if err != nil {
			return out, err
		}
		if !slices.ContainsFunc(all, func(p api.Profile) bool { return p.Name == q.Profile }) {
			return out, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("no profile is called %.80q", q.Profile), "muster profile ls shows them")
		}
	}
	if q.Act == machines.ActDeploy {
		if err := s.hasImage(ctx, q.Series); err != nil {
			return out, err
		}
	}
	looks, over := context.WithTimeout(ctx, renewTime) // of all machines together
	defer over()
	for _, name := range q.Machines {
		m, err := s.act(ctx, looks, q, name, by)
		var refused *wire.ErrorDetail
		switch {
		case errors.As(err, &refused):
			out.Refused[name] = refused.Message + " (" + refused.Hint + ")"
		case err != nil:
			return out, err
		default:
			out.Machines = append(out.Machines, m)
		}
	}
	return out, nil
}

// act begins something with one machine. It is judged by what MAAS says of it now, and by the view where MAAS does not tell in the time of
// looks.
func (s *Service) act(ctx, looks context.Context, q machines.Act, name string, by store.Actor) (machines.Machine, error) {
	all, err := s.load(store.Fresh(ctx))
	if err != nil {
		return machines.Machine{}, err
	}
	m, err := s.find(all, name)
	if err != nil {
		return machines.Machine{}, err
	}
	s.renew(looks, m)
	if q.Act == machines.ActCancel {
		return s.cancel(ctx, m, by)
	}
	w := records.Work{SystemID: m.SystemID, ID: newID(), Act: q.Act, Begun: s.Now(), By: by.Name, Series: q.Series, Profile: q.Profile,
		Reimage: q.Reimage, Force: q.Force && q.Act != machines.ActDeploy}
	if w.Erase, err = s.erases(ctx, m, q); err != nil {
		return machines.Machine{}, err
	}
	if w.Deadline = w.Begun.Add(giveUpAfter); q.Act == machines.ActDeploy && !q.Reimage { // an erasure may take hours
		w.Deadline = w.Begun.Add(s.Deadline)
	}
	if err := s.may(m, q.Tenant, &w); err != nil {
		return machines.Machine{}, err
	}
	if !q.DryRun {
		if err := s.begin(ctx, by, start{m, w}); err != nil {
			return machines.Machine{}, err
		}
	}
	m.work = &w
	return s.shown(m, s.whole(), s.Now()), nil
}

// erases tells whether the disks are erased. If nobody says so, the profiles of a machine that is given back do: the one that it was
// installed with last, and its node's. What nobody knows of a machine is taken for something to erase. MAAS erases nothing that is free.
func (s *Service) erases(ctx context.Context, m *machine, q machines.Act) (erase bool, err error) {
	switch {
	case s.facts(m, s.whole(), s.Now()).Empty():
		return false, nil
	case q.Erase != nil:
		return *q.Erase, nil
	case q.Act == machines.ActDeploy, q.Act == machines.ActCommission:
		return false, nil
	}
	var names []string
	if m.node != nil && m.node.Profile != "" {
		names = append(names, m.node.Profile)
	}
	if e := records.ReadEnded(m.Ended); e.Profile != "" {
		names = append(names, e.Profile)
	}
	if len(names) == 0 {
		return true, nil
	}
	all, err := s.Profiles(ctx)
	for _, name := range names {
		at := slices.IndexFunc(all, func(p api.Profile) bool { return p.Name == name })
		erase = erase || at < 0 || all[at].Erase // one that is not there is deleted
	}
	return erase, err
}

// renewTime is how long a person waits for what MAAS says now.
const renewTime = 10 * time.Second

// renew reads a machine anew, so that nothing is begun, or refused, for what was so at the last view alone.
func (s *Service) renew(ctx context.Context, m *machine) {
	if !s.State().Known || m.GoneAt != nil {
		return
	}
	now, err := s.Region.Machine(ctx, m.SystemID)
	if err != nil || reflect.DeepEqual(now, m.seen) {
		return
	}
	if err := s.saw(ctx, m.Machine, now); err != nil {
		s.Logger.Warn("MAAS: what was read of a machine is not kept", "machine", m.SystemID, "error", err)
	}
	m.seen, m.Status = now, now.Status
}

// may refuses what the work could not do, so that the one who asks hears it before anything is done.
func (s *Service) may(m *machine, tenant string, w *records.Work) error {
	if m.work != nil {
		return wire.Refuse(wire.CodeIllegalMove, m.work.Act+" goes on with it",
			"wait until it ends: muster maas show "+m.SystemID+", or end it: muster maas cancel "+m.SystemID)
	}
	if tenant != "" && m.node != nil && m.node.Tenant != tenant {
		return wire.Refuse(wire.CodeNotFound, "it is no machine of tenant "+tenant, "see them: muster maas ls")
	}
	with := *m
	with.work = w
	if why, next := s.facts(&with, s.whole(), s.Now()).May(); why != "" {
		return wire.Refuse(wire.CodeIllegalMove, why, m.fill(next))
	}
	return nil
}

// start is a work that may begin.
type start struct {
	*machine
	work records.Work
}

// begin begins works, all or none.
func (s *Service) begin(ctx context.Context, by store.Actor, works ...start) error {
	var begun []records.Start
	var events []store.Event
	names := ""
	for _, w := range works {
		e := store.Event{At: s.Now(), Kind: "maas." + w.work.Act, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
			Detail: map[string]string{"machine": w.SystemID, "work": w.work.ID}}
		about(&e, w.node)
		row := records.Start{Work: w.work, NodeID: w.NodeID}
		if w.node != nil {
			row.State = w.node.State
		}
		begun, events, names = append(begun, row), append(events, e), names+" "+w.SystemID
	}
	err := s.records.Begin(ctx, begun, events...)
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeUnavailable, names[1:]+" changed just now", "look at it, and ask again: muster maas show"+names)
	}
	for _, w := range works {
		s.wakeUp(w.SystemID)
	}
	return err
}

// newID is a name that no other work has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
