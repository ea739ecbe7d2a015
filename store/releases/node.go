package releases

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Update is what a node last said of an update.
type Update struct {
	NodeID  string
	Channel string
	Digest  string // of the release
	About   int64  // number of the pointer that named it
	Phase   string
	Code    string
	At      time.Time
	Detail  string
	Log     string
}

// Pin keeps a node from following its channel.
type Pin struct {
	NodeID   string
	Digest   string // of its own release; "": it stays where it is
	Channel  string // of its own pointer
	Sequence int64
	At       time.Time
	By       string
}

// Known is what the database says of a node that matters to updates.
type Known struct {
	ID       string
	Name     string
	Tenant   string
	Agent    string // JSON, as its heartbeat said
	LastSeen *time.Time
	Interval time.Duration
}

// Known are the nodes that are enrolled.
func (r Records) Known(ctx context.Context) ([]Known, error) {
	const all = `SELECT n.id, n.name, n.tenant, v.agent, v.last_seen, v.interval_ms FROM nodes n JOIN liveness v ON v.node_id = n.id
		WHERE n.retired_at IS NULL AND n.enrolment_id <> ''`
	return engine.All(ctx, r.db, func(r *engine.Row) Known {
		k := Known{ID: r.Text(), Name: r.Text(), Tenant: r.Text(), Agent: r.Text()}
		k.LastSeen = r.Maybe()
		k.Interval = time.Duration(r.Number()) * time.Millisecond
		return k
	}, engine.Do(all))
}

// Retired are those of the nodes that are retired.
func (r Records) Retired(ctx context.Context, ids []string) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text,
		engine.Do("SELECT id FROM nodes WHERE retired_at IS NOT NULL AND id IN (SELECT value FROM json_each(?))", engine.JSON(ids)))
}

// Labels are the values that operators and credentials gave to two labels, of one node ("": of all nodes), by node. A node without both is
// not there. What the node itself says does not count.
func (r Records) Labels(ctx context.Context, first, second, nodeID string) (map[string][2]string, error) {
	// With min(), SQLite takes the value from the row that has the minimum: the operator's label (origin 0) hides the credential's (1). The
	// + keeps SQLite from reading all labels of all nodes in the order of the primary key.
	const both = `SELECT node_id, key, value, min(origin) FROM labels WHERE key IN (?, ?) AND origin < 2 AND (? = '' OR node_id = ?)
		GROUP BY +node_id, key`
	rows, err := r.db.Query(ctx, engine.Do(both, first, second, nodeID, nodeID))
	if err != nil {
		return nil, err
	}
	labels := map[string][2]string{}
	for _, columns := range rows {
		row := engine.Row{Values: columns}
		id := row.Text()
		pair := labels[id]
		if row.Text() == first {
			pair[0] = row.Text()
		} else {
			pair[1] = row.Text()
		}
		if row.Err != nil {
			return nil, row.Err
		}
		labels[id] = pair
	}
	return labels, nil
}

func readUpdate(r *engine.Row) Update {
	u := Update{NodeID: r.Text(), Channel: r.Text(), Digest: r.Text(), About: r.Number(), Phase: r.Text(), Code: r.Text()}
	u.At = r.Time()
	u.Detail = r.Text()
	u.Log = r.Text()
	return u
}

// Updates are what all nodes last said, without their logs.
func (r Records) Updates(ctx context.Context) ([]Update, error) {
	const all = "SELECT node_id, channel, digest, about, phase, code, at, detail, '' FROM node_updates"
	return engine.All(ctx, r.db, readUpdate, engine.Do(all))
}

// Update is what a node last said, or ErrNotFound.
func (r Records) Update(ctx context.Context, nodeID string) (Update, error) {
	const one = "SELECT node_id, channel, digest, about, phase, code, at, detail, log FROM node_updates WHERE node_id = ?"
	return engine.First(ctx, r.db, store.ErrNotFound, readUpdate, engine.Do(one, nodeID))
}

// Note stores what a node said, and where it stands in a rollout (nil: it is in none).
func (r Records) Note(ctx context.Context, u Update, in *Node, events ...store.Event) error {
	statements := []engine.Statement{
		engine.Do(`INSERT INTO node_updates(node_id, channel, digest, about, phase, code, at, detail, log) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET channel = excluded.channel, digest = excluded.digest, about = excluded.about, phase = excluded.phase,
				code = excluded.code, at = excluded.at, detail = excluded.detail, log = excluded.log`,
			u.NodeID, u.Channel, u.Digest, u.About, u.Phase, u.Code, engine.Millis(u.At), u.Detail, u.Log),
	}
	if in != nil {
		statements = append(statements, putNode(*in))
	}
	return r.db.Change(ctx, statements, events...)
}

// Pins are all pins.
func (r Records) Pins(ctx context.Context) ([]Pin, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) Pin {
		return Pin{NodeID: r.Text(), Digest: r.Text(), Channel: r.Text(), Sequence: r.Number(), At: r.Time(), By: r.Text()}
	}, engine.Do("SELECT node_id, digest, channel, seq, at, pinned_by FROM pins ORDER BY at, node_id"))
}

// Pin pins nodes. With a pointer they get a release of their own, and the pointer takes a number of the channel; last is the highest one
// before. ErrConflict as for Point. After a stop between two pieces some of them are pinned.
func (r Records) Pin(ctx context.Context, pins []Pin, p *Pointer, last int64, events ...store.Event) error {
	write := func(piece []Pin, first, _ bool) []engine.Statement {
		var statements []engine.Statement
		if p != nil && first {
			statements = append(statements, take(*p, last)...)
		}
		for _, n := range piece {
			statements = append(statements, engine.Do(`INSERT INTO pins(node_id, digest, channel, seq, at, pinned_by)
				VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET digest = excluded.digest, channel = excluded.channel, seq = excluded.seq, at = excluded.at,
					pinned_by = excluded.pinned_by`, n.NodeID, n.Digest, n.Channel, n.Sequence, engine.Millis(n.At), n.By))
		}
		return statements
	}
	return inPieces(ctx, r.db, pins, func(n Pin) string { return n.NodeID }, write, events)
}

// take takes a number of a channel for a pointer that the channel does not point to itself.
func take(p Pointer, last int64) []engine.Statement {
	return []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM releases WHERE digest = ?)", p.Digest),
		free(p.Channel, last, p.Sequence),
		engine.Guard("EXISTS(SELECT 1 FROM channels WHERE channel = ?)", p.Channel),
		engine.Do("UPDATE channels SET last = ? WHERE channel = ?", p.Sequence, p.Channel),
		insertPointer(p),
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
