package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Request asks for machines.
type Request struct {
	ID         string
	Account    string
	Tenant     string
	Owner      string
	State      string // renting, done or failed; the records know renting alone
	Want       string // JSON
	Why        string
	Count      int // machines that are wanted
	CreatedAt  time.Time
	DoneAt     *time.Time
	Allocation string // that it is for; "": none
}

// PutRequest stores a new request, which is renting. ErrConflict if there is one with its id, or if there is no such account.
func (r Records) PutRequest(ctx context.Context, q Request, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		known(q.Account),
		engine.Do(`INSERT INTO rental_requests(id, account, tenant, owner, state, want, why, count, created_at, allocation)
			VALUES (?, ?, ?, ?, 'renting', ?, ?, ?, ?, ?)`, q.ID, q.Account, q.Tenant, q.Owner, q.Want, q.Why, int64(q.Count),
			engine.Millis(q.CreatedAt), q.Allocation),
	}, events...)
}

// EndRequest says that nothing more is rented for a request. ErrConflict if there is none that is renting.
func (r Records) EndRequest(ctx context.Context, id, state, why string, at time.Time, events ...store.Event) error {
	const which = "id = ? AND state = 'renting'"
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM rental_requests WHERE "+which+")", id),
		engine.Do("UPDATE rental_requests SET state = ?, why = ?, done_at = ? WHERE "+which, state, why, engine.Millis(at), id),
	}, events...)
}

// RequestQuery selects requests. A zero field does not restrict the result.
type RequestQuery struct {
	Live   bool // only those that are renting
	Tenant string
	ID     string
	Limit  int // 0: all
}

// Requests are those that a query selects, the newest first.
func (r Records) Requests(ctx context.Context, q RequestQuery) ([]Request, error) {
	var f filter
	if q.Live {
		f.text = " AND state = 'renting'" // in the words of the index
	}
	f.and("tenant = ?", q.Tenant)
	f.and("id = ?", q.ID)
	most := int64(q.Limit)
	if most == 0 {
		most = -1 // SQLite's word for all
	}
	return engine.All(ctx, r.db, func(r *engine.Row) Request {
		return Request{ID: r.Text(), Account: r.Text(), Tenant: r.Text(), Owner: r.Text(), State: r.Text(), Want: r.Text(), Why: r.Text(),
			Count: int(r.Number()), CreatedAt: r.Time(), DoneAt: r.Maybe(), Allocation: r.Text()}
	}, engine.Do("SELECT id, account, tenant, owner, state, want, why, count, created_at, done_at, allocation FROM rental_requests WHERE 1"+
		f.text+" ORDER BY number DESC LIMIT ?", append(f.args, most)...))
}

// DropRequests deletes requests that were over before a time, with their rentals, at most most, and tells how many. One with a rental that
// is live, or whose instance is not gone, stays.
func (r Records) DropRequests(ctx context.Context, before time.Time, most int) (int, error) {
	const old = `SELECT id FROM rental_requests q WHERE state <> 'renting' AND done_at < ? AND NOT EXISTS(SELECT 1 FROM rentals x
		WHERE x.request = q.id AND (` + live + ` OR EXISTS(SELECT 1 FROM provider_instances i
			WHERE i.account = x.account AND i.id = x.instance AND i.gone_at IS NULL))) ORDER BY done_at, number LIMIT ?`
	at := engine.Millis(before)
	return r.db.Most(ctx, most,
		engine.Do("DELETE FROM rentals WHERE request IN ("+old+")", at, int64(most)),
		engine.Do("DELETE FROM rental_requests WHERE id IN ("+old+")", at, int64(most)))
}
