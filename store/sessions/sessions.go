// Package sessions keeps records of sessions with nodes: who opened one, with which node, from where, for how long, and how many bytes went
// over it. The bytes themselves are not here.
//
// A session lives in the memory of the gateway. A row without an end belongs to a session that is alive, or whose gateway was killed.
package sessions

import (
	"context"
	"errors"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Session is one row.
type Session struct {
	Number    int64             `sql:"s.number"` // the store gives it
	ID        string            `sql:"id"`
	NodeID    string            `sql:"node_id"`
	NodeName  string            `sql:"n.name"`   // as it is now
	Tenant    string            `sql:"n.tenant"` // of the node
	Type      string            `sql:"type"`
	About     map[string]string `sql:"about"`      // what may be shown of its params
	Account   string            `sql:"account"`    // id of who opened it; "": on the gateway's socket
	CreatedBy string            `sql:"created_by"` // as store.Actor has it
	Address   string            `sql:"address"`
	KeyID     string            `sql:"key_id"`
	Idle      time.Duration     `sql:"idle_ms"`
	Limit     time.Duration     `sql:"limit_ms"`
	CreatedAt time.Time         `sql:"created_at"`
	OpenedAt  *time.Time        `sql:"s.opened_at"`
	EndedAt   *time.Time        `sql:"s.ended_at"`
	End       string            `sql:"s.end_reason"` // why
	ExitCode  *int64            `sql:"s.exit_code"`
	In, Out   int64             // bytes to the node and from it
	Uncounted bool              // they were lost with the gateway that counted them
	Recorded  bool              `sql:"s.recorded"`
}

// lost stands in the columns of bytes that nobody knows.
const lost = -1

// Records is the database, for sessions. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

var table = engine.NewTable[Session]("node_sessions", "s", "")

func read(r *engine.Row) Session {
	s := table.Read(r)
	s.In = r.Number()
	s.Out = r.Number()
	if s.In == lost {
		s.In, s.Out, s.Uncounted = 0, 0, true
	}
	return s
}

// query is one for sessions s with their nodes n.
func query(rest string, args ...any) engine.Statement {
	return engine.Do("SELECT "+table.Columns+", s.bytes_in, s.bytes_out FROM node_sessions s JOIN nodes n ON n.id = s.node_id"+rest,
		args...)
}

// Add stores a new session with its events. store.ErrConflict: there is one with this id.
func (r Records) Add(ctx context.Context, s Session, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{table.Insert(s, "")}, events...)
}

// Record stores that a session has begun and is recorded, in case its gateway dies before it stores the end.
func (r Records) Record(ctx context.Context, id string, begun time.Time) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("UPDATE node_sessions SET opened_at = ?, recorded = 1 WHERE id = ? AND ended_at IS NULL", engine.Millis(begun), id)})
}

// End stores how a session ended, once, with its events. store.ErrConflict: it has ended before, and nothing is stored.
func (r Records) End(ctx context.Context, s Session, events ...store.Event) error {
	if s.EndedAt == nil {
		return errors.New("a session without an end")
	}
	var exit any
	if s.ExitCode != nil {
		exit = *s.ExitCode
	}
	in, out := s.In, s.Out
	if s.Uncounted {
		in, out = lost, lost
	}
	open := engine.In("node_sessions", "id = ? AND ended_at IS NULL", s.ID)
	return r.db.Change(ctx, open.Update(
		"opened_at = ?, ended_at = ?, end_reason = ?, exit_code = ?, bytes_in = ?, bytes_out = ?, recorded = ?",
		engine.MaybeMillis(s.OpenedAt), engine.Millis(*s.EndedAt), s.End, exit, in, out, engine.Flag(s.Recorded)), events...)
}

// Get finds a session of a tenant ("": of any). store.ErrNotFound: there is none.
func (r Records) Get(ctx context.Context, tenant, id string) (Session, error) {
	return engine.First(ctx, r.db, read, query(" WHERE s.id = ? AND (? = '' OR n.tenant = ?)", id, tenant, tenant))
}

// Open returns the sessions without an end.
func (r Records) Open(ctx context.Context) ([]Session, error) {
	return engine.All(ctx, r.db, read, query(" WHERE s.ended_at IS NULL ORDER BY s.number"))
}

// Query selects sessions. A zero field does not restrict the result.
type Query struct {
	Tenant string
	Node   string // id, or name of nodes on record
	Type   string
	Ended  *bool
	Limit  int
	Cursor string // from the previous page
}

// List returns one page, newest first, and the cursor of the next page ("": there is none). For a cursor that List did not make, the error
// wraps store.ErrBadCursor.
func (r Records) List(ctx context.Context, q Query) (page []Session, next string, err error) {
	var where engine.Where
	where.Given("n.tenant = ?", q.Tenant)
	where.Given("s.node_id IN (SELECT ? UNION SELECT id FROM nodes WHERE name = ?)", q.Node)
	where.Given("s.type = ?", q.Type)
	if q.Ended != nil && *q.Ended {
		where.And("s.ended_at IS NOT NULL")
	}
	if q.Ended != nil && !*q.Ended {
		where.And("s.ended_at IS NULL")
	}
	return pages.Page(ctx, r.db, where, q.Limit, q.Cursor)
}

var pages = engine.Pages[Session]{Query: query, Read: read, Column: "s.number", Number: func(s Session) int64 { return s.Number }}

// Prune deletes sessions that ended before a time, the oldest first, at most limit, and returns how many.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do(`DELETE FROM node_sessions WHERE number IN
		(SELECT number FROM node_sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at, number LIMIT ?)`,
		engine.Millis(before), int64(limit)))
}
