package store

import (
	"context"
	"strconv"
	"time"

	"muster/store/engine"
)

// Beat is the part of a heartbeat that is stored.
type Beat struct {
	NodeID     string
	At         time.Time
	RunID      string
	Counter    uint64
	SkewMillis int64
	Alive      bool // only the above is stored: the row has what follows already

	Interval  time.Duration
	Address   string
	Agent     string // JSON
	Cost      string // JSON
	Notices   []string
	Hardware  string // JSON; "": the last one stays
	RaiseGPUs int    // the number to which the record of the node's GPUs is raised; 0: the record stays
	Enrolment string // the enrolment in which the runs were heard
	Runs      []Run  // runs to write
}

// SaveBeats stores beats, one of each node, in one batch, together with the time until which the gateway was at work (MetaAliveAt). A
// node's last_seen never goes back: a beat older than the stored one changes nothing there. Beats of unknown nodes are dropped.
func (s *Store) SaveBeats(ctx context.Context, beats []Beat, aliveAt time.Time) error {
	var alive [][]any
	var statements []statement
	for _, b := range beats {
		if b.Alive {
			alive = append(alive, []any{b.NodeID, millis(b.At), b.RunID, int64(b.Counter), b.SkewMillis})
		} else {
			statements = append(statements, b.update())
		}
		if b.RaiseGPUs > 0 {
			statements = append(statements, b.raiseGPUs())
		}
		statements = append(statements, saveRuns(b.NodeID, b.Enrolment, b.Runs)...)
	}
	if len(alive) > 0 {
		statements = append(statements, do(setAlive, engine.JSON(alive)))
	}
	statements = append(statements, do(setMeta, MetaAliveAt, strconv.FormatInt(millis(aliveAt), 10)))
	return s.change(ctx, statements, nil)
}

// MetaAliveAt is the meta key that SaveBeats writes. Its value is in Unix milliseconds.
const MetaAliveAt = "alive_at"

// setAlive is for many nodes at once, because on rqlite a statement costs much more than a row. Each element of the JSON is an array. OR
// FAIL spares SQLite a journal of the statement, which costs half of the speed: if a statement fails, its batch is undone as a whole.
const setAlive = `UPDATE OR FAIL liveness SET last_seen = b.value ->> 1, run_id = b.value ->> 2, counter = b.value ->> 3,
	skew_ms = b.value ->> 4 FROM json_each(?) b WHERE node_id = b.value ->> 0 AND COALESCE(last_seen, 0) <= b.value ->> 1`

func (b Beat) update() statement {
	args := []any{millis(b.At), b.Interval.Milliseconds(), b.RunID, int64(b.Counter), b.SkewMillis, b.Address, b.Agent, b.Cost,
		engine.JSON(b.Notices)}
	set := `UPDATE liveness SET last_seen = ?, interval_ms = ?, run_id = ?, counter = ?, skew_ms = ?, address = ?, agent = ?, cost = ?,
		notices = ?, `
	if b.Hardware != "" {
		set += "reported_at = ?, hardware = ?"
		args = append(args, millis(b.At), b.Hardware)
	} else { // the reading stays as old as it is
		set += "reported_at = COALESCE(reported_at, last_seen)"
	}
	return do(set+" WHERE node_id = ? AND COALESCE(last_seen, 0) <= ?", append(args, b.NodeID, millis(b.At))...)
}
