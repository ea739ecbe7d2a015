package releases

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Update is what a node last said of an update.
type Update struct {
	NodeID  string    `sql:"node_id"`
	Channel string    `sql:"channel"`
	Digest  string    `sql:"digest"` // of the release
	About   int64     `sql:"about"`  // number of the pointer that named it
	Phase   string    `sql:"phase"`
	Code    string    `sql:"code"`
	At      time.Time `sql:"at"`
	Detail  string    `sql:"detail"`
	Log     string    `sql:"log"`
}

// Pin keeps a node from following its channel.
type Pin struct {
	NodeID   string    `sql:"node_id"`
	Digest   string    `sql:"digest"`  // of its own release; "": it stays where it is
	Channel  string    `sql:"channel"` // of its own pointer
	Sequence int64     `sql:"seq"`
	At       time.Time `sql:"at"`
	By       string    `sql:"pinned_by"`
}

// Known is what the database says of a node that matters to updates.
type Known struct {
	ID       string        `sql:"n.id"`
	Name     string        `sql:"n.name"`
	Tenant   string        `sql:"n.tenant"`
	Agent    string        `sql:"v.agent"` // JSON, as its heartbeat said
	LastSeen *time.Time    `sql:"v.last_seen"`
	Interval time.Duration `sql:"v.interval_ms"`
}

// Known returns what the database says of the enrolled nodes.
func (r Records) Known(ctx context.Context) ([]Known, error) {
	return known.All(ctx, r.db, "WHERE n.retired_at IS NULL AND n.enrolment_id <> ''")
}

// Retired returns those of the nodes that are retired.
func (r Records) Retired(ctx context.Context, ids []string) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text,
		engine.Do("SELECT id FROM nodes WHERE retired_at IS NOT NULL AND id IN (SELECT value FROM json_each(?))", engine.JSON(ids)))
}

// Labels returns the values that operators and credentials gave to two labels, of one node ("": of all nodes), by node. A node with neither
// label is not there. Labels that the node itself proposes do not count.
func (r Records) Labels(ctx context.Context, first, second, nodeID string) (map[string][2]string, error) {
	// With min(), SQLite takes the value from the row that has the minimum: the operator's label (origin 0) hides the credential's (1). The
	// + keeps SQLite from reading all labels of all nodes in the order of the primary key.
	const both = `SELECT node_id, key, value, min(origin) FROM labels WHERE key IN (?, ?) AND origin < 2 AND (? = '' OR node_id = ?)
		GROUP BY +node_id, key`
	labels := map[string][2]string{}
	_, err := engine.All(ctx, r.db, func(row *engine.Row) bool {
		id, key, value := row.Text(), row.Text(), row.Text()
		pair := labels[id]
		if key == first {
			pair[0] = value
		} else {
			pair[1] = value
		}
		labels[id] = pair
		return true
	}, engine.Do(both, first, second, nodeID, nodeID))
	return labels, err
}

var (
	known   = engine.NewTable[Known]("nodes", "n", "JOIN liveness v ON v.node_id = n.id")
	updates = engine.NewTable[Update]("node_updates", "", "")
	pins    = engine.NewTable[Pin]("pins", "", "")
)

// Updates returns what all nodes last said, without their logs.
func (r Records) Updates(ctx context.Context) ([]Update, error) {
	const all = "SELECT node_id, channel, digest, about, phase, code, at, detail, '' FROM node_updates"
	return engine.All(ctx, r.db, updates.Read, engine.Do(all))
}

// Update returns what a node last said, or ErrNotFound.
func (r Records) Update(ctx context.Context, nodeID string) (Update, error) {
	return updates.First(ctx, r.db, "WHERE node_id = ?", nodeID)
}

// Note stores what a node said, and where it stands in a rollout (nil: it is in none).
func (r Records) Note(ctx context.Context, u Update, in *Node, events ...store.Event) error {
	statements := []engine.Statement{updates.Put(u)}
	if in != nil {
		statements = append(statements, rolloutNodes.Put(*in))
	}
	return r.db.Change(ctx, statements, events...)
}

// Pins returns all pins.
func (r Records) Pins(ctx context.Context) ([]Pin, error) {
	return pins.All(ctx, r.db, "ORDER BY at, node_id")
}

// Pin pins nodes. With a pointer they get a release of their own, and the pointer takes a number of the channel; last is the highest number
// before it. ErrConflict as for Point. After a stop between two pieces some of them are pinned.
func (r Records) Pin(ctx context.Context, of []Pin, p *Pointer, last int64, events ...store.Event) error {
	write := func(piece []Pin, first, _ bool) []engine.Statement {
		var statements []engine.Statement
		if p != nil && first {
			statements = append(statements, take(*p, last)...)
		}
		for _, n := range piece {
			statements = append(statements, pins.Put(n))
		}
		return statements
	}
	return inPieces(ctx, r.db, of, func(n Pin) string { return n.NodeID }, write, events)
}

// take takes a number of a channel for a pointer that the channel does not point to itself.
func take(p Pointer, last int64) []engine.Statement {
	return []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM releases WHERE digest = ?)", p.Digest),
		free(p.Channel, last, p.Sequence),
		engine.Guard("EXISTS(SELECT 1 FROM channels WHERE channel = ?)", p.Channel),
		engine.Do("UPDATE channels SET last = ? WHERE channel = ?", p.Sequence, p.Channel),
		pointers.Insert(p, ""),
	}
}

// Unpin lets nodes follow their channel again. Nodes without a pin change nothing.
func (r Records) Unpin(ctx context.Context, ids []string, events ...store.Event) error {
	write := func(piece []string, _, _ bool) []engine.Statement {
		return []engine.Statement{
			engine.Do("DELETE FROM pins WHERE node_id IN (SELECT value FROM json_each(?))", engine.JSON(piece)),
		}
	}
	return inPieces(ctx, r.db, ids, func(id string) string { return id }, write, events)
}
