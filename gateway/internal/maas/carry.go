package maas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	"muster/store"
	records "muster/store/maas"
)

const (
	mostSteps = 20 // of one work in one round
	mostTries = 5  // of one step that is refused
	firstTry  = 20 * time.Second
	lastTry   = 5 * time.Minute
)

// carry carries the work at a machine on, as far as it goes without waiting.
func (s *Service) carry(ctx context.Context, systemID string) error {
	w, err := s.records.Work(store.Fresh(ctx), systemID)
	if errors.Is(err, store.ErrNotFound) { // it has ended
		return nil
	}
	if err != nil {
		return err
	}
	for range mostSteps {
		if !s.State().Known { // not any more: it goes on after the next view
			return nil
		}
		f, id, err := s.fresh(ctx, &w)
		if err != nil {
			return fmt.Errorf("machine %s: %w", w.SystemID, err)
		}
		if f.Erases() && !w.Erasing {
			w.Erasing = true
			if err := s.keep(ctx, &w); err != nil {
				return err
			}
		}
		again, err := s.follow(ctx, &w, id, f.Step(), f)
		if err != nil || !again {
			return err
		}
	}
	return nil
}

// fresh reads the machine and its node now. id is the machine's node, as it is linked.
func (s *Service) fresh(ctx context.Context, w *records.Work) (f recovery.Facts, id string, err error) {
	ctx = store.Fresh(ctx)
	row, err := s.records.Machine(ctx, w.SystemID)
	if err != nil {
		return f, "", err
	}
	k := s.whole()
	m := &machine{Machine: row, work: w}
	if row.NodeID != "" {
		n, err := s.records.Node(ctx, row.NodeID)
		if err != nil {
			return f, "", err
		}
		m.node = &n
	}
	m.seen, err = s.Region.Machine(ctx, w.SystemID)
	gone := region.KindOf(err) == region.NoSuch
	if err == nil {
		err = s.saw(ctx, row, m.seen)
	}
	if err != nil && !gone {
		return f, "", err
	}
	err = nil
	f = s.facts(m, k, s.Now())
	f.Gone, f.Mine = gone, false
	if f.Ours {
		err = s.whose(ctx, &f, row, k)
	}
	return f, row.NodeID, err
}

// whose finds out by whom a machine with our user was acquired: MAAS tells no agent name, but finds machines by it.
func (s *Service) whose(ctx context.Context, f *recovery.Facts, row records.Machine, k known) error {
	has := func(name string) (found bool, err error) {
		err = s.Region.Machines(ctx, region.Filter{IDs: []string{row.SystemID}, AgentName: name}, func(now region.Machine) error {
			said := s.said(now, k)
			said.Acquired, said.Since, said.Twin = true, f.Since, f.Twin
			f.Machine, found = said, true
			return nil
		})
		return found, err
	}
	var err error
	if name := agentName(*f.Work); f.Work.Act == machines.ActDeploy {
		if f.Mine, err = has(name); err != nil {
			return err
		}
		if f.Mine && row.Acquired != name {
			return s.records.Acquired(ctx, row.SystemID, name)
		}
	}
	if f.Mine || !f.Acquired || !f.Held() {
		return nil
	}
	if f.Acquired, err = has(row.Acquired); err == nil && !f.Acquired { // it was released, and acquired by another
		return s.records.Acquired(ctx, row.SystemID, "")
	}
	return err
}

// saw keeps how the machine looks now, so that what is shown does not lag a round behind.
func (s *Service) saw(ctx context.Context, row records.Machine, m region.Machine) error {
	now, err := seenOf(m)
	if err != nil || row.Body == now.Body {
		return err
	}
	return s.records.Saw(ctx, s.Now(), now)
}

// agentName is what tells the machines that a work has acquired.
func agentName(w records.Work) string { return "muster-" + w.ID }

// follow does what an order says. again: the next step can be taken now.
func (s *Service) follow(ctx context.Context, w *records.Work, nodeID string, o recovery.Order, f recovery.Facts) (again bool, err error) {
	switch {
	case o.End:
		return false, s.end(ctx, *w, nodeID, o.Why, f)
	case o.Wait != "":
		if w.Why == o.Wait {
			return false, nil
		}
		w.Why = o.Wait
	case o.Note != "":
		w.Step, w.Tries, w.TryAt, w.Why, again = o.Note, 0, nil, "", true
	case o.Fail != "":
		s.Logger.Warn("MAAS: a deployment failed", "machine", w.SystemID, "why", o.Fail)
		w.Failed, w.Tries, w.TryAt, w.Why, again = o.Fail, 0, nil, "", true
	case o.Move != "":
		return s.move(ctx, w, nodeID, o.Move)
	default:
		return s.ask(ctx, w, o.Ask, f)
	}
	return again, s.keep(ctx, w)
}

func (s *Service) keep(ctx context.Context, w *records.Work) (err error) {
	*w, err = s.records.Step(ctx, *w)
	return err
}

// move moves the node. What refuses it may be a person who was faster: the next step sees that.
func (s *Service) move(ctx context.Context, w *records.Work, nodeID, verb string) (again bool, err error) {
	err = s.Move(ctx, nodeID, verb, w.Force, store.Actor{Name: w.By})
	var refused *wire.ErrorDetail
	if err == nil {
		return true, nil
	}
	if !errors.As(err, &refused) {
		return false, err
	}
	w.Why = refused.Message
	return false, s.keep(ctx, w)
}

// ask asks MAAS for something, which is on record first. Afterwards the machine is read again, whatever the answer was.
func (s *Service) ask(ctx context.Context, w *records.Work, what string, f recovery.Facts) (again bool, err error) {
	now := s.Now()
	if w.Step != what {
		w.Step, w.Tries, w.TryAt, w.Why = what, 0, nil, ""
		if what == recovery.AskAcquire { // what is installed anew was released until now
			w.Deadline = now.Add(s.Deadline)
		}
	}
	if w.TryAt != nil && now.Before(*w.TryAt) {
		return false, nil
	}
	w.Tries++
	next := now.Add(post.Pause(firstTry, lastTry, w.Tries-1, rand.Float64()))
	w.TryAt = &next
	if err := s.keep(ctx, w); err != nil {
		return false, err
	}
	if err = s.send(ctx, w, what, f); err == nil {
		w.TryAt, w.Why = nil, ""
		return true, s.keep(ctx, w)
	}
	if ctx.Err() != nil {
		return false, nil // it is on record
	}
	w.Why = err.Error()
	var refused *wire.ErrorDetail
	barred := what == recovery.AskAssign && errors.As(err, &refused) && refused.Code == wire.CodeIllegalMove
	if barred || what == recovery.AskDeploy && region.NoImage(err) { // it stays so
		return s.giveUp(ctx, w, f)
	}
	switch region.KindOf(err) {
	case region.Unclear, region.Unreached, region.NotMAAS, region.KeyRefused, region.Clock:
		w.Tries = min(w.Tries, mostTries) // it may pass
	default:
		if w.Tries >= mostTries {
			return s.giveUp(ctx, w, f)
		}
	}
	return false, s.keep(ctx, w)
}

// giveUp ends a step that is refused again and again.
func (s *Service) giveUp(ctx context.Context, w *records.Work, f recovery.Facts) (again bool, err error) {
	if w.Act != machines.ActDeploy || w.Failed != "" {
		return false, s.end(ctx, *w, "", w.Why, f)
	}
	w.Failed, w.Tries, w.TryAt = w.Why, 0, nil
	return true, s.keep(ctx, w)
}

// send sends the request.
func (s *Service) send(ctx context.Context, w *records.Work, what string, f recovery.Facts) (err error) {
	id, comment := w.SystemID, "muster: "+w.Act+" "+w.ID
	switch what {
	case recovery.AskAcquire:
		_, err = s.Region.Acquire(ctx, id, agentName(*w), comment)
	case recovery.AskDeploy:
		err = s.deploy(ctx, *w, f, comment)
	case recovery.AskAbort:
		err = s.Region.Abort(ctx, id, comment)
	case recovery.AskRelease:
		var now region.Machine
		now, err = s.Region.Release(ctx, id, w.Erase, comment)
		w.Erasing = w.Erasing || recovery.Machine{Status: now.Status}.Erases()
	case recovery.AskCommission:
		_, err = s.Region.Commission(ctx, id)
	case recovery.AskFix:
		_, err = s.Region.MarkFixed(ctx, id, comment)
	case recovery.AskAssign:
		err = s.Assign(ctx, f.Node.ID, w.Profile, store.Actor{Name: w.By})
	case recovery.AskTag:
		err = s.tag(ctx, f.Node.Profile, id)
	case recovery.AskUntag:
		err = s.Region.Retag(ctx, f.Wrote, nil, []string{id})
	}
	return err
}

// deploy mints the token at the last moment. It can be fetched until the deadline.
func (s *Service) deploy(ctx context.Context, w records.Work, f recovery.Facts, comment string) error {
	script, err := s.Mint(ctx, f.Node.ID, f.Node.Profile, max(w.Deadline.Sub(s.Now()), time.Minute), store.Actor{Name: w.By})
	if err != nil {
		return err
	}
	d := region.Deployment{UserData: script, Series: cmp.Or(w.Series, s.Series), AgentName: agentName(w), Comment: comment}
	_, err = s.Region.Deploy(ctx, w.SystemID, d)
	return err
}

// end ends a work; it failed if why is not empty. A machine that was taken out of muster gets no node by itself, until it is commissioned.
func (s *Service) end(ctx context.Context, w records.Work, nodeID, why string, f recovery.Facts) error {
	out := w.Act == machines.ActDecommission
	comesIn := w.Act == machines.ActCommission && nodeID == ""
	if why == "" && (out || comesIn) {
		if err := s.records.Unlink(ctx, w.SystemID, nodeID, out && !f.Gone); err != nil {
			return err
		}
	}
	if why == "" && comesIn {
		if err := s.comeIn(ctx, w.SystemID); err != nil {
			return err
		}
	}
	e := store.Event{At: s.Now(), Kind: "maas.done", Actor: w.By, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"act": w.Act, "machine": w.SystemID, "work": w.ID}}
	last := ended(w, why, s.Now())
	if why != "" {
		e.Kind, e.Outcome, e.Detail["why"] = "maas.failed", "failed", why
	} else if w.Act == machines.ActDeploy {
		last.Profile = f.Node.Profile
	}
	about(&e, f.Node)
	defer s.wakeUp(w.SystemID)
	return s.records.End(ctx, w, last, e)
}

// comeIn makes the node of a machine that was commissioned, unless it is the hardware of another node.
func (s *Service) comeIn(ctx context.Context, systemID string) error {
	all, err := s.load(store.Fresh(ctx))
	for _, m := range all {
		if m.SystemID == systemID && m.node == nil && m.twin == "" {
			err = s.add(ctx, m)
		}
	}
	return err
}

func about(e *store.Event, n *records.Node) {
	if n != nil {
		e.NodeID, e.NodeName, e.Tenant = n.ID, n.Name, n.Tenant
	}
}
