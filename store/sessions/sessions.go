// Package sessions keeps what there was of sessions with nodes: who opened one, with which node, from where, for how long, and how much
// went over it. What went over it is not here.
//
// A session lives in the memory of the gateway. A row without an end is of one that is alive, or of one whose gateway was killed.
package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Session is one row.
type Session struct {
	Number    int64 // the store gives it
	ID        string
	NodeID    string
	NodeName  string // as it is now
	Tenant    string // of the node
	Type      string
	About     map[string]string // what may be shown of its params
	Account   string            // id of who opened it; "": on the gateway's socket
	CreatedBy string            // as store.Actor has it
	Address   string
	KeyID     string
	Idle      time.Duration
	Limit     time.Duration
	CreatedAt time.Time
	OpenedAt  *time.Time
	EndedAt   *time.Time
	End       string // why
	ExitCode  *int64
	In, Out   int64 // bytes to the node and from it
	Uncounted bool  // they were lost with the gateway that counted them
	Recorded  bool
}

// lost stands in the columns of bytes that nobody knows.
const lost = -1

// Records is the database, for sessions. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

const columns = `s.number, s.id, s.node_id, n.name, n.tenant, s.type, s.about, s.account, s.created_by, s.address, s.key_id, s.idle_ms,
	s.limit_ms, s.created_at, s.opened_at, s.ended_at, s.end_reason, s.exit_code, s.bytes_in, s.bytes_out, s.recorded`

const tables = " FROM node_sessions s JOIN nodes n ON n.id = s.node_id"

func read(r *engine.Row) Session {
	s := Session{Number: r.Number(), ID: r.Text(), NodeID: r.Text(), NodeName: r.Text(), Tenant: r.Text(), Type: r.Text()}
	r.Document(&s.About)
	s.Account = r.Text()
	s.CreatedBy = r.Text()
	s.Address = r.Text()
	s.KeyID = r.Text()
	s.Idle = time.Duration(r.Number()) * time.Millisecond
	s.Limit = time.Duration(r.Number()) * time.Millisecond
	s.CreatedAt = r.Time()
	s.OpenedAt = r.Maybe()
	s.EndedAt = r.Maybe()
	s.End = r.Text()
	s.ExitCode = r.Integer()
	s.In = r.Number()
	s.Out = r.Number()
	s.Recorded = r.Flag()
	if s.In == lost {
		s.In, s.Out, s.Uncounted = 0, 0, true
	}
	return s
}

// Add stores a new session with its events. store.ErrConflict: there is one with this id.
func (r Records) Add(ctx context.Context, s Session, events ...store.Event) error {
	about, err := json.Marshal(s.About)
	if err != nil {
		return err
	}
	add := engine.Do(`INSERT INTO node_sessions(id, node_id, type, about, account, created_by, address, key_id, idle_ms, limit_ms, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, s.ID, s.NodeID, s.Type, string(about), s.Account, s.CreatedBy, s.Address, s.KeyID,
		s.Idle.Milliseconds(), s.Limit.Milliseconds(), engine.Millis(s.CreatedAt))
	return r.db.Change(ctx, []engine.Statement{add}, events...)
}

// Record stores that a session has begun, and is recorded, for the case that its gateway does not live to store its end.
func (r Records) Record(ctx context.Context, id string, begun time.Time) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do("UPDATE node_sessions SET opened_at = ?, recorded = 1 WHERE id = ? AND ended_at IS NULL",
		engine.Millis(begun), id)})
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
	recorded := int64(0)
	if s.Recorded {
		recorded = 1
	}
	in, out := s.In, s.Out
	if s.Uncounted {
		in, out = lost, lost
	}
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM node_sessions WHERE id = ? AND ended_at IS NULL)", s.ID),
		engine.Do(`UPDATE node_sessions SET opened_at = ?, ended_at = ?, end_reason = ?, exit_code = ?, bytes_in = ?, bytes_out = ?,
			recorded = ? WHERE id = ? AND ended_at IS NULL`, engine.MaybeMillis(s.OpenedAt),
			engine.Millis(*s.EndedAt), s.End, exit, in, out, recorded, s.ID),
	}, events...)
}

// Get finds a session of a tenant ("": of any). store.ErrNotFound: there is none.
func (r Records) Get(ctx context.Context, tenant, id string) (Session, error) {
	found, err := engine.All(ctx, r.db, read, engine.Do("SELECT "+columns+tables+" WHERE s.id = ? AND (? = '' OR n.tenant = ?)", id,
		tenant, tenant))
	if err != nil {
		return Session{}, err
	}
	if len(found) == 0 {
		return Session{}, store.ErrNotFound
	}
	return found[0], nil
}

// Open are the sessions without an end.
func (r Records) Open(ctx context.Context) ([]Session, error) {
	return engine.All(ctx, r.db, read, engine.Do("SELECT "+columns+tables+" WHERE s.ended_at IS NULL ORDER BY s.number"))
}

// Query selects sessions. A zero field does not restrict the result.
type Query struct {
	Tenant string
	Node   string // id, or name of nodes on record
	Type   string
	Ended  *bool
	Limit  int
	Cursor string // from the page before
}

const (
	usualPage = 100
	mostPage  = 1000
)

// List returns one page, newest first, and the cursor of the next page ("": there is none). For a cursor that List did not make, the error
// wraps store.ErrBadCursor.
func (r Records) List(ctx context.Context, q Query) (page []Session, next string, err error) {
	before := int64(1) << 62
	if q.Cursor != "" {
		if before, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("%w: start again without one", store.ErrBadCursor)
		}
	}
	limit := q.Limit
	if limit <= 0 {
		limit = usualPage
	}
	limit = min(limit, mostPage)
	text := "SELECT " + columns + tables + " WHERE s.number < ?"
	args := []any{before}
	and := func(condition string, values ...any) {
		text += " AND " + condition
		args = append(args, values...)
	}
	if q.Tenant != "" {
		and("n.tenant = ?", q.Tenant)
	}
	if q.Node != "" {
		and("s.node_id IN (SELECT ? UNION SELECT id FROM nodes WHERE name = ?)", q.Node, q.Node)
	}
	if q.Type != "" {
		and("s.type = ?", q.Type)
	}
	if q.Ended != nil && *q.Ended {
		and("s.ended_at IS NOT NULL")
	}
	if q.Ended != nil && !*q.Ended {
		and("s.ended_at IS NULL")
	}
	page, err = engine.All(ctx, r.db, read, engine.Do(text+" ORDER BY s.number DESC LIMIT ?", append(args, int64(limit+1))...))
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit { // one more was asked for: if it comes, there is a next page
		page = page[:limit]
		next = strconv.FormatInt(page[limit-1].Number, 10)
	}
	return page, next, nil
}

// Prune deletes sessions that ended before a time, the oldest first, at most limit, and tells how many.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do(`DELETE FROM node_sessions WHERE number IN
		(SELECT number FROM node_sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at, number LIMIT ?)`,
		engine.Millis(before), int64(limit)))
}
