package fleet

import (
	"context"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/store"
)

const (
	gpuRefresh = 10 * time.Minute // how often an unchanged node's GPU rows are looked at again
	gpuPause   = time.Minute      // between two looks at a node that is started again and again
	flushBatch = 500              // heartbeats in one batch
)

// live is what is known of a node since its last flush, and what the next heartbeat is compared with.
type live struct {
	beat   store.Beat
	dirty  bool
	gpusAt time.Duration // when, in the fleet's up time, the GPU rows were last read out of a reading
	gpuRun string        // of which run; empty: they were not

	current string // the run that was heard last
	runs    []*run
	beats   int64         // how many proofs of life were counted, over all runs
	touched time.Duration // when it was last heard, in the fleet's up time

	leftOut string // the notice of what the last reading had to lose

	gpusSeen  int               // the most GPUs that were seen, or remembered by the node, since memory has it
	ills      map[string]string // what the rows of its GPUs last said, by GPU
	illHash   uint64            // stands for it
	illEvents allowance         // of events about it
	retold    allowance         // of changes of what stands behind a reason
}

// Report is what a heartbeat says beside its plain members, in JSON of the shape that the API promises.
type Report struct {
	Agent, Cost string // "" not said
	Hardware    string // "" leaves the last reading in place
	LeftOut     string // a notice that names what did not have the shape; "" all did

	// Of the reading, as long as there is one:
	Probe    string // the probe's state
	GPUs     int    // rows
	Expected int    // how many GPUs the node remembers to have; 0: it does not say
	Ills     uint64 // stands for what the rows' health lists say: equal numbers are equal lists; 0: all are empty
}

// Beat takes one heartbeat of a node and gives its state. The reading itself is not decoded here: nobody has asked for it.
func (f *Fleet) Beat(ctx context.Context, id *Identity, p Proof, b *wire.HeartbeatRequest, report Report) (State, error) {
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
	raise := 0
	switch {
	case clashing != nil && !id.InConflict():
		state, err = f.conflict(ctx, id, p, map[string]string{
			"why": "two runs of the agent report at once", "run": b.RunID, "other_run": clashing.ID, "other_address": clashing.Address,
			"other_fingerprint": clashing.Fingerprint,
		})
	case id.InConflict(): // who of two is well is nothing to go by
		state, err = f.heard(ctx, id, nil, nil)
	default:
		expected := f.expect(id, b, report)
		if !id.gpusSaid && expected > id.gpusExpected {
			raise = expected
		}
		reasons, detail := health(b, report, expected)
		state, err = f.heard(ctx, id, reasons, detail)
		f.ill(ctx, id, p, report)
	}
	if err != nil {
		return "", err
	}
	f.take(store.Beat{
		NodeID: id.NodeID, Enrolment: id.Enrolment, RunID: b.RunID, Counter: b.Counter, SkewMillis: b.SkewMillis,
		Interval: time.Duration(b.IntervalSeconds * float64(time.Second)),
		Address:  p.Address, Agent: report.Agent, Cost: report.Cost, Notices: b.Notices, Hardware: report.Hardware, RaiseGPUs: raise,
	}, report.LeftOut)
	return state, nil
}

// follow keeps the memory of the node's runs. A heartbeat that a later one of the same run has overtaken on the way proves
// that the node is alive; what it says of the node is old.
func (f *Fleet) follow(id *Identity, p Proof, b *wire.HeartbeatRequest) (overtaken bool, clashing *run) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(id.NodeID)
	now, up := f.clock.Read()
	l.touched = up
	overtaken, clashing = l.hear(b, id.Fingerprint, p, moment{now, up})
	if overtaken && l.beat.RunID == b.RunID {
		l.beat.At = now
		l.dirty = true
	}
	if clashing != nil {
		other := *clashing // it goes on changing
		clashing = &other
	}
	return overtaken, clashing
}

// live is what memory has of a node. The caller holds the lock.
func (f *Fleet) live(nodeID string) *live {
	l := f.beats.live[nodeID]
	if l == nil {
		l = &live{}
		f.beats.live[nodeID] = l
	}
	return l
}

// take puts a heartbeat in line for the next flush. What was left out of a reading is told for as long as that is shown.
func (f *Fleet) take(beat store.Beat, leftOut string) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(beat.NodeID)
	if beat.Hardware != "" || leftOut != "" {
		l.leftOut = leftOut
	}
	if l.leftOut != "" {
		beat.Notices = append(slices.Clip(beat.Notices), l.leftOut)
	}
	if beat.Hardware == "" && l.dirty {
		beat.Hardware = l.beat.Hardware
	}
	beat.At = f.now() // under the lock, so that last_seen never goes back
	l.beat = beat
	l.dirty = true
}

// forgetBeat drops what a node's former identity reported and nothing has written yet.
func (f *Fleet) forgetBeat(nodeID string) {
	f.beats.Lock()
	defer f.beats.Unlock()
	delete(f.beats.live, nodeID)
}

// heard moves the node where being heard from, and its health, lead.
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
	if has(id.Reasons, wire.ReasonExpired) { // a heartbeat takes a certificate that is good
		remove = append(remove, wire.ReasonExpired)
	}
	if len(add)+len(remove) == 0 {
		return state, f.retell(ctx, id, health, detail)
	}
	moved, err := f.applyHealth(ctx, id.NodeID, add, remove, detail)
	return State(moved.State), err
}

// Flush writes the heartbeats that wait. When it returns nil, everything heard before the call is in the database.
func (f *Fleet) Flush(ctx context.Context) error {
	f.watch(ctx)
	f.flushing.Lock()
	defer f.flushing.Unlock()
	waiting := f.takeDirty()
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), flushBatch)
		if err := f.store.SaveBeats(ctx, waiting[:n], f.clock.Lived()); err != nil {
			f.giveBack(waiting)
			return err
		}
		for _, beat := range waiting[:n] {
			if beat.RaiseGPUs > 0 { // its identities hold the record of before
				f.Forget(beat.NodeID)
			}
		}
		waiting = waiting[n:]
	}
	return nil
}

func (f *Fleet) takeDirty() []store.Beat {
	f.beats.Lock()
	defer f.beats.Unlock()
	var waiting []store.Beat
	up := f.clock.Up()
	for id, l := range f.beats.live {
		if !l.dirty {
			if up-l.touched > time.Hour {
				delete(f.beats.live, id)
			}
			continue
		}
		beat := l.beat
		since := up - l.gpusAt
		due := l.gpuRun == "" || since > gpuRefresh || l.gpuRun != beat.RunID && since > gpuPause
		if beat.Hardware != "" && due {
			beat.GPUs = gpuRows(beat.Hardware)
			l.gpuRun = beat.RunID
			l.gpusAt = up
		}
		beat.Runs = l.takeUnsaved()
		waiting = append(waiting, beat)
		l.dirty = false
		l.beat.Hardware = ""
	}
	return waiting
}

// giveBack puts beats that could not be written back in line, unless a newer one is there.
func (f *Fleet) giveBack(waiting []store.Beat) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, beat := range waiting {
		l := f.beats.live[beat.NodeID]
		if l == nil { // a take-over dropped it meanwhile
			continue
		}
		if !l.dirty {
			l.beat = beat
			l.dirty = true
		} else if l.beat.Hardware == "" {
			l.beat.Hardware = beat.Hardware
		}
		l.gpuRun = ""
		l.resave(beat.Runs)
	}
}

// overlay puts what was heard since the last flush over what the database says.
func (f *Fleet) overlay(n *store.Node) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[n.ID]
	if l != nil && !n.GPUsSaid {
		n.GPUsExpected = max(n.GPUsExpected, l.gpusSeen)
	}
	if l == nil || l.beat.NodeID == "" || n.LastSeen != nil && l.beat.At.Before(*n.LastSeen) { // also while a flush is under way
		return
	}
	b := l.beat
	n.LastSeen = &b.At
	n.Interval = b.Interval
	n.RunID = b.RunID
	n.Counter = b.Counter
	n.SkewMillis = &b.SkewMillis
	n.Address = b.Address
	n.Agent = b.Agent
	n.Cost = b.Cost
	n.Notices = b.Notices
	if b.Hardware != "" {
		n.Hardware = b.Hardware
	}
}
