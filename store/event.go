package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Event is one row of the append-only log. It says who did what, to which node, from where, and how it ended.
type Event struct {
	ID       int64             `sql:"events.id"` // the store gives it; later events have higher ones
	At       time.Time         `sql:"at"`
	Kind     string            `sql:"kind"`  // such as "node.enrolled"
	Actor    string            `sql:"actor"` // see Actor.Name
	NodeID   string            `sql:"node_id"`
	NodeName string            `sql:"node_name"`
	Tenant   string            `sql:"tenant"`
	Address  string            `sql:"address"` // where the request came from
	Outcome  string            `sql:"outcome"` // OutcomeOK, OutcomeNone or the code of a refusal
	Detail   map[string]string `sql:"detail"`
	Security bool              `sql:"security"` // shown by `muster audit`
}

// Outcomes of events, beside the codes of refusals.
const (
	OutcomeOK   = "ok"
	OutcomeNone = "none" // the request was allowed, but there was nothing to give
)

// EventQuery selects events. A zero field does not restrict the result.
type EventQuery struct {
	Tenant    string
	Node      string // id, or name of nodes on record
	Actor     string // whole, as account:ci, or without its kind
	Kind      string
	Security  bool // security events only
	Since     time.Time
	AfterID   int64 // only events after this one
	BeforeID  int64 // only events before this one
	Limit     int   // see engine.PageLimit
	Ascending bool  // oldest first
}

// AddEvents appends events in one batch.
func (s *Store) AddEvents(ctx context.Context, events ...Event) error {
	return s.change(ctx, nil, events)
}

func (s *Store) change(ctx context.Context, statements []statement, events []Event) error {
	return s.Records().Change(ctx, statements, events...)
}

var eventLog = engine.NewTable[Event]("events", "", "")

// Events returns the selected events, newest first unless Ascending.
func (s *Store) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	var where engine.Where
	where.Given("tenant = ? AND tenant <> ''", q.Tenant)
	// Rows of nodes are never deleted, so a name always finds them.
	where.Given(`id IN (SELECT e.id FROM events e WHERE e.node_id <> '' AND e.node_id IN (SELECT ? UNION SELECT n.id FROM nodes n
		WHERE n.name = ?))`, q.Node)
	where.Given("actor = ? OR substr(actor, instr(actor, ':') + 1) = ?", q.Actor)
	where.Given("kind = ?", q.Kind)
	if q.Security {
		where.And("security = 1")
	}
	if !q.Since.IsZero() {
		// The first condition decides. The second one, by the index events_at, keeps SQLite from reading the whole log.
		where.And("at >= ? AND id >= (SELECT min(+id) FROM events WHERE at >= ?)", millis(q.Since), millis(q.Since))
	}
	if q.AfterID != 0 {
		where.And("id > ?", q.AfterID)
	}
	if q.BeforeID != 0 {
		where.And("id < ?", q.BeforeID)
	}
	order := "DESC"
	if q.Ascending {
		order = "ASC"
	}
	return eventLog.All(ctx, s.db, where.SQL()+"ORDER BY id "+order+" LIMIT ?", append(where.Args, int64(engine.PageLimit(q.Limit)))...)
}
