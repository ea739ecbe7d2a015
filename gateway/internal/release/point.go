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

// again is how often a change is tried when another one took the number.
const again = 5

// Point points a channel at a release. The earlier rollout of the channel ends, and the answer and the event say so. What is under way
// already is not begun anew.
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

// Rollback points a channel at the release before the present one, or at one that the promotion names. A release that the channel was taken
// back from, or whose rollout was stopped, has to be named.
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
	digest  string // "": the release before
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
	p, err := d.step(ctx, name, s, by)
	if err != nil {
		return api.Channel{}, err
	}
	d.attach(ctx, p)
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

// step signs the channel's next pointer, and stores it. If another process took the number first, it tries again with the next one. The
// caller holds changing alone.
func (d *Service) step(ctx context.Context, name string, s step, by store.Actor) (releases.Pointer, error) {
	var p releases.Pointer
	for try := 1; ; try++ {
		d.mu.Lock()
		if err := d.channels[name].stillAt(s.seen); err != nil {
			d.mu.Unlock()
			return p, err
		}
		r, last, err := d.wanted(name, s.digest)
		if err == nil && s.back && d.channels[name] == nil {
			err = noChannel(name)
		}
		if err == nil && s.back && s.digest == "" && d.channels[name].plan.Leaves == r.Digest {
			err = takenBack(name, r)
		}
		want := d.next(name, r, last+1)
		stored := d.last(name)
		if s.back && err == nil {
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
