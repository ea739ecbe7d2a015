package fleet

import (
	"context"
	"encoding/json"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
	"muster/gateway/internal/fleet/report"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// Proof says how and when a request was proven.
type Proof = clash.Proof

// remember makes sure that memory has the node, and reads its runs from the database if it does not. Without that a restart of
// the gateway would hide a copy. The database is read without the lock, so another call may be first: its result then stays.
// The caller holds no lock.
func (f *Fleet) remember(ctx context.Context, nodeID string) error {
	f.beats.Lock()
	l := f.beats.live[nodeID]
	f.beats.Unlock()
	if l != nil {
		return nil
	}
	fresh, err := f.readRuns(ctx, nodeID)
	if err != nil {
		return err
	}
	f.beats.Lock()
	defer f.beats.Unlock()
	if f.beats.live[nodeID] == nil {
		f.beats.live[nodeID] = fresh
	}
	return nil
}

// readRuns reads what the database has of a node's runs and of the health of its GPUs.
func (f *Fleet) readRuns(ctx context.Context, nodeID string) (*live, error) {
	rows, err := f.store.Runs(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	node, err := f.store.Node(ctx, "", nodeID)
	if err != nil {
		return nil, err
	}
	up := f.clock.Up()
	l := &live{runs: clash.Read(node, rows, up), touched: up}
	var h wire.Hardware
	if json.Unmarshal([]byte(node.Hardware), &h) == nil {
		l.ills, _ = reading.Ills(&h)
	}
	return l, nil
}

// runs returns the runs of a node that memory has; the one that was heard last comes first. Nil: memory has none.
func (f *Fleet) runs(nodeID string) []store.Run {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[nodeID]
	if l == nil {
		return nil
	}
	return l.runs.Rows()
}

// live is what memory has of a node: the heartbeat that waits for the next flush, and what the next heartbeat is compared with.
// Fleet.beats guards it.
type live struct {
	beat  view.Sample
	raise int  // the number to which beat raises the record of the node's GPUs; 0: the record stays
	dirty bool // beat is newer than the database

	reading  *wire.Hardware // the last one, also after it was written; nil: none came
	digest   report.Digest  // of the report that the database has
	reportAt time.Duration  // when that was written, in the clock's up time
	behind   bool           // beat is newer than that report

	runs    clash.Runs
	touched time.Duration // when the node was last heard, in the clock's up time

	leftOut string // the notice that names what was left out of the last reading

	gpusSeen  int               // the most GPUs that were seen, or that the node remembers, since the node is in memory
	ills      map[string]string // the health that the GPU rows last said, by GPU
	illEvents limit.Allowance   // bounds the events about ills
	retold    limit.Allowance   // bounds the changes of a reason's detail
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

// forgetBeat drops what memory has of a node. After a take-over or a recovery, what was heard before belongs to another machine.
func (f *Fleet) forgetBeat(nodeID string) {
	f.beats.Lock()
	defer f.beats.Unlock()
	delete(f.beats.live, nodeID)
}
