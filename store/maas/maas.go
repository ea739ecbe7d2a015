// Package maas keeps the records of MAAS: what its machines were in the last complete view, which node each is, and what is being done
// with them.
//
// The conditions of every write stand in its SQL. A write whose condition is not true is store.ErrConflict and changes nothing.
package maas

import (
	"context"
	"errors"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Records is the database, for MAAS. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Machine is a machine as the last view that had it showed it.
type Machine struct {
	SystemID string     `sql:"system_id"`
	NodeID   string     `sql:"node_id"`  // that it is; "": none
	KeptOut  bool       `sql:"kept_out"` // a person has taken it out of muster
	Status   int        `sql:"status"`   // MAAS's number
	Since    time.Time  `sql:"since"`
	GoneAt   *time.Time `sql:"gone_at"`  // when a view lacked it first; nil: it is there
	Ended    string     `sql:"ended"`    // JSON: how the last work ended; "": there was none
	Body     string     `sql:"body"`     // JSON: what MAAS showed
	Acquired string     `sql:"acquired"` // the agent name with which a work acquired it; "": none did, or it was released since
}

var (
	machines = engine.NewTable[Machine]("maas_machines", "", "")
	nodes    = engine.NewTable[Node]("nodes", "n", "JOIN liveness v ON v.node_id = n.id")
)

// Machines returns all machines, by system id.
func (r Records) Machines(ctx context.Context) ([]Machine, error) {
	return machines.All(ctx, r.db, "ORDER BY system_id")
}

// Machine returns one machine. ErrNotFound if there is none with this system id.
func (r Records) Machine(ctx context.Context, systemID string) (Machine, error) {
	return machines.First(ctx, r.db, "WHERE system_id = ?", systemID)
}

// Synced returns when the last complete view began; nil: there was none.
func (r Records) Synced(ctx context.Context) (*time.Time, error) {
	at, err := engine.First(ctx, r.db, (*engine.Row).Time, engine.Do("SELECT synced_at FROM maas_view"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &at, err
}

// Seen is a machine as a view shows it.
type Seen struct {
	SystemID string
	Status   int
	Body     string
}

// See stores what a complete view has changed: the machines that are new or look different, and those that it lacks. It writes store.Piece
// rows at a time, and the time of the view last, so that a view which was not written to its end is not taken for one.
func (r Records) See(ctx context.Context, at time.Time, seen []Seen, gone []string) error {
	if err := r.Saw(ctx, at, seen...); err != nil {
		return err
	}
	for len(gone) > 0 {
		some := gone[:min(len(gone), store.Piece)]
		gone = gone[len(some):]
		err := r.db.Change(ctx, []engine.Statement{engine.Do(`UPDATE maas_machines SET gone_at = coalesce(gone_at, ?)
			WHERE system_id IN (SELECT value FROM json_each(?))`, engine.Millis(at), engine.JSON(some))})
		if err != nil {
			return err
		}
	}
	return r.db.Change(ctx, []engine.Statement{engine.Do(`INSERT INTO maas_view(one, synced_at) VALUES (1, ?)
		ON CONFLICT DO UPDATE SET synced_at = max(synced_at, excluded.synced_at)`, engine.Millis(at))})
}

// Saw stores how machines look now, without a complete view. If nobody has a machine, its acquisition ends.
func (r Records) Saw(ctx context.Context, at time.Time, seen ...Seen) error {
	for len(seen) > 0 {
		some := seen[:min(len(seen), store.Piece)]
		seen = seen[len(some):]
		rows := make([][]any, len(some))
		for i, m := range some {
			rows[i] = []any{m.SystemID, m.Status, m.Body}
		}
		err := r.db.Change(ctx, []engine.Statement{engine.Do(`INSERT INTO maas_machines(system_id, status, since, body)
			SELECT value ->> 0, value ->> 1, ?, value ->> 2 FROM json_each(?) WHERE 1
			ON CONFLICT DO UPDATE SET since = CASE WHEN status = excluded.status THEN since ELSE excluded.since END,
				status = excluded.status, gone_at = NULL, body = excluded.body,
				acquired = CASE WHEN excluded.body ->> 'Owner' = '' THEN '' ELSE acquired END`, engine.Millis(at), engine.JSON(rows))})
		if err != nil {
			return err
		}
	}
	return nil
}

// Acquired records the agent name with which a work has acquired a machine; "": another has it by now.
func (r Records) Acquired(ctx context.Context, systemID, agentName string) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do("UPDATE maas_machines SET acquired = ? WHERE system_id = ?", agentName, systemID)})
}

// Forget deletes machines that views have lacked since before a time, that are no node, and that have no work.
func (r Records) Forget(ctx context.Context, before time.Time) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do(`DELETE FROM maas_machines WHERE gone_at < ? AND node_id = ''
		AND system_id NOT IN (SELECT system_id FROM maas_works)`, engine.Millis(before))})
}

// Link records which node a machine is. ErrConflict if it is another one, or if the node is another machine or retired.
func (r Records) Link(ctx context.Context, systemID, nodeID string) error {
	free := engine.In("maas_machines", `system_id = ? AND node_id IN ('', ?)
		AND EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL)`, systemID, nodeID, nodeID)
	return r.db.Change(ctx, free.Update("node_id = ?, kept_out = 0", nodeID))
}

// Unlink ends what Link has recorded. With keptOut, the machine gets no other node by itself. ErrConflict if the machine is another node.
func (r Records) Unlink(ctx context.Context, systemID, nodeID string, keptOut bool) error {
	linked := engine.In("maas_machines", "system_id = ? AND node_id IN ('', ?)", systemID, nodeID)
	return r.db.Change(ctx, linked.Update("node_id = '', kept_out = ?", engine.Flag(keptOut)))
}

// Node is what is known of the node that a machine is.
type Node struct {
	ID         string        `sql:"n.id"`
	Name       string        `sql:"n.name"`
	Tenant     string        `sql:"n.tenant"`
	State      string        `sql:"n.state"`
	Profile    string        `sql:"n.profile"` // "": none
	EnrolledAt *time.Time    `sql:"n.enrolled_at"`
	LastSeen   *time.Time    `sql:"v.last_seen"`
	Interval   time.Duration `sql:"v.interval_ms"` // between its heartbeats

	// Held: an allocation has a part of it, or had one that is not clean.
	Held bool `sql:"EXISTS(SELECT 1 FROM holds WHERE node_id = n.id AND freed_at IS NULL)"`
}

// Nodes returns the nodes of machines, also the retired ones, in no order.
func (r Records) Nodes(ctx context.Context) ([]Node, error) {
	return nodes.All(ctx, r.db, "WHERE n.id IN (SELECT node_id FROM maas_machines WHERE node_id <> '')")
}

// Node returns one node. ErrNotFound if there is none with this id.
func (r Records) Node(ctx context.Context, id string) (Node, error) {
	return nodes.First(ctx, r.db, "WHERE n.id = ?", id)
}

// Orphan returns the id of a node that was made for a machine and is not linked to it, because the gateway ended in between; "": there is
// none. No agent makes such a node, because no agent enrols as commissioned.
func (r Records) Orphan(ctx context.Context, provider, systemID string) (string, error) {
	id, err := engine.First(ctx, r.db, (*engine.Row).Text, engine.Do(`SELECT id FROM nodes WHERE provider = ?
		AND instance_id = ? AND instance_id <> '' AND state = 'commissioned' AND enrolment_id = '' AND retired_at IS NULL
		AND NOT EXISTS(SELECT 1 FROM maas_machines m WHERE m.node_id <> '' AND m.node_id = nodes.id) LIMIT 1`, provider, systemID))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return id, err
}
