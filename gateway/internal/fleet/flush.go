package fleet

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/report"
	"muster/gateway/internal/view"
	"muster/store"
)

const (
	refresh    = 10 * time.Minute // how often a node's report is written again that has not changed
	forgetLive = time.Hour        // a node that is silent for so long leaves memory; the database has all of it
)

// unwritten is a heartbeat that waits for the database.
type unwritten struct {
	report.Pending
	live *live // where it comes from
}

// Flush writes the heartbeats that wait. When it returns nil, everything that was heard before the call is in the database, except the
// newest figures of reports that have not changed: they follow within ten minutes, and memory has them. It writes at least once, also if no
// heartbeat waits: each write records that the gateway is at work.
func (f *Fleet) Flush(ctx context.Context) error { return f.flushNow(ctx, false) }

// flushNow is Flush. all: with the newest figures of all reports.
func (f *Fleet) flushNow(ctx context.Context, all bool) error {
	f.watch(ctx)
	f.flushing.Lock()
	defer f.flushing.Unlock()
	waiting := f.takeDirty(all)
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), store.Piece)
		rows := make([]store.Beat, n)
		samples := make([]view.Sample, 0, n)
		for i := range waiting[:n] {
			u := &waiting[i]
			rows[i] = u.Row()
			if !u.Again {
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
			if u.Raise > 0 { // the cached identities hold the old number
				f.Forget(u.NodeID)
			}
		}
		waiting = waiting[n:]
	}
	return nil
}

// reported notes which reports the database has now.
func (f *Fleet) reported(written []unwritten) {
	f.beats.Lock()
	defer f.beats.Unlock()
	up := f.clock.Up()
	for _, u := range written {
		if u.Whole && f.beats.live[u.NodeID] == u.live { // else the node enrolled again meanwhile
			u.live.digest = u.Digest
			u.live.reportAt = up
			u.live.behind = u.live.dirty
		}
	}
}

// takeDirty returns the heartbeats that wait, and marks them as written. giveBack undoes that.
func (f *Fleet) takeDirty(all bool) []unwritten {
	f.beats.Lock()
	defer f.beats.Unlock()
	var waiting []unwritten
	up := f.clock.Up()
	for id, l := range f.beats.live {
		late := all || up-l.reportAt >= refresh
		again := !l.dirty && l.behind && late // the node has been silent since, or is about to be
		if !l.dirty && !again {
			if up-l.touched > forgetLive {
				delete(f.beats.live, id)
			}
			continue
		}
		u := unwritten{live: l, Pending: report.Pending{Sample: l.beat, Raise: l.raise, Runs: l.runs.TakeUnsaved(), Again: again,
			Reading: l.reading, Digest: l.digest, Whole: late}}
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
		l.runs.Resave(u.Runs)
		switch {
		case u.Again:
		case !l.dirty:
			l.beat = u.Sample
			l.raise = u.Raise
			l.dirty = true
		case l.beat.Hardware == nil:
			l.beat.Hardware = u.Hardware
		}
	}
}

// overlay replaces what the database says of a node with what was heard since the last flush.
func (f *Fleet) overlay(n *store.Node) {
	b, last, seen := f.unflushed(n.ID)
	if !n.GPUsSaid {
		n.GPUsExpected = max(n.GPUsExpected, seen)
	}
	// A beat that a flush is writing is not dirty any more, so the times decide.
	if b.NodeID == "" || n.LastSeen != nil && b.At.Before(*n.LastSeen) {
		report.Past(n)
		return
	}
	report.Show(n, &b, last)
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
