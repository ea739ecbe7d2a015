package placement

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
)

// States of an Allocation.
const (
	Waiting   = "waiting"
	Allocated = "allocated"
	Releasing = "releasing" // it has ended, and not all of its units are freed
	Released  = "released"
)

// Allocation is units that belong to somebody until a time, or somebody who waits for them.
type Allocation struct {
	Number    int64 // in the order of asking; the database gives it
	ID        string
	Owner     string
	Tenant    string
	SKU       string
	Wish      string // JSON
	User      string // JSON; "": none
	Priority  int    // the higher is served first
	Note      string
	TTL       time.Duration
	State     string
	CreatedAt time.Time
	ClaimedAt *time.Time
	EndsAt    *time.Time // nil: it waits
	EndedAt   *time.Time // when it was released or expired; its units may be freed later
	EndedWhy  string
	Warned    bool   // its owner was told that it ends
	Holds     []Hold // all that it ever had, by node and unit
}

const allocationColumns = `a.number, a.id, a.owner, a.tenant, a.sku, a.wish, a.user, a.priority, a.note, a.ttl_ms, a.state, a.created_at,
	a.claimed_at, a.ends_at, a.ended_at, a.ended_why, a.warned,
	(SELECT json_group_array(` + holdArray + `) FROM holds h WHERE h.allocation = a.id) FROM allocations a`

func readAllocation(r *engine.Row) Allocation {
	a := Allocation{Number: r.Number(), ID: r.Text(), Owner: r.Text(), Tenant: r.Text(), SKU: r.Text(), Wish: r.Text(), User: r.Text(),
		Priority: int(r.Number()), Note: r.Text(), TTL: time.Duration(r.Number()) * time.Millisecond, State: r.Text(), CreatedAt: r.Time(),
		ClaimedAt: r.Maybe(), EndsAt: r.Maybe(), EndedAt: r.Maybe(), EndedWhy: r.Text(), Warned: r.Flag()}
	a.Holds = readHolds(r)
	return a
}

func (r Records) allocations(ctx context.Context, rest string, args ...any) ([]Allocation, error) {
	return engine.All(ctx, r.db, readAllocation, engine.Do("SELECT "+allocationColumns+" "+rest, args...))
}

// Add stores an allocation that waits. ErrConflict if there is one with its id.
func (r Records) Add(ctx context.Context, a Allocation, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{a.insert()}, events...)
}

func (a *Allocation) insert() engine.Statement {
	return engine.Do(`INSERT INTO allocations(id, owner, tenant, sku, wish, user, priority, note, ttl_ms, state, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?)`, a.ID, a.Owner, a.Tenant, a.SKU, a.Wish, a.User, int64(a.Priority), a.Note,
		a.TTL.Milliseconds(), engine.Millis(a.CreatedAt))
}

// Allocation is the one with an id. ErrNotFound if there is none.
func (r Records) Allocation(ctx context.Context, id string) (Allocation, error) {
	return engine.First(ctx, r.db, store.ErrNotFound, readAllocation, engine.Do("SELECT "+allocationColumns+" WHERE a.id = ?", id))
}

// AllocationQuery selects allocations. A zero field does not restrict the result.
type AllocationQuery struct {
	Owner  string
	Tenant string
	State  string
	NodeID string // that has a part of it; with All or State also one that had
	All    bool   // released ones too; not looked at with State
	Limit  int    // 0: 100; 1000 at most
	Cursor string // from the page before
}

// Allocations are one page of those that a query selects, the newest first, with the cursor of the next page ("": there is none) and how
// many there are in all. For a cursor that Allocations did not make, the error wraps store.ErrBadCursor.
func (r Records) Allocations(ctx context.Context, q AllocationQuery) (page []Allocation, next string, total int, err error) {
	where, args := q.where()
	count, err := engine.First(ctx, r.db, store.ErrNotFound, (*engine.Row).Number,
		engine.Do("SELECT count(*) FROM allocations a"+where, args...))
	if err != nil {
		return nil, "", 0, err
	}
	if q.Cursor != "" {
		before, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return nil, "", 0, fmt.Errorf("%w: start again without one", store.ErrBadCursor)
		}
		where += " AND a.number < ?"
		args = append(args, before)
	}
	limit := min(q.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
	page, err = r.allocations(ctx, where+" ORDER BY a.number DESC LIMIT ?", append(args, int64(limit)+1)...)
	if err != nil {
		return nil, "", 0, err
	}
	if len(page) > limit { // one more was asked for: if it comes, there is a next page
		page = page[:limit]
		next = strconv.FormatInt(page[limit-1].Number, 10)
	}
	return page, next, int(count), nil
}

func (q AllocationQuery) where() (string, []any) {
	conditions, args := []string{"1"}, []any{}
	and := func(condition, value string) {
		if value != "" {
			conditions = append(conditions, condition)
			args = append(args, value)
		}
	}
	and("a.owner = ?", q.Owner)
	and("a.tenant = ?", q.Tenant)
	and("a.id IN (SELECT allocation FROM holds WHERE node_id = ?)", q.NodeID)
	switch { // in the words of the indexes
	case q.State == Released:
		conditions = append(conditions, "a.state = 'released'")
	case q.State != "" || !q.All:
		conditions = append(conditions, "a.state <> 'released'")
		and("a.state = ?", q.State)
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Queue are the allocations that wait, in the order in which they are served.
func (r Records) Queue(ctx context.Context) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'waiting' ORDER BY a.priority DESC, a.number")
}

// Live are all allocations that are not released, the oldest first.
func (r Records) Live(ctx context.Context) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state <> 'released' ORDER BY a.number")
}

// Ending are the allocations whose end has come, the earliest first.
func (r Records) Ending(ctx context.Context, now time.Time) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'allocated' AND a.ends_at <= ? ORDER BY a.ends_at, a.number", engine.Millis(now))
}

// Warnable are the allocations that end within a time, and whose owners do not know that yet.
func (r Records) Warnable(ctx context.Context, now time.Time, before time.Duration) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'allocated' AND a.ends_at > ? AND a.ends_at <= ? AND a.warned = 0 "+
		"ORDER BY a.ends_at, a.number", engine.Millis(now), engine.Millis(now.Add(before)))
}

// Extend moves the end of an allocation. Its owner is told of the new one. ErrConflict if it is not allocated, or does not end at from.
func (r Records) Extend(ctx context.Context, id string, from, to time.Time, events ...store.Event) error {
	const which = "id = ? AND state = 'allocated' AND ends_at = ?"
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM allocations WHERE "+which+")", id, engine.Millis(from)),
		engine.Do("UPDATE allocations SET ends_at = ?, warned = 0 WHERE "+which, engine.Millis(to), id, engine.Millis(from)),
	}, events...)
}

// Warned says that the owner was told when it ends. ErrConflict if it is not allocated or ends at another time, or if that was said before.
func (r Records) Warned(ctx context.Context, id string, end time.Time, events ...store.Event) error {
	const which = "id = ? AND state = 'allocated' AND ends_at = ? AND warned = 0"
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM allocations WHERE "+which+")", id, engine.Millis(end)),
		engine.Do("UPDATE allocations SET warned = 1 WHERE "+which, id, engine.Millis(end)),
	}, events...)
}

// AllocationTask is a task that an allocation asked for.
type AllocationTask struct {
	Allocation string
	Task       string // id
	NodeID     string
	Kind       string
}

// AddTask notes a task. The same again changes nothing.
func (r Records) AddTask(ctx context.Context, t AllocationTask, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("INSERT INTO allocation_tasks(allocation, task, node_id, kind) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			t.Allocation, t.Task, t.NodeID, t.Kind),
	}, events...)
}

// Tasks are those of an allocation.
func (r Records) Tasks(ctx context.Context, allocation string) ([]AllocationTask, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) AllocationTask {
		return AllocationTask{Allocation: r.Text(), Task: r.Text(), NodeID: r.Text(), Kind: r.Text()}
	}, engine.Do("SELECT allocation, task, node_id, kind FROM allocation_tasks WHERE allocation = ? ORDER BY task", allocation))
}

// Prune deletes released allocations that ended before a time, with what is kept of them, at most limit, and tells how many.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	const old = "SELECT id FROM allocations WHERE state = 'released' AND ended_at < ? ORDER BY ended_at, number LIMIT ?"
	at := engine.Millis(before)
	return r.db.Most(ctx, limit,
		engine.Do("DELETE FROM holds WHERE allocation IN ("+old+")", at, int64(limit)),
		engine.Do("DELETE FROM allocation_tasks WHERE allocation IN ("+old+")", at, int64(limit)),
		engine.Do("DELETE FROM allocations WHERE id IN ("+old+")", at, int64(limit)))
}
