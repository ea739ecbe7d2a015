package store

import (
	"context"
	"strconv"
	"time"
)

// Beat is what a heartbeat leaves behind.
type Beat struct {
	NodeID     string
	At         time.Time
	RunID      string
	Counter    uint64
	Interval   time.Duration
	SkewMillis int64
	Address    string
	Agent      string // JSON
	Cost       string // JSON
	Notices    []string
	Hardware   string // JSON; "" keeps the last
	GPUs       []GPU  // nil: unchanged
	RaiseGPUs  int    // to what the record of how many GPUs the node has is lifted; 0: as it is
	Enrolment  string // that the runs and the GPUs were heard in
	Runs       []Run  // those that changed places; nil: unchanged
}

// SaveBeats stores beats in one batch, with the time the gateway was alive (meta alive_at, unix milliseconds). A node's last_seen
// never goes back: an older beat than the stored one is dropped. Beats of nodes that do not exist are dropped.
func (s *Store) SaveBeats(ctx context.Context, beats []Beat, aliveAt time.Time) error {
	statements := make([]statement, 0, len(beats)+1)
	for _, b := range beats {
		statements = append(statements, b.update())
		for _, g := range b.GPUs {
			statements = append(statements, g.upsert(b))
		}
		if len(b.GPUs) > 0 {
			statements = append(statements, b.forgetGPUs())
		}
		if b.RaiseGPUs > 0 {
			statements = append(statements, b.raiseGPUs())
		}
		statements = append(statements, saveRuns(b.NodeID, b.Enrolment, b.Runs)...)
	}
	statements = append(statements, do(setMeta, MetaAliveAt, strconv.FormatInt(millis(aliveAt), 10)))
	return s.change(ctx, statements, nil)
}

// MetaAliveAt is the meta key that SaveBeats writes.
const MetaAliveAt = "alive_at"

func (b Beat) update() statement {
	args := []any{millis(b.At), b.Interval.Milliseconds(), b.RunID, int64(b.Counter), b.SkewMillis, b.Address, b.Agent, b.Cost,
		list(b.Notices)}
	set := `UPDATE liveness SET last_seen = ?, interval_ms = ?, run_id = ?, counter = ?, skew_ms = ?, address = ?, agent = ?, cost = ?,
		notices = ?`
	if b.Hardware != "" {
		set = set + ", hardware = ?"
		args = append(args, b.Hardware)
	}
	return do(set+" WHERE node_id = ? AND COALESCE(last_seen, 0) <= ?", append(args, b.NodeID, millis(b.At))...)
}
