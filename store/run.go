package store

import (
	"context"
	"time"
)

// MaxRuns is how many runs of one node are kept. The runs that were heard last stay.
const MaxRuns = 8

// Run is one start of a node's agent, as its heartbeats show it.
type Run struct {
	ID          string
	Fingerprint string // of the certificate that it used last
	Address     string
	Counter     uint64    // the highest one heard
	First       time.Time // when the gateway first heard of it
	Last        time.Time // its latest proof of life
	Before      time.Time // the one before that; zero: none

	// All proofs of life of a node are counted, so their numbers give the order, whatever the clock says. These are the numbers of
	// the run's first one, of its latest one, and of the one before that; 0: none.
	FirstBeat, LastBeat, BeforeBeat int64
}

// Runs returns the latest runs of a node; the run that was heard last comes first. A run's row is not written with each heartbeat:
// the counter and times of a run that goes on may be older than those of the node.
func (s *Store) Runs(ctx context.Context, nodeID string) ([]Run, error) {
	return all(ctx, s, readRun, do(`SELECT run_id, fingerprint, address, counter, first_at, last_at, before_at,
		first_beat, last_beat, before_beat FROM runs WHERE node_id = ?
		ORDER BY last_beat DESC, last_at DESC, first_at DESC, run_id LIMIT ?`, nodeID, int64(MaxRuns)))
}

func readRun(r *row) Run {
	run := Run{ID: r.Text(), Fingerprint: r.Text(), Address: r.Text(), Counter: uint64(r.Number()), First: r.Time(), Last: r.Time()}
	if before := r.Time(); before.UnixMilli() != 0 {
		run.Before = before
	}
	run.FirstBeat = r.Number()
	run.LastBeat = r.Number()
	run.BeforeBeat = r.Number()
	return run
}

// saveRuns writes runs, if the node exists and is still in the enrolment in which they were heard. Then it drops the oldest beyond
// MaxRuns.
func saveRuns(nodeID, enrolmentID string, runs []Run) []statement {
	var statements []statement
	for _, r := range runs {
		before := int64(0)
		if !r.Before.IsZero() {
			before = millis(r.Before)
		}
		statements = append(statements, do(`INSERT INTO runs(node_id, run_id, fingerprint, address, counter, first_at, last_at, before_at,
				first_beat, last_beat, before_beat)
			SELECT id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM nodes WHERE id = ? AND enrolment_id = ?
			ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, address = excluded.address, counter = excluded.counter,
				last_at = excluded.last_at, before_at = excluded.before_at, last_beat = excluded.last_beat,
				before_beat = excluded.before_beat`,
			r.ID, r.Fingerprint, r.Address, int64(r.Counter), millis(r.First), millis(r.Last), before,
			r.FirstBeat, r.LastBeat, r.BeforeBeat, nodeID, enrolmentID))
	}
	if len(statements) > 0 {
		statements = append(statements, do(`DELETE FROM runs WHERE node_id = ? AND run_id NOT IN
			(SELECT run_id FROM runs WHERE node_id = ? ORDER BY last_beat DESC, last_at DESC, first_at DESC, run_id LIMIT ?)`,
			nodeID, nodeID, int64(MaxRuns)))
	}
	return statements
}

// forgetRuns drops all runs of a node. From then on one machine is the node, and the runs of others must not count against it.
func forgetRuns(nodeID string) statement { return do("DELETE FROM runs WHERE node_id = ?", nodeID) }
