package store

import (
	"context"
	"strings"
	"time"
)

// Event is one row of the append-only log. It says who did what, to which node, from where, and how it ended.
type Event struct {
	ID       int64 // the store gives it; later events have higher ones
	At       time.Time
	Kind     string // such as "node.enrolled"
	Actor    string // see Actor.Name
	NodeID   string
	NodeName string
	Tenant   string
	Address  string // where the request came from
	Outcome  string // OutcomeOK, OutcomeNone or the code of a refusal
	Detail   map[string]string
	Security bool // shown by `muster audit`
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
	Limit     int   // see pageLimit
	Ascending bool  // oldest first
}

// AddEvents appends events in one batch.
func (s *Store) AddEvents(ctx context.Context, events ...Event) error {
	return s.change(ctx, nil, events)
}

func (s *Store) change(ctx context.Context, statements []statement, events []Event) error {
	return s.Records().Change(ctx, statements, events...)
}

func insertEvent(e Event) statement {
	return do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		millis(e.At), e.Kind, e.Actor, e.NodeID, e.NodeName, e.Tenant, e.Address, e.Outcome, object(e.Detail), flag(e.Security))
}

// Events returns the selected events, newest first unless Ascending.
func (s *Store) Events(ctx context.Context, q EventQuery) ([]Event, error) {
	return all(ctx, s, readEvent, q.statement())
}

func (q EventQuery) statement() statement {
	var where filter
	if q.Tenant != "" {
		where.and("tenant = ? AND tenant <> ''", q.Tenant)
	}
	if q.Node != "" { // rows of nodes are never deleted, so a name always finds them
		where.and(`id IN (SELECT e.id FROM events e WHERE e.node_id <> '' AND e.node_id IN (SELECT ? UNION SELECT n.id FROM nodes n
			WHERE n.name = ?))`,
			q.Node, q.Node)
	}
	if q.Actor != "" {
		where.and("(actor = ? OR substr(actor, instr(actor, ':') + 1) = ?)", q.Actor, q.Actor)
	}
	if q.Kind != "" {
		where.and("kind = ?", q.Kind)
	}
	if q.Security {
		where.and("security = 1")
	}
	if !q.Since.IsZero() {
		// The first condition decides. The second one, by the index events_at, keeps SQLite from reading the whole log.
		where.and("at >= ? AND id >= (SELECT min(+id) FROM events WHERE at >= ?)", millis(q.Since), millis(q.Since))
	}
	if q.AfterID != 0 {
		where.and("id > ?", q.AfterID)
	}
	if q.BeforeID != 0 {
		where.and("id < ?", q.BeforeID)
	}
	order := "DESC"
	if q.Ascending {
		order = "ASC"
	}
	return do("SELECT id, at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security FROM events"+
		where.sql()+" ORDER BY id "+order+" LIMIT ?", append(where.args, pageLimit(q.Limit))...)
}

func readEvent(r *row) Event {
	e := Event{ID: r.Number(), At: r.Time(), Kind: r.Text(), Actor: r.Text(), NodeID: r.Text(), NodeName: r.Text(), Tenant: r.Text(),
		Address: r.Text(), Outcome: r.Text()}
	r.Document(&e.Detail)
	e.Security = r.Flag()
	return e
}

// pageLimit is how many rows one query returns: 100 if nothing was asked for, and 1000 at most.
func pageLimit(asked int) int64 {
	const usual, most = 100, 1000
	if asked <= 0 {
		return usual
	}
	return int64(min(asked, most))
}

// filter collects the conditions of a query. All of them must be true.
type filter struct {
	conditions []string
	args       []any
}

func (f *filter) and(condition string, args ...any) {
	f.conditions = append(f.conditions, condition)
	f.args = append(f.args, args...)
}

// sql returns the WHERE clause, "" when there is no condition.
func (f *filter) sql() string {
	if len(f.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conditions, " AND ")
}
