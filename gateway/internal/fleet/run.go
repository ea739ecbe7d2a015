package fleet

import (
	"context"
	"encoding/json"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
	"muster/gateway/internal/reading"
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
