package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
	"muster/gateway/internal/view"
	"muster/store"
	"muster/store/engine"
)

const (
	refresh    = 10 * time.Minute // how often a node's report, and the GPU rows of one run, are written again that have not changed
	gpuPause   = time.Minute      // the same for the GPU rows of a new run, so that an agent that restarts all the time causes few writes
	forgetLive = time.Hour        // a node that is silent for so long leaves memory; the database has all of it
)

// unwritten is a heartbeat that waits for the database, and what is to be written with it.
type unwritten struct {
	view.Sample
	raise int
	gpus  bool // the rows of its GPUs too
	runs  []store.Run

	live    *live
	again   bool           // it was written and handed on: only its report waits
	reading *wire.Hardware // the node's last one in memory; nil: there is none
	report  digest         // of what it says
	whole   bool           // its report is to be written
}

// digest stands for what a heartbeat says beside that the node lives: its report, without the figures that are other ones each time. Zero:
// not known.
type digest [sha256.Size]byte

// Flush writes the heartbeats that wait. When it returns nil, everything that was heard before the call is in the database, but for the
// newest figures of reports that have not changed: they follow within ten minutes, and memory has them.
// It writes at least once, also if no heartbeat waits: each write records that the gateway is at work.
func (f *Fleet) Flush(ctx context.Context) error {
	f.watch(ctx)
	f.flushing.Lock()
	defer f.flushing.Unlock()
	waiting := f.takeDirty()
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), engine.Piece)
		rows := make([]store.Beat, n)
		samples := make([]view.Sample, 0, n)
		for i := range waiting[:n] {
			u := &waiting[i]
			rows[i] = u.row()
			if !u.again {
				samples = append(samples, u.Sample)
			}
		}
		if err := f.store.SaveBeats(ctx, rows, f.clock.Lived()); err != nil {
			f.giveBack(waiting)
			return err
		}
		f.reported(waiting[:n])
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

// row is what is written. The report is, if it has changed since it was written, or was written long ago.
func (u *unwritten) row() store.Beat {
	b := store.Beat{NodeID: u.NodeID, At: u.At, RunID: u.RunID, Counter: u.Counter, SkewMillis: u.SkewMillis,
		Enrolment: u.Enrolment, RaiseGPUs: u.raise, Runs: u.runs}
	if u.gpus {
		b.GPUs = gpuRows(u.Hardware)
	}
	written := u.report
	u.report = u.digest()
	u.whole = u.whole || u.report != written
	if b.Alive = !u.whole; b.Alive {
		return b
	}
	b.Interval = u.Interval
	b.Address = u.Address
	b.Agent = textOf(u.Agent)
	b.Cost = textOf(u.Cost)
	b.Notices = u.Notices
	b.Hardware = textOf(u.reading)
	return b
}

func (u *unwritten) digest() digest {
	report := struct {
		Interval time.Duration
		Address  string
		Agent    *wire.AgentInfo
		Starts   *wire.Starts
		Notices  []string
		Hardware *wire.Hardware
	}{u.Interval, u.Address, u.Agent, nil, u.Notices, reading.Steady(u.reading)}
	if u.Cost != nil {
		report.Starts = u.Cost.Starts
	}
	return sha256.Sum256([]byte(textOf(&report)))
}

// reported notes which reports the database has now.
func (f *Fleet) reported(written []unwritten) {
	f.beats.Lock()
	defer f.beats.Unlock()
	up := f.clock.Up()
	for _, u := range written {
		if u.whole && f.beats.live[u.NodeID] == u.live { // else the node enrolled again meanwhile
			u.live.report = u.report
			u.live.reportAt = up
			u.live.behind = u.live.dirty
		}
	}
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
		late := up-l.reportAt >= refresh
		again := !l.dirty && l.behind && late // the node has been silent since, or is about to be
		if !l.dirty && !again {
			if up-l.touched > forgetLive {
				delete(f.beats.live, id)
			}
			continue
		}
		u := unwritten{Sample: l.beat, raise: l.raise, runs: l.runs.TakeUnsaved(), live: l, again: again, reading: l.reading, report: l.report,
			whole: late}
		since := up - l.gpusAt
		due := l.gpuRun == "" || since > refresh || l.gpuRun != u.RunID && since > gpuPause
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
		if u.again {
			l.runs.Resave(u.runs)
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
	b, h, seen := f.unflushed(n.ID)
	if !n.GPUsSaid {
		n.GPUsExpected = max(n.GPUsExpected, seen)
	}
	// A beat that a flush is writing is not dirty any more, so the times decide.
	if b.NodeID == "" || n.LastSeen != nil && b.At.Before(*n.LastSeen) {
		past(n, true)
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
	if past(n, false); h != nil {
		n.Hardware = textOf(h)
	}
}

// past leaves out of a node's row what was not in its last heartbeat, and does not say how old it is.
func past(n *store.Node, cost bool) {
	if n.ReportedAt == nil {
		return
	}
	var c wire.Cost
	if cost && json.Unmarshal([]byte(n.Cost), &c) == nil {
		n.Cost = textOf(&wire.Cost{Starts: c.Starts})
	}
	var h wire.Hardware
	if json.Unmarshal([]byte(n.Hardware), &h) == nil {
		n.Hardware = textOf(reading.Past(&h))
	}
}

// unflushed is the last heartbeat of a node in memory, its last reading (nil: there is none), and the highest number of its GPUs.
func (f *Fleet) unflushed(nodeID string) (b view.Sample, h *wire.Hardware, gpusSeen int) {
	f.beats.Lock()
	defer f.beats.Unlock()
	if l := f.beats.live[nodeID]; l != nil {
		return l.beat, l.reading, l.gpusSeen
	}
	return b, nil, 0
}
