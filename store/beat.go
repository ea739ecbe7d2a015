package store

import (
	"context"
	"strconv"
	"time"
)

// Beat is what is stored of a heartbeat.
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
	Hardware   string // JSON; "": the last one stays
	GPUs       []GPU  // rows to write; none: the rows stay as they are
	RaiseGPUs  int    // the number to which the record of the node's GPUs is raised; 0: the record stays
	Enrolment  string // the enrolment in which the runs and the GPUs were heard
	Runs       []Run  // runs to write
}

// SaveBeats stores beats in one batch, together with the time until which the gateway was at work (MetaAliveAt). A node's
// last_seen never goes back: a beat older than the stored one changes nothing there. Beats of unknown nodes are dropped.
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

// MetaAliveAt is the meta key that SaveBeats writes. Its value is in Unix milliseconds.
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
