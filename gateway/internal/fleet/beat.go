package fleet

import (
	"context"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
	"muster/gateway/internal/limit"
	"muster/store"
)

const (
	gpuRefresh = 10 * time.Minute // how often the GPU rows of one run are written again
	gpuPause   = time.Minute      // the same for a new run, so that an agent that restarts all the time causes few writes
	flushBatch = 500              // heartbeats in one write: others must not wait long for the writer
	forgetLive = time.Hour        // a node that is silent for so long leaves memory; the database has all of it
)

// live is what memory has of a node: the heartbeat that waits for the next flush, and what the next heartbeat is compared with.
// Fleet.beats guards it.
type live struct {
	beat   store.Beat
	dirty  bool          // beat is newer than the database
	gpusAt time.Duration // when the GPU rows were last written, in the clock's up time
	gpuRun string        // the run whose GPU rows were last written; empty: none

	runs    clash.Book
	touched time.Duration // when the node was last heard, in the clock's up time

	leftOut string // the notice that names what was left out of the last reading

	gpusSeen  int               // the most GPUs that were seen, or that the node remembers, since the node is in memory
	ills      map[string]string // the health that the GPU rows last said, by GPU
	illHash   uint64            // Report.Ills for ills
	illEvents limit.Allowance   // bounds the events about ills
	retold    limit.Allowance   // bounds the changes of a reason's detail
}

// Report is the part of a heartbeat that the node API has already put into the API's JSON.
type Report struct {
	Agent, Cost string // "": not said
	Hardware    string // "": the last reading stays
	LeftOut     string // a notice that names what had a wrong shape and was left out; "": nothing was

	// These describe the reading, if there is one:
	Probe    string // the probe's state
	GPUs     int    // the number of rows
	Expected int    // how many GPUs the node remembers; 0: it does not say
	Ills     uint64 // a hash of the rows' health lists; 0: all lists are empty
}

// Beat takes one heartbeat of a node and returns the node's state. It does not decode the reading: most readings are replaced
// before anybody asks for them.
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
		expected := f.expect(id, b, report)
		if !id.gpusSaid && expected > id.gpusExpected {
			raise = expected
		}
		reasons, detail := health(b, report, expected)
		if f.counts != nil && reasons != nil {
			reasons = f.counts(id.NodeID, interval, reasons, detail)
		}
		state, err = f.heard(ctx, id, reasons, detail)
		f.ill(ctx, id, p, report)
	}
	if err != nil {
		return "", err
	}
	f.take(store.Beat{
		NodeID: id.NodeID, Enrolment: id.Enrolment, RunID: b.RunID, Counter: b.Counter, SkewMillis: b.SkewMillis,
		Interval: interval, Address: p.Address, Agent: report.Agent, Cost: report.Cost, Notices: b.Notices, Hardware: report.Hardware, RaiseGPUs: raise,
	}, report.LeftOut)
	return state, nil
}

// follow adds a heartbeat to the node's runs. A heartbeat can arrive after a later one of the same run: it is overtaken. It
// still proves that the node is alive, but what it says about the node is old.
func (f *Fleet) follow(id *Identity, p Proof, b *wire.HeartbeatRequest) (overtaken bool, clashing *store.Run) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(id.NodeID)
	now, up := f.clock.Read()
	l.touched = up
	overtaken, clashing = l.runs.Hear(b, id.Fingerprint, p, clash.Moment{Now: now, Up: up})
	if overtaken && l.beat.RunID == b.RunID {
		l.beat.At = now
		l.dirty = true
	}
	return overtaken, clashing
}

// live returns what memory has of a node, and makes it if there is nothing. The caller holds the lock of beats.
func (f *Fleet) live(nodeID string) *live {
	l := f.beats.live[nodeID]
	if l == nil {
		l = &live{}
		f.beats.live[nodeID] = l
	}
	return l
}

// take keeps a heartbeat for the next flush. The notice of what was left out of a reading stays for as long as that reading
// is shown.
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
	beat.At = f.now() // read while the lock is held, so that last_seen never goes back
	l.beat = beat
	l.dirty = true
}

// forgetBeat drops what memory has of a node. After a take-over or a recovery, what was heard before belongs to another machine.
func (f *Fleet) forgetBeat(nodeID string) {
	f.beats.Lock()
	defer f.beats.Unlock()
	delete(f.beats.live, nodeID)
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

// Flush writes the heartbeats that wait. When it returns nil, everything that was heard before the call is in the database.
// It writes at least once, also where no heartbeat waits: each write records that the gateway is at work.
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
		if f.wrote != nil {
			f.wrote(waiting[:n])
		}
		for _, beat := range waiting[:n] {
			if beat.RaiseGPUs > 0 { // the cached identities hold the old number
				f.Forget(beat.NodeID)
			}
		}
		waiting = waiting[n:]
	}
	return nil
}

// takeDirty returns the heartbeats that wait, and marks them as written. giveBack undoes that.
func (f *Fleet) takeDirty() []store.Beat {
	f.beats.Lock()
	defer f.beats.Unlock()
	var waiting []store.Beat
	up := f.clock.Up()
	for id, l := range f.beats.live {
		if !l.dirty {
			if up-l.touched > forgetLive {
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
		beat.Runs = l.runs.TakeUnsaved()
		waiting = append(waiting, beat)
		l.dirty = false
		l.beat.Hardware = ""
	}
	return waiting
}

// giveBack keeps beats that could not be written for the next flush, unless a newer one came meanwhile. A newer one without a
// reading gets the reading of the older one.
func (f *Fleet) giveBack(waiting []store.Beat) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, beat := range waiting {
		l := f.beats.live[beat.NodeID]
		if l == nil { // forgetBeat dropped it meanwhile
			continue
		}
		if !l.dirty {
			l.beat = beat
			l.dirty = true
		} else if l.beat.Hardware == "" {
			l.beat.Hardware = beat.Hardware
		}
		l.gpuRun = ""
		l.runs.Resave(beat.Runs)
	}
}

// overlay replaces what the database says of a node with what was heard since the last flush.
func (f *Fleet) overlay(n *store.Node) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[n.ID]
	if l != nil && !n.GPUsSaid {
		n.GPUsExpected = max(n.GPUsExpected, l.gpusSeen)
	}
	// A beat that a flush is writing is not dirty any more, so the times decide.
	if l == nil || l.beat.NodeID == "" || n.LastSeen != nil && l.beat.At.Before(*n.LastSeen) {
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
