package release

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/internal/rollout"
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
	if err := d.ready(ctx); err != nil {
		return Channel{}, err
	}
	plan := rollout.AllAtOnce()
	if p.Plan != nil {
		plan = *p.Plan
	}
	return d.point(ctx, name, step{digest: p.Digest, plan: &plan, pointer: p.Pointer, kind: "channel.pointed", seen: p.Seen}, by)
}

// Rollback points a channel at the release before the present one. Digest of the promotion is not read.
func (d *Desk) Rollback(ctx context.Context, name string, p Promotion, by store.Actor) (Channel, error) {
	if err := d.ready(ctx); err != nil {
		return Channel{}, err
	}
	plan := rollout.WayBack()
	if p.Plan != nil {
		plan = *p.Plan
	}
	return d.point(ctx, name, step{plan: &plan, pointer: p.Pointer, kind: "channel.rolled_back", seen: p.Seen}, by)
}

// step is a change of what a channel points at.
type step struct {
	digest  string // "": the release before
	plan    *Plan  // nil: no rollout begins
	pointer []byte
	kind    string // of the event
	why     string
	seen    int64 // number of the channel's pointer, by whoever wants the step; 0: any
}

func (d *Desk) point(ctx context.Context, name string, s step, by store.Actor) (Channel, error) {
	if err := wire.CheckChannel(name); err != nil {
		return Channel{}, err
	}
	if s.plan != nil {
		if _, err := s.plan.Read(); err != nil {
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
		if err := d.channels[name].stillAt(s.seen); err != nil {
			d.mu.Unlock()
			return p, err
		}
		r, last, err := d.wanted(name, s.digest)
		want := d.next(name, r, last+1)
		stored := d.last(name)
		if s.digest == "" && s.plan != nil && err == nil {
			back := *s.plan
			back.Leaves = d.channels[name].Digest
			s.plan = &back
		}
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

// stillAt refuses what somebody decided who saw the channel before its last change. c may be nil: nobody has pointed the channel yet.
func (c *channel) stillAt(seen int64) error {
	if seen == 0 || c != nil && c.Sequence == seen {
		return nil
	}
	return wire.Refuse(wire.CodeIllegalMove, "the channel has changed since you looked at it",
		"look at it again: this may mean another release now")
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
