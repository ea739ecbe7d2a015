package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// mostTries is how often a change is tried when another one takes the number.
const mostTries = 5

// Point points a channel at a release. The earlier rollout of the channel ends, and the answer and the event say so. A rollout of this
// release that is under way is not begun anew.
func (d *Service) Point(ctx context.Context, name string, p Promotion, by store.Actor) (api.Channel, error) {
	if p.Digest == "" {
		return api.Channel{}, noRelease("")
	}
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	plan := rollout.AllAtOnce()
	if p.Plan != nil {
		plan = *p.Plan
	}
	if err := d.readLabels(ctx, ""); err != nil { // a node that came to the channel just now counts
		return api.Channel{}, err
	}
	if c, same := d.underWay(name, p, plan); same {
		return c, nil
	}
	return d.point(ctx, name, step{digest: p.Digest, plan: &plan, pointer: p.Pointer, kind: "channel.pointed", seen: p.Seen}, by)
}

// underWay finds the rollout that a promotion would begin, where it runs already. One that needs its new number is begun anew: nodes have
// failed and shall try again, have obeyed higher numbers, or its pointer has to be signed again.
func (d *Service) underWay(name string, p Promotion, plan Plan) (api.Channel, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.channels[name]
	if c == nil || c.rollout == nil || c.rollout.State != releases.Running || c.rollout.Digest != p.Digest || c.Digest != p.Digest ||
		len(p.Pointer) > 0 || p.Seen != 0 && p.Seen != c.Sequence || !c.plan.Same(plan) {
		return api.Channel{}, false
	}
	out, _ := d.view(c)
	out.Note = "the rollout runs already with these waves: nothing was changed"
	above := d.hears(c) || c.claimed > c.Last
	return out, !above && !c.behind() && out.ToSign == "" && out.Counts.Failed+out.Counts.Silent+out.Counts.Late+out.Counts.Unwell == 0
}

// Rollback points a channel at its previous release, or at one that the promotion names. A release must be named if the channel was taken
// back from it, or if its rollout was stopped.
func (d *Service) Rollback(ctx context.Context, name string, p Promotion, by store.Actor) (api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	plan := rollout.WayBack()
	if p.Plan != nil {
		plan = *p.Plan
	}
	way := step{digest: p.Digest, back: true, plan: &plan, pointer: p.Pointer, kind: "channel.rolled_back", seen: p.Seen}
	return d.point(ctx, name, way, by)
}

// step is a change of what a channel points at.
type step struct {
	digest  string // "": the previous release
	back    bool   // it is a way back: the plan says what it leaves
	plan    *Plan  // nil: no rollout begins
	pointer []byte
	kind    string // of the event
	why     string
	seen    int64 // number of the channel's pointer, by whoever wants the step; 0: any
}

func (d *Service) point(ctx context.Context, name string, s step, by store.Actor) (api.Channel, error) {
	if err := wire.CheckChannel(name); err != nil {
		return api.Channel{}, err
	}
	if s.plan != nil {
		if _, err := s.plan.Read(); err != nil {
			return api.Channel{}, err
		}
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	return d.move(ctx, name, s, by)
}

// move does a step that was checked. The caller holds changing alone.
func (d *Service) move(ctx context.Context, name string, s step, by store.Actor) (api.Channel, error) {
	ended := d.ended(name)
	if s.why == "" {
		s.why = ended
	}
	if err := d.step(ctx, name, s, by); err != nil {
		return api.Channel{}, err
	}
	c, err := d.channel(name)
	c.Note = ended
	return c, err
}

// ended says which open rollout of a channel a change ends; "": none.
func (d *Service) ended(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.channels[name]
	if c == nil || c.rollout == nil || c.rollout.EndedAt != nil || c.waves.Count() == 0 {
		return ""
	}
	o := c.rollout
	return fmt.Sprintf("this ended the rollout of %s, which was %s in wave %d of %d", d.releases[o.Digest].Version, o.State, o.Wave+1,
		c.waves.Count())
}

// issue signs the pointer that comes next, and has it written. If another process took its number first, it tries again with the one after
// that. next is called with mu held. The caller holds changing alone.
func (d *Service) issue(ctx context.Context, offered []byte, by store.Actor, next func() (wire.ReleasePointer, error),
	write func(releases.Pointer) error) (releases.Pointer, error) {
	for try := 1; ; try++ {
		d.mu.Lock()
		want, err := next()
		d.mu.Unlock()
		if err != nil {
			return releases.Pointer{}, err
		}
		p, err := d.signed(want, offered, by)
		if err != nil {
			return p, err
		}
		err = write(p)
		again := errors.Is(err, store.ErrConflict) && try < mostTries
		if read := d.reload(ctx); read != nil || !again {
			return p, errors.Join(err, read)
		}
	}
}

// step gives the channel its next pointer. The caller holds changing alone.
func (d *Service) step(ctx context.Context, name string, s step, by store.Actor) error {
	var r releases.Release
	var stored int64
	next := func() (wire.ReleasePointer, error) {
		c := d.channels[name]
		if err := c.stillAt(s.seen); err != nil {
			return wire.ReleasePointer{}, err
		}
		var last int64
		var err error
		if r, last, err = d.wanted(name, s.digest); err != nil {
			return wire.ReleasePointer{}, err
		}
		if s.back {
			if c == nil {
				return wire.ReleasePointer{}, noChannel(name)
			}
			if s.digest == "" && c.plan.Leaves == r.Digest {
				return wire.ReleasePointer{}, takenBack(name, r)
			}
			back := *s.plan
			back.Leaves = c.Digest
			s.plan = &back
		}
		stored = d.last(name)
		return d.next(name, r, last+1), nil
	}
	p, err := d.issue(ctx, s.pointer, by, next, func(p releases.Pointer) error {
		return d.records.Point(ctx, releases.Step{Pointer: p, Last: stored, Rollout: s.rollout(p)}, d.stepped(s, p, r.Version, by))
	})
	if err == nil {
		d.attach(ctx, p)
	}
	return err
}

// takenBack refuses a second way back, which would go forward again.
func takenBack(name string, r releases.Release) error {
	return wire.Refuse(wire.CodeIllegalMove, "the release before on the channel "+name+" is "+r.Version+
		", which the channel was taken back from",
		"to have it on all nodes all the same: muster release rollback --channel "+name+" --digest "+r.Digest)
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
func (d *Service) last(name string) int64 {
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

func (d *Service) stepped(s step, p releases.Pointer, version string, by store.Actor) store.Event {
	detail := map[string]string{"channel": p.Channel, "release": p.Digest, "version": version, "seq": strconv.FormatInt(p.Sequence, 10),
		"key": p.KeyID}
	if s.why != "" {
		detail["why"] = s.why
	}
	return d.event(s.kind, by, true, detail)
}
