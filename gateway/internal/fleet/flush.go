package fleet

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"muster/gateway/internal/view"
	"muster/store"
)

const (
	gpuRefresh = 10 * time.Minute // how often the GPU rows of one run are written again
	gpuPause   = time.Minute      // the same for a new run, so that an agent that restarts all the time causes few writes
	flushBatch = 500              // heartbeats in one write: others must not wait long for the writer
	forgetLive = time.Hour        // a node that is silent for so long leaves memory; the database has all of it
)

// unwritten is a heartbeat that waits for the database, and what is to be written with it.
type unwritten struct {
	view.Sample
	raise int
	gpus  bool // the rows of its GPUs too
	runs  []store.Run
}

// Flush writes the heartbeats that wait. When it returns nil, everything that was heard before the call is in the database.
// It writes at least once, also if no heartbeat waits: each write records that the gateway is at work.
func (f *Fleet) Flush(ctx context.Context) error {
	f.watch(ctx)
	f.flushing.Lock()
	defer f.flushing.Unlock()
	waiting := f.takeDirty()
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), flushBatch)
		rows := make([]store.Beat, n)
		samples := make([]view.Sample, n)
		for i, u := range waiting[:n] {
			rows[i] = u.row()
			samples[i] = u.Sample
		}
		if err := f.store.SaveBeats(ctx, rows, f.clock.Lived()); err != nil {
			f.giveBack(waiting)
			return err
		}
		if f.wrote != nil {
			f.wrote(samples)
		}
		for _, u := range waiting[:n] {
			if u.raise > 0 { // the cached identities hold the old number
				f.Forget(u.NodeID)
			}
		}
		waiting = waiting[n:]
	}
	return nil
}

func (u *unwritten) row() store.Beat {
	b := store.Beat{
		NodeID: u.NodeID, Enrolment: u.Enrolment, At: u.At, RunID: u.RunID, Counter: u.Counter, Interval: u.Interval,
		SkewMillis: u.SkewMillis, Address: u.Address, Agent: textOf(u.Agent), Cost: textOf(u.Cost), Notices: u.Notices,
		Hardware: textOf(u.Hardware), RaiseGPUs: u.raise, Runs: u.runs,
	}
	if u.gpus {
		b.GPUs = gpuRows(u.Hardware)
	}
	return b
}

// textOf is the text of a part of a heartbeat for the database; empty: the node did not say it.
func textOf[T any](part *T) string {
	if part == nil {
		return ""
	}
	var text strings.Builder
	if json.NewEncoder(&text).Encode(part) != nil { // nothing that was decoded from JSON
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// takeDirty returns the heartbeats that wait, and marks them as written. giveBack undoes that.
func (f *Fleet) takeDirty() []unwritten {
	f.beats.Lock()
	defer f.beats.Unlock()
	var waiting []unwritten
	up := f.clock.Up()
	for id, l := range f.beats.live {
		if !l.dirty {
			if up-l.touched > forgetLive {
				delete(f.beats.live, id)
			}
			continue
		}
		u := unwritten{Sample: l.beat, raise: l.raise, runs: l.runs.TakeUnsaved()}
		since := up - l.gpusAt
		due := l.gpuRun == "" || since > gpuRefresh || l.gpuRun != u.RunID && since > gpuPause
		if u.Hardware != nil && due {
			u.gpus = true
			l.gpuRun = u.RunID
			l.gpusAt = up
		}
		waiting = append(waiting, u)
		l.dirty = false
		l.beat.Hardware = nil
	}
	return waiting
}

// giveBack keeps beats that could not be written for the next flush, unless a newer one came meanwhile. A newer one without a
// reading gets the reading of the older one.
func (f *Fleet) giveBack(waiting []unwritten) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, u := range waiting {
		l := f.beats.live[u.NodeID]
		if l == nil { // forgetBeat dropped it meanwhile
			continue
		}
		if !l.dirty {
			l.beat = u.Sample
			l.raise = u.raise
			l.dirty = true
		} else if l.beat.Hardware == nil {
			l.beat.Hardware = u.Hardware
		}
		l.gpuRun = ""
		l.runs.Resave(u.runs)
	}
}

// overlay replaces what the database says of a node with what was heard since the last flush.
func (f *Fleet) overlay(n *store.Node) {
	b, seen := f.unflushed(n.ID)
	if !n.GPUsSaid {
		n.GPUsExpected = max(n.GPUsExpected, seen)
	}
	// A beat that a flush is writing is not dirty any more, so the times decide.
	if b.NodeID == "" || n.LastSeen != nil && b.At.Before(*n.LastSeen) {
		return
	}
	n.LastSeen = &b.At
	n.Interval = b.Interval
	n.RunID = b.RunID
	n.Counter = b.Counter
	n.SkewMillis = &b.SkewMillis
	n.Address = b.Address
	n.Agent = textOf(b.Agent)
	n.Cost = textOf(b.Cost)
	n.Notices = b.Notices
	if b.Hardware != nil {
		n.Hardware = textOf(b.Hardware)
	}
}

// unflushed is the last heartbeat of a node in memory, and the highest number of its GPUs.
func (f *Fleet) unflushed(nodeID string) (b view.Sample, gpusSeen int) {
	f.beats.Lock()
	defer f.beats.Unlock()
	if l := f.beats.live[nodeID]; l != nil {
		return l.beat, l.gpusSeen
	}
	return b, 0
}
