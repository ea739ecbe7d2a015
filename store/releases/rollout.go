package releases

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// States of a rollout.
const (
	Running = "running"
	Paused  = "paused"  // an operator holds it
	Halted  = "halted"  // too many nodes failed
	Aborted = "aborted" // an operator ended it
	// TakenBack: too many nodes failed, and the gateway took the channel back by itself.
	TakenBack = "taken_back"
	Done      = "done" // it has reached all nodes

	replaced = "replaced" // a later one took its place while it was open
)

// Rollout is how a channel's release comes to its nodes.
type Rollout struct {
	Number    int64 // later ones have higher ones; the store gives it
	Channel   string
	Sequence  int64 // the first number of the release on the channel in this rollout
	Digest    string
	Plan      string // JSON
	State     string
	Why       string
	Wave      int        // the one that is under way, from 0
	Forgiven  int        // failed nodes of that wave that an operator has accepted
	WaveAt    time.Time  // when that wave began
	StillAt   *time.Time // since when all of its nodes are through
	CreatedAt time.Time
	CreatedBy string
	EndedAt   *time.Time
}

// Node is a node in a rollout.
type Node struct {
	Rollout    int64
	NodeID     string
	Wave       int
	State      string
	AdmittedAt time.Time
	ChangedAt  time.Time
	TriedAt    *time.Time // when it first said that the release is on trial; nil: it did not
	Crashes    int        // of its agent, within wire.StartsWindow, when it committed
	MemoryKiB  int64      // that its agent took before, or else soon after; 0: not known
	Why        string     // why it is not well with the release
}

const rolloutColumns = `number, channel, seq, digest, plan, state, why, wave, forgiven, wave_at, still_at, created_at, created_by, ended_at`

func readRollout(r *engine.Row) Rollout {
	o := Rollout{Number: r.Number(), Channel: r.Text(), Sequence: r.Number(), Digest: r.Text(), Plan: r.Text(), State: r.Text(),
		Why: r.Text()}
	o.Wave = int(r.Number())
	o.Forgiven = int(r.Number())
	o.WaveAt = r.Time()
	o.StillAt = r.Maybe()
	o.CreatedAt = r.Time()
	o.CreatedBy = r.Text()
	o.EndedAt = r.Maybe()
	return o
}

// Rollouts gives the newest rollout of each channel.
func (r Records) Rollouts(ctx context.Context) ([]Rollout, error) {
	const newest = "SELECT " + rolloutColumns + " FROM rollouts WHERE number IN (SELECT max(number) FROM rollouts GROUP BY channel)"
	return engine.All(ctx, r.db, readRollout, engine.Do(newest))
}

// begin ends the open rollout of a channel, and stores the next one.
func begin(o Rollout) []engine.Statement {
	at := engine.Millis(o.CreatedAt)
	return []engine.Statement{
		engine.Do("UPDATE rollouts SET state = ?, why = 'a later one took its place', ended_at = ? WHERE channel = ? AND ended_at IS NULL",
			replaced, at, o.Channel),
		engine.Do(`INSERT INTO rollouts(channel, seq, digest, plan, state, why, wave_at, created_at, created_by)
			VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?)`, o.Channel, o.Sequence, o.Digest, o.Plan, o.Why, at, at, o.CreatedBy),
	}
}

// IsLeft tells whether the release of a rollout is to be left: a person has aborted it, or the gateway has.
func (o Rollout) IsLeft() bool { return o.State == Aborted || o.State == TakenBack }

// ChangeRollout stores where a rollout stands. ErrConflict unless it is in the state and the wave of from, and open or done and the
// channel's newest.
//
// The rollout itself is stored with the last piece of its nodes. After a stop between two pieces it stands where it stood, and whoever
// looks at it again comes to the same.
func (r Records) ChangeRollout(ctx context.Context, o, from Rollout, nodes []Node, events ...store.Event) error {
	write := func(piece []Node, _, last bool) []engine.Statement {
		statements := []engine.Statement{
			engine.Guard("EXISTS(SELECT 1 FROM rollouts WHERE number = ? AND state = ? AND wave = ? AND (ended_at IS NULL OR state = ?))",
				o.Number, from.State, int64(from.Wave), Done),
			engine.Guard("? = (SELECT max(number) FROM rollouts WHERE channel = ?)", o.Number, o.Channel),
		}
		if last {
			statements = append(statements, o.update()...)
		}
		for _, n := range piece {
			statements = append(statements, putNode(n))
		}
		return statements
	}
	return inPieces(ctx, r.db, nodes, func(n Node) string { return n.NodeID }, write, events)
}

func (o Rollout) update() []engine.Statement {
	statements := []engine.Statement{engine.Do(`UPDATE rollouts SET state = ?, why = ?, wave = ?, forgiven = ?, wave_at = ?, still_at = ?,
		ended_at = ? WHERE number = ?`, o.State, o.Why, int64(o.Wave), int64(o.Forgiven), engine.Millis(o.WaveAt),
		engine.MaybeMillis(o.StillAt), engine.MaybeMillis(o.EndedAt), o.Number)}
	if o.State == Done {
		statements = append(statements, engine.Do("UPDATE channels SET finished = 1 WHERE channel = ? AND digest = ?", o.Channel, o.Digest))
	}
	return statements
}

// RolloutNodes are the nodes of a rollout.
func (r Records) RolloutNodes(ctx context.Context, number int64) ([]Node, error) {
	const of = `SELECT rollout, node_id, wave, state, admitted_at, changed_at, tried_at, crashes, memory, why
		FROM rollout_nodes WHERE rollout = ?`
	return engine.All(ctx, r.db, func(r *engine.Row) Node {
		n := Node{Rollout: r.Number(), NodeID: r.Text()}
		n.Wave = int(r.Number())
		n.State = r.Text()
		n.AdmittedAt = r.Time()
		n.ChangedAt = r.Time()
		n.TriedAt = r.Maybe()
		n.Crashes = int(r.Number())
		n.MemoryKiB = r.Number()
		n.Why = r.Text()
		return n
	}, engine.Do(of, number))
}

func putNode(n Node) engine.Statement {
	return engine.Do(`INSERT INTO rollout_nodes(rollout, node_id, wave, state, admitted_at, changed_at, tried_at, crashes, memory, why)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET wave = excluded.wave, state = excluded.state, changed_at = excluded.changed_at,
			admitted_at = excluded.admitted_at, tried_at = excluded.tried_at, crashes = excluded.crashes, memory = excluded.memory,
			why = excluded.why`,
		n.Rollout, n.NodeID, int64(n.Wave), n.State, engine.Millis(n.AdmittedAt), engine.Millis(n.ChangedAt), engine.MaybeMillis(n.TriedAt),
		int64(n.Crashes), n.MemoryKiB, n.Why)
}
