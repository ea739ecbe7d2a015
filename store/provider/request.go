package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Request asks for machines.
type Request struct {
	ID         string     `sql:"id"`
	Account    string     `sql:"account"`
	Tenant     string     `sql:"tenant"`
	Owner      string     `sql:"owner"`
	State      string     `sql:"state"` // renting, done or failed; the records know renting alone
	Want       string     `sql:"want"`  // JSON
	Why        string     `sql:"why"`
	Count      int        `sql:"count"` // machines that are wanted
	CreatedAt  time.Time  `sql:"created_at"`
	DoneAt     *time.Time `sql:"done_at"`
	Allocation string     `sql:"allocation"` // that it is for; "": none
}

// PutRequest stores a new request, which is renting. ErrConflict if there is one with its id, or if there is no such account.
func (r Records) PutRequest(ctx context.Context, q Request, events ...store.Event) error {
	q.State = "renting"
	return r.db.Change(ctx, []engine.Statement{known(q.Account), requests.Insert(q, "")}, events...)
}

var requests = engine.NewTable[Request]("rental_requests", "", "")

// EndRequest says that nothing more is rented for a request. ErrConflict if there is none that is renting.
func (r Records) EndRequest(ctx context.Context, id, state, why string, at time.Time, events ...store.Event) error {
	open := engine.In("rental_requests", "id = ? AND state = 'renting'", id)
	return r.db.Change(ctx, open.Update("state = ?, why = ?, done_at = ?", state, why, engine.Millis(at)), events...)
}

// RequestQuery selects requests. A zero field does not restrict the result.
type RequestQuery struct {
	Live   bool // only those that are renting
	Tenant string
	ID     string
	Limit  int // 0: all
}

// Requests returns the requests that match a query, the newest first.
func (r Records) Requests(ctx context.Context, q RequestQuery) ([]Request, error) {
	var where engine.Where
	if q.Live {
		where.And("state = 'renting'") // in the words of the index
	}
	where.Given("tenant = ?", q.Tenant)
	where.Given("id = ?", q.ID)
	most := int64(q.Limit)
	if most == 0 {
		most = -1 // SQLite's word for all
	}
	return requests.All(ctx, r.db, where.SQL()+"ORDER BY number DESC LIMIT ?", append(where.Args, most)...)
}

// DropRequests deletes requests that were over before a time, with their rentals, at most most, and tells how many. A request stays while
// one of its rentals is live, or while the instance of one is not gone.
func (r Records) DropRequests(ctx context.Context, before time.Time, most int) (int, error) {
	const old = `SELECT id FROM rental_requests q WHERE state <> 'renting' AND done_at < ? AND NOT EXISTS(SELECT 1 FROM rentals x
		WHERE x.request = q.id AND (` + live + ` OR EXISTS(SELECT 1 FROM provider_instances i
			WHERE i.account = x.account AND i.id = x.instance AND i.gone_at IS NULL))) ORDER BY done_at, number LIMIT ?`
	at := engine.Millis(before)
	return r.db.Most(ctx, most,
		engine.Do("DELETE FROM rentals WHERE request IN ("+old+")", at, int64(most)),
		engine.Do("DELETE FROM rental_requests WHERE id IN ("+old+")", at, int64(most)))
}
