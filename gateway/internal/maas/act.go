package maas

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/store"
	records "muster/store/maas"
)

// Act begins something with machines, each for itself. What is begun is on record, and the next round, which begins at once, goes on with
// it.
// A machine with which something goes on already is refused.
func (s *Service) Act(ctx context.Context, q machines.Act, by store.Actor) (machines.Acted, error) {
	out := machines.Acted{Machines: []machines.Machine{}, Refused: map[string]string{}}
	acts := []string{machines.ActDeploy, machines.ActRelease, machines.ActReset, machines.ActDecommission, machines.ActCommission}
	switch state := s.State(); {
	case !slices.Contains(acts, q.Act):
		return out, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("there is no act %.40q", q.Act), "one of "+strings.Join(acts, ", "))
	case len(q.Machines) == 0:
		return out, wire.Refuse(wire.CodeBadRequest, "no machine is named", "name at least one: muster maas ls")
	case !state.Enabled:
		return out, wire.Refuse(wire.CodeUnavailable, "MAAS is off", "start the gateway with --maas-url: muster help maas")
	case !state.Known:
		return out, unseen(state)
	}
	for _, name := range q.Machines {
		m, err := s.act(ctx, q, name, by)
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
	if len(out.Machines) > 0 && !q.DryRun {
		s.wakeUp()
	}
	return out, nil
}

func (s *Service) act(ctx context.Context, q machines.Act, name string, by store.Actor) (machines.Machine, error) {
	all, err := s.load(store.Fresh(ctx))
	if err != nil {
		return machines.Machine{}, err
	}
	m, err := s.find(all, name)
	if err != nil {
		return machines.Machine{}, err
	}
	w := records.Work{SystemID: m.SystemID, ID: newID(), Act: q.Act, Begun: s.Now(), By: by.Name, Series: q.Series, Reimage: q.Reimage,
		Erase: q.Erase, Force: q.Force && q.Act != machines.ActDeploy}
	if w.Deadline = w.Begun.Add(giveUpAfter); q.Act == machines.ActDeploy && !q.Reimage { // an erasure may take hours
		w.Deadline = w.Begun.Add(s.Deadline)
	}
	if err := s.may(m, q, &w); err != nil {
		return machines.Machine{}, err
	}
	if q.Profile != "" && m.node != nil && q.Profile != m.node.Profile {
		return machines.Machine{}, s.assign(ctx, m, q, by)
	}
	if !q.DryRun {
		if err := s.begin(ctx, m, w, by); err != nil {
			return machines.Machine{}, err
		}
	}
	m.work = &w
	return s.shown(m, s.whole(), s.Now()), nil
}

// may refuses what the work could not do, by the node and by MAAS, so that the one who asks hears it before anything is done.
func (s *Service) may(m *machine, q machines.Act, w *records.Work) error {
	refuse := func(why, next string) error {
		return wire.Refuse(wire.CodeIllegalMove, m.SystemID+": "+why, m.fill(next))
	}
	if m.work != nil {
		return refuse(m.work.Act+" goes on with it", "wait until it ends: muster maas show SYSTEM")
	}
	n := m.node
	if q.Tenant != "" && n != nil && n.Tenant != q.Tenant {
		return wire.Refuse(wire.CodeNotFound, m.SystemID+" is no machine of tenant "+q.Tenant, "see them: muster maas ls")
	}
	with := *m
	with.work = w
	f := s.facts(&with, s.whole(), s.Now())
	f.Mine = false
	if q.Act == machines.ActDeploy {
		return s.mayDeploy(m, q, f, refuse)
	}
	failed := f.State() == machines.StateFailed || f.State() == machines.StateBroken
	switch o := f.Step(); {
	case q.Act == machines.ActReset && !failed && !f.Gone && (f.Ended == "" || f.State() != machines.StateReady):
		return refuse("it is "+f.State()+", and did not fail", "muster maas release or commission SYSTEM")
	case q.Act == machines.ActRelease && f.State() == machines.StateReady && (n == nil || n.State == wire.StateReady ||
		n.State == wire.StateCommissioned):
		return refuse("it is ready already", "nothing is to be done")
	case q.Act == machines.ActDecommission && n == nil && m.KeptOut:
		return refuse("it is out already", "nothing is to be done")
	case o.Wait != "" && f.Locked:
		return refuse("it is locked in MAAS", "unlock it there")
	case o.End && o.Why != "":
		return refuse(o.Why, "see muster maas show SYSTEM; --force where that is meant")
	}
	return nil
}

func (s *Service) mayDeploy(m *machine, q machines.Act, f recovery.Facts, refuse func(why, next string) error) error {
	n := m.node
	switch {
	case f.Gone:
		return refuse("MAAS has the machine no more", "see muster maas plan")
	case n == nil || n.State == wire.StateRetired:
		return refuse("it is no node", "commission it first: muster maas commission SYSTEM")
	case f.Owner != "" && !f.Ours:
		return refuse(f.Owner+" has it in MAAS", "have them release it")
	case f.Locked:
		return refuse("it is locked in MAAS", "unlock it there")
	case q.Reimage && f.Step().Why != "" && !n.Held && n.State == wire.StateDrained:
		return refuse(f.Step().Why, "give it back first: muster maas release SYSTEM --force")
	case n.State == wire.StateCommissioned && q.Profile == "":
		return refuse("its node is commissioned, and not ready", "see what it lacks: muster maas show SYSTEM")
	case n.State == wire.StateReady && f.State() != machines.StateReady:
		return refuse("it is "+f.State()+" in MAAS", "muster maas release SYSTEM")
	case n.State == wire.StateReady, n.State == wire.StateCommissioned:
	case n.State == wire.StateDrained && q.Reimage:
	case n.State == wire.StateDrained:
		return refuse("it is deployed", "to install it anew: muster maas deploy SYSTEM --reimage")
	default:
		return refuse("its node is "+n.State, "to install it anew: muster node drain NODE, then muster maas deploy SYSTEM --reimage")
	}
	if n.Held {
		return refuse("an allocation has a part of it", "release that first: muster alloc ls")
	}
	if q.Profile != "" && q.Profile != n.Profile {
		return nil // it gets that one first
	}
	f.Work = nil
	for _, row := range recovery.Find(f) {
		if strings.HasPrefix(row.Name, "tag_") || row.Name == "no_tag" || row.Name == "no_profile" {
			return refuse(row.Text, cmp.Or(row.Next, "ask again in a minute"))
		}
	}
	return nil
}

// assign gives the node the profile. MAAS gets its tag first, and tells it: until then the machine cannot be deployed.
func (s *Service) assign(ctx context.Context, m *machine, q machines.Act, by store.Actor) error {
	if q.DryRun {
		return wire.Refuse(wire.CodeUnavailable, m.SystemID+": its node gets the profile "+q.Profile+" first", "leave out --dry-run")
	}
	if err := s.Assign(ctx, m.node.ID, q.Profile, by); err != nil {
		return err
	}
	if m.node.State == wire.StateReady { // for another profile
		if err := s.Move(ctx, m.node.ID, recovery.MoveDecommission, false, by); err != nil {
			return err
		}
	}
	s.wakeUp()
	return wire.Refuse(wire.CodeUnavailable, m.SystemID+": its node has the profile "+q.Profile+" now, and MAAS gets the tag",
		"ask again when it is ready, in a minute: muster maas show "+m.SystemID)
}

func (s *Service) begin(ctx context.Context, m *machine, w records.Work, by store.Actor) error {
	e := store.Event{At: s.Now(), Kind: "maas." + w.Act, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"machine": w.SystemID, "work": w.ID}}
	about(&e, m.node)
	id, state := m.NodeID, ""
	if m.node != nil {
		state = m.node.State
	}
	err := s.records.Begin(ctx, w, id, state, e)
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeUnavailable, m.SystemID+" changed just now", "look at it, and ask again: muster maas show "+m.SystemID)
	}
	return err
}

// newID is a name that no other work has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
