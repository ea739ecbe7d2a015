package release

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// Pause lets no further nodes in until Resume. If the rollout is paused already, nothing changes.
func (d *Service) Pause(ctx context.Context, name string, by store.Actor) (api.Channel, error) {
	pause := func(v rollout.View) rollout.Outcome {
		v.Rollout.State = releases.Paused
		v.Rollout.Why = "paused by " + by.Name
		return rollout.Outcome{Rollout: v.Rollout}
	}
	return d.turn(ctx, name, turn{to: releases.Paused, from: []string{releases.Running}, kind: "rollout.paused", change: pause}, by)
}

// Resume lets nodes in again, and accepts the nodes that have failed so far. If a restore has left the channel behind its nodes, it orders
// the channel's release again, under a number above theirs.
func (d *Service) Resume(ctx context.Context, name string, by store.Actor) (api.Channel, error) {
	c, err := d.catchUp(ctx, name, by)
	if err == nil && c.State == releases.Halted { // who resumed may not have seen that: the restore was what the channel told
		c.Note = "its rollout stays halted: " + c.Why + ". A second resume accepts that"
	}
	if err != nil || c.Channel != "" && c.State != releases.Paused {
		return c, err
	}
	from := []string{releases.Paused, releases.Halted}
	return d.turn(ctx, name, turn{to: releases.Running, from: from, kind: "rollout.resumed", security: true, change: rollout.Resume}, by)
}

// catchUp orders the release of a channel again that is behind its nodes. Any other channel it leaves alone, and gives none.
func (d *Service) catchUp(ctx context.Context, name string, by store.Actor) (api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	c := d.channels[name]
	behind := c != nil && c.behind()
	d.mu.Unlock()
	if !behind {
		return api.Channel{}, nil
	}
	if err := d.reissue(ctx, name, nil, "the channel was behind its nodes after a restore", by); err != nil {
		return api.Channel{}, err
	}
	return d.channel(name)
}

// Abort ends a rollout, and takes the nodes that were let in back to the previous release. Digest and Plan of the promotion are not read.
// If nobody can sign now, the rollout ends, and the channel says what to sign.
func (d *Service) Abort(ctx context.Context, name string, p Promotion, by store.Actor) (api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	abort := turn{from: []string{releases.Running, releases.Paused, releases.Halted}, kind: "rollout.aborted", security: true, seen: p.Seen,
		change: func(v rollout.View) rollout.Outcome {
			return left(v, releases.Aborted, "aborted by "+by.Name+d.nothingBefore(name))
		}}
	return d.leave(ctx, name, abort, p.Pointer, by)
}

// takeBack takes a channel back by itself that was halted, where its plan says so. The caller holds changing alone.
func (d *Service) takeBack(ctx context.Context, name string) error {
	d.mu.Lock()
	c := d.channels[name]
	wanted := c != nil && c.rollout != nil && c.rollout.State == releases.Halted && c.halting == nil && c.plan.GoBack && c.Previous != "" &&
		!c.behind()
	d.mu.Unlock()
	if !wanted {
		return nil
	}
	back := turn{from: []string{releases.Halted}, kind: "rollout.taken_back", security: true,
		change: func(v rollout.View) rollout.Outcome { return left(v, releases.TakenBack, v.Rollout.Why) }}
	_, err := d.leave(ctx, name, back, nil, gatewayActor())
	return err
}

// left is a rollout whose release is left.
func left(v rollout.View, state, why string) rollout.Outcome {
	v.Rollout.State = state
	v.Rollout.Why = why
	v.Rollout.EndedAt = &v.Now
	return rollout.Outcome{Rollout: v.Rollout}
}

// leave ends a rollout, and orders the previous release. The caller holds changing alone.
func (d *Service) leave(ctx context.Context, name string, t turn, pointer []byte, by store.Actor) (api.Channel, error) {
	c, err := d.change(ctx, name, t, by)
	if err != nil || c.Previous == "" {
		return c, err
	}
	way := step{pointer: pointer, kind: "channel.rolled_back", why: "the rollout was " + strings.ReplaceAll(c.State, "_", " "), seen: c.Sequence}
	back, err := d.move(ctx, name, way, by)
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) && refused.Code == wire.CodeSignatureWanted && len(pointer) == 0 {
		return d.channel(name)
	}
	return back, err
}

// nothingBefore says what an abort leaves where a channel has no release to go back to. The caller holds mu.
func (d *Service) nothingBefore(name string) string {
	if d.channels[name].Previous != "" {
		return ""
	}
	return ". No release came before it: the nodes that have it keep it, and nobody else gets it until a release is promoted"
}

// turn is what a person, or its own plan, does to an open rollout.
type turn struct {
	to       string   // the state that it makes: where the rollout is there already, nothing changes; "": it can be done once
	from     []string // the states in which it can be done
	kind     string   // of the event
	security bool
	change   func(rollout.View) rollout.Outcome
	seen     int64 // as in step
}

// turn changes the state of a channel's open rollout.
func (d *Service) turn(ctx context.Context, name string, t turn, by store.Actor) (api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	return d.change(ctx, name, t, by)
}

// change is the same. The caller holds changing alone.
func (d *Service) change(ctx context.Context, name string, t turn, by store.Actor) (api.Channel, error) {
	d.mu.Lock()
	c := d.channels[name]
	if c == nil {
		d.mu.Unlock()
		return api.Channel{}, noChannel(name)
	}
	if c.rollout != nil && c.rollout.State == t.to && c.halting == nil {
		out, _ := d.view(c)
		d.mu.Unlock()
		out.Note = "the rollout was " + t.to + " already: nothing was changed"
		return out, nil
	}
	if err := c.can(t); err != nil {
		d.mu.Unlock()
		return api.Channel{}, err
	}
	was := *c.rollout
	if c.halting != nil {
		was = *c.halting
	}
	out := t.change(d.seen(c))
	d.mu.Unlock()
	o := out.Rollout
	e := d.event(t.kind, by, t.security, map[string]string{"channel": name, "release": o.Digest, "wave": strconv.Itoa(o.Wave + 1),
		"why": o.Why})
	err := d.records.ChangeRollout(ctx, o, was, out.Rows, e)
	if errors.Is(err, store.ErrConflict) {
		err = illegalTurn(name, "the rollout changed at this moment")
	}
	if err := errors.Join(err, d.reload(ctx)); err != nil {
		return api.Channel{}, err
	}
	return d.channel(name)
}

// can refuses a turn where a channel's rollout is in none of its states, or is another one than the person saw.
func (c *channel) can(t turn) error {
	name := c.Channel.Channel
	if err := c.stillAt(t.seen); err != nil {
		return err
	}
	if c.rollout == nil {
		return illegalTurn(name, "no rollout ever began there")
	}
	if !slices.Contains(t.from, c.rollout.State) {
		return illegalTurn(name, "the rollout is "+c.rollout.State)
	}
	return nil
}

func illegalTurn(name, why string) error {
	return wire.Refuse(wire.CodeIllegalMove, "the rollout of the channel "+name+" cannot do this: "+why,
		"muster release status --channel "+name)
}
