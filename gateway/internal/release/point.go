package release

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"muster/agent/wire"
	"muster/store"
	"muster/store/releases"
)

// again is how often a change is tried when another one took the number.
const again = 5

// Point points a channel at a release. The earlier rollout of the channel ends.
func (d *Desk) Point(ctx context.Context, name string, p Promotion, by store.Actor) (Channel, error) {
	if p.Digest == "" {
		return Channel{}, noRelease("")
	}
	plan := allAtOnce()
	if p.Plan != nil {
		plan = *p.Plan
	}
	return d.point(ctx, name, step{digest: p.Digest, plan: &plan, pointer: p.Pointer, kind: "channel.pointed"}, by)
}

// Rollback points a channel at the release before the present one. Digest of the promotion is not read.
func (d *Desk) Rollback(ctx context.Context, name string, p Promotion, by store.Actor) (Channel, error) {
	plan := wayBack()
	if p.Plan != nil {
		plan = *p.Plan
	}
	return d.point(ctx, name, step{plan: &plan, pointer: p.Pointer, kind: "channel.rolled_back"}, by)
}

// step is a change of what a channel points at.
type step struct {
	digest  string // "": the release before
	plan    *Plan  // nil: no rollout begins
	pointer []byte
	kind    string // of the event
	why     string
}

func (d *Desk) point(ctx context.Context, name string, s step, by store.Actor) (Channel, error) {
	if err := checkChannel(name); err != nil {
		return Channel{}, err
	}
	if s.plan != nil {
		if _, err := s.plan.read(); err != nil {
			return Channel{}, err
		}
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	p, err := d.step(ctx, name, s, by)
	if err != nil {
		return Channel{}, err
	}
	d.attach(ctx, p)
	return d.channel(name)
}

// step signs the channel's next pointer, and stores it. Where another process took the number first, it tries again with the next one. The
// caller holds changing alone.
func (d *Desk) step(ctx context.Context, name string, s step, by store.Actor) (releases.Pointer, error) {
	var p releases.Pointer
	for try := 1; ; try++ {
		d.mu.Lock()
		r, last, err := d.wanted(name, s.digest)
		want := d.next(name, r, last+1)
		stored := d.last(name)
		d.mu.Unlock()
		if err != nil {
			return p, err
		}
		if p, err = d.signed(want, s.pointer, by); err != nil {
			return p, err
		}
		err = d.records.Point(ctx, releases.Step{Pointer: p, Last: stored, Rollout: s.rollout(p)}, d.stepped(s, p, r.Version, by))
		if err == nil || !errors.Is(err, store.ErrConflict) || try == again {
			return p, errors.Join(err, d.reload(ctx))
		}
		if err := d.reload(ctx); err != nil {
			return p, err
		}
	}
}

// last is the highest number of a channel on record. The caller holds mu.
func (d *Desk) last(name string) int64 {
	if c := d.channels[name]; c != nil {
		return c.Last
	}
	return 0
}

func (s step) rollout(p releases.Pointer) *releases.Rollout {
	if s.plan == nil {
		return nil
	}
	plan, err := json.Marshal(s.plan)
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return &releases.Rollout{Channel: p.Channel, Sequence: p.Sequence, Digest: p.Digest, Plan: string(plan), CreatedAt: p.SignedAt,
		CreatedBy: p.SignedBy}
}

func (d *Desk) stepped(s step, p releases.Pointer, version string, by store.Actor) store.Event {
	detail := map[string]string{"channel": p.Channel, "release": p.Digest, "version": version, "seq": strconv.FormatInt(p.Sequence, 10),
		"key": p.KeyID}
	if s.why != "" {
		detail["why"] = s.why
	}
	return d.event(s.kind, by, true, detail)
}

// Pause lets nobody in until Resume.
func (d *Desk) Pause(ctx context.Context, name string, by store.Actor) (Channel, error) {
	return d.turn(ctx, name, []string{releases.Running}, by, func(o *releases.Rollout, _ tally) store.Event {
		o.State = releases.Paused
		o.Why = "paused by " + by.Name
		return d.event("rollout.paused", by, false, nil)
	})
}

// Resume goes on, and accepts the nodes that have failed so far.
func (d *Desk) Resume(ctx context.Context, name string, by store.Actor) (Channel, error) {
	return d.turn(ctx, name, []string{releases.Paused, releases.Halted}, by, func(o *releases.Rollout, t tally) store.Event {
		if o.State == releases.Halted {
			o.Forgiven = t.fallen
		}
		o.State = releases.Running
		o.Why = ""
		return d.event("rollout.resumed", by, true, nil)
	})
}

// Abort ends a rollout, and takes the nodes that were let in back to the release before. pointer is as in Promotion. Where nobody can sign
// now, the rollout ends, and the channel says what to sign.
func (d *Desk) Abort(ctx context.Context, name string, pointer []byte, by store.Actor) (Channel, error) {
	open := []string{releases.Running, releases.Paused, releases.Halted}
	c, err := d.turn(ctx, name, open, by, func(o *releases.Rollout, _ tally) store.Event {
		at := d.Now()
		o.State = releases.Aborted
		o.Why = "aborted by " + by.Name
		o.EndedAt = &at
		return d.event("rollout.aborted", by, true, nil)
	})
	if err != nil || c.Previous == "" {
		return c, err
	}
	back, err := d.point(ctx, name, step{pointer: pointer, kind: "channel.rolled_back", why: "the rollout was aborted"}, by)
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) && refused.Code == wire.CodeSignatureWanted && len(pointer) == 0 {
		return d.Channel(ctx, name)
	}
	return back, err
}

// turn changes the state of a channel's open rollout.
func (d *Desk) turn(
	ctx context.Context, name string, from []string, by store.Actor, change func(*releases.Rollout, tally) store.Event,
) (Channel, error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	c := d.channels[name]
	if c == nil {
		d.mu.Unlock()
		return Channel{}, noChannel(name)
	}
	o, t, err := d.turning(c, from)
	d.mu.Unlock()
	if err != nil {
		return Channel{}, err
	}
	was := o.State
	if c.halting { // it is halted in memory alone
		was = releases.Running
	}
	e := change(&o, t)
	e.Detail = map[string]string{"channel": name, "release": o.Digest, "wave": strconv.Itoa(o.Wave + 1)}
	err = d.records.ChangeRollout(ctx, o, was, nil, e)
	if errors.Is(err, store.ErrConflict) {
		err = illegalTurn(name, "the rollout changed at this moment")
	}
	if err := errors.Join(err, d.reload(ctx)); err != nil {
		return Channel{}, err
	}
	return d.channel(name)
}

func (d *Desk) turning(c *channel, from []string) (releases.Rollout, tally, error) {
	name := c.Channel.Channel
	if c.rollout == nil {
		return releases.Rollout{}, tally{}, illegalTurn(name, "no rollout ever began there")
	}
	o := *c.rollout
	for _, state := range from {
		if o.State == state {
			r := &round{d: d, c: c, o: o, now: d.Now(), changed: map[string]releases.Node{}}
			return o, r.tally(), nil
		}
	}
	return o, tally{}, illegalTurn(name, "the rollout is "+o.State)
}

func illegalTurn(name, why string) error {
	return wire.Refuse(wire.CodeIllegalMove, "the rollout of the channel "+name+" cannot do this: "+why,
		"muster release status --channel "+name)
}
