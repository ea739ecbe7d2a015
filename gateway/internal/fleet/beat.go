package fleet

import (
	"context"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// Beat takes one heartbeat of a node and returns the node's state.
func (f *Fleet) Beat(ctx context.Context, id *Identity, p Proof, b *reading.Heartbeat) (State, error) {
	f.watch(ctx)
	if err := f.remember(ctx, id.NodeID); err != nil {
		return "", err
	}
	overtaken, clashing := f.follow(id, p, b)
	if overtaken {
		return id.State, nil
	}
	var state State
	var err error
	interval := time.Duration(b.IntervalSeconds * float64(time.Second))
	raise := 0
	switch {
	case clashing != nil && !id.InConflict():
		state, err = f.conflict(ctx, id, p, map[string]string{
			"why": "two runs of the agent report at once", "run": b.RunID, "other_run": clashing.ID, "other_address": clashing.Address,
			"other_fingerprint": clashing.Fingerprint,
		})
	case id.InConflict(): // two machines report, so their health says nothing about the node
		state, err = f.heard(ctx, id, nil, nil)
	default:
		expected := f.expect(id, b)
		if !id.gpusSaid && expected > id.gpusExpected {
			raise = expected
		}
		reasons, detail := health(b, expected)
		if f.counts != nil && reasons != nil {
			reasons = f.counts(id.NodeID, interval, reasons, detail)
		}
		state, err = f.heard(ctx, id, reasons, detail)
		f.ill(ctx, id, p, b.Hardware)
	}
	if err != nil {
		return "", err
	}
	f.take(view.Sample{
		NodeID: id.NodeID, Enrolment: id.Enrolment, RunID: b.RunID, Counter: b.Counter, SkewMillis: b.SkewMillis, Interval: interval,
		Address: p.Address, Agent: b.Agent, Cost: b.Cost, Notices: b.Notices, Hardware: b.Hardware,
	}, raise, b.LeftOut)
	return state, nil
}

// follow adds a heartbeat to the node's runs. A heartbeat can arrive after a later one of the same run: it is overtaken. It
// still proves that the node is alive, but what it says about the node is old.
func (f *Fleet) follow(id *Identity, p Proof, b *reading.Heartbeat) (overtaken bool, clashing *store.Run) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(id.NodeID)
	now, up := f.clock.Read()
	l.touched = up
	overtaken, clashing = l.runs.Hear(&b.HeartbeatRequest, id.Fingerprint, p, clash.Moment{Now: now, Up: up})
	if overtaken && l.beat.RunID == b.RunID {
		l.beat.At = now
		l.dirty = true
	}
	return overtaken, clashing
}

// take keeps a heartbeat for the next flush. The notice of what was left out of a reading stays for as long as that reading
// is shown.
func (f *Fleet) take(beat view.Sample, raise int, leftOut string) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(beat.NodeID)
	if beat.Hardware != nil || leftOut != "" {
		l.leftOut = leftOut
	}
	if l.leftOut != "" {
		beat.Notices = append(slices.Clip(beat.Notices), l.leftOut)
	}
	if beat.Hardware == nil && l.dirty {
		beat.Hardware = l.beat.Hardware
	}
	if beat.Hardware != nil {
		l.reading = beat.Hardware
	}
	l.behind = true
	beat.At = f.now() // read while the lock is held, so that last_seen never goes back
	l.beat = beat
	l.raise = raise
	l.dirty = true
}

// heard moves the node to the state that follows from a heartbeat and its health, and returns that state.
func (f *Fleet) heard(ctx context.Context, id *Identity, health []string, detail map[string]string) (State, error) {
	state := id.State
	if to, err := Decide(Situation{State: state, Person: id.Person}, Heartbeat); err != nil {
		return "", err
	} else if to != state {
		moved, err := f.apply(ctx, id.NodeID, change{verb: Heartbeat, by: itself(id.NodeID, "")})
		if err != nil {
			return "", err
		}
		state = State(moved.State)
	}
	if id.InConflict() {
		return state, nil
	}
	add, remove := healthChange(id.Reasons, health)
	if has(id.Reasons, wire.ReasonExpired) { // a heartbeat needs a valid certificate, so it is not expired any more
		remove = append(remove, wire.ReasonExpired)
	}
	if len(add)+len(remove) == 0 {
		return state, f.retell(ctx, id, health, detail)
	}
	moved, err := f.applyHealth(ctx, id.NodeID, itself(id.NodeID, ""), add, remove, detail)
	return State(moved.State), err
}
