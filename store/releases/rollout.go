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
	Number    int64      `sql:"number"` // later ones have higher ones; the store gives it
	Channel   string     `sql:"channel"`
	Sequence  int64      `sql:"seq"` // the first number of the release on the channel in this rollout
	Digest    string     `sql:"digest"`
	Plan      string     `sql:"plan"` // JSON
	State     string     `sql:"state"`
	Why       string     `sql:"why"`
	Wave      int        `sql:"wave"`     // the one that is under way, from 0
	Forgiven  int        `sql:"forgiven"` // failed nodes of that wave that an operator has accepted
	WaveAt    time.Time  `sql:"wave_at"`  // when that wave began
	StillAt   *time.Time `sql:"still_at"` // since when all of its nodes are through
	CreatedAt time.Time  `sql:"created_at"`
	CreatedBy string     `sql:"created_by"`
	EndedAt   *time.Time `sql:"ended_at"`
}

// Node is a node in a rollout.
type Node struct {
	Rollout    int64      `sql:"rollout"`
	NodeID     string     `sql:"node_id"`
	Wave       int        `sql:"wave"`
	State      string     `sql:"state"`
	AdmittedAt time.Time  `sql:"admitted_at"`
	ChangedAt  time.Time  `sql:"changed_at"`
	TriedAt    *time.Time `sql:"tried_at"` // when it first said that the release is on trial; nil: it did not
	Crashes    int        `sql:"crashes"`  // of its agent, within wire.StartsWindow, when it committed
	MemoryKiB  int64      `sql:"memory"`   // that its agent took before, or else soon after; 0: not known
	Why        string     `sql:"why"`      // why it is not well with the release
}

var (
	rollouts     = engine.NewTable[Rollout]("rollouts", "", "")
	rolloutNodes = engine.NewTable[Node]("rollout_nodes", "", "")
)

// Rollouts returns the newest rollout of each channel.
func (r Records) Rollouts(ctx context.Context) ([]Rollout, error) {
	return rollouts.All(ctx, r.db, "WHERE number IN (SELECT max(number) FROM rollouts GROUP BY channel)")
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

// IsLeft reports whether nodes are to leave the release of a rollout: a person has aborted it, or the gateway has.
func (o Rollout) IsLeft() bool { return o.State == Aborted || o.State == TakenBack }

// ChangeRollout stores where a rollout stands. ErrConflict unless it is in the state and the wave of from, and open or done and the
// channel's newest.
//
// The rollout itself is stored with the last piece of its nodes. After a stop between two pieces it stands where it stood, and the next
// look comes to the same result.
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
			statements = append(statements, rolloutNodes.Put(n))
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

// RolloutNodes returns the nodes of a rollout.
func (r Records) RolloutNodes(ctx context.Context, number int64) ([]Node, error) {
	return rolloutNodes.All(ctx, r.db, "WHERE rollout = ?", number)
}
