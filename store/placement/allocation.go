package placement

import (
	"context"
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

// Allocation is a number of units that belong to somebody until a time, or for which somebody waits.
type Allocation struct {
	Number    int64         `sql:"a.number"` // in the order of asking; the database gives it
	ID        string        `sql:"id"`
	Owner     string        `sql:"owner"`
	Tenant    string        `sql:"tenant"`
	SKU       string        `sql:"sku"`
	Wish      string        `sql:"wish"`     // JSON
	User      string        `sql:"user"`     // JSON; "": none
	Priority  int           `sql:"priority"` // the higher is served first
	Note      string        `sql:"note"`
	TTL       time.Duration `sql:"ttl_ms"`
	State     string        `sql:"state"`
	CreatedAt time.Time     `sql:"created_at"`
	ClaimedAt *time.Time    `sql:"a.claimed_at"`
	EndsAt    *time.Time    `sql:"a.ends_at"`  // nil: it waits
	EndedAt   *time.Time    `sql:"a.ended_at"` // when it was released or expired; its units may be freed later
	EndedWhy  string        `sql:"a.ended_why"`
	Warned    bool          `sql:"a.warned"` // its owner was told that it ends
	Holds     []Hold        // all that it ever had, by node and unit
}

var allocationTable = engine.NewTable[Allocation]("allocations", "a", "")

func readAllocation(r *engine.Row) Allocation {
	a := allocationTable.Read(r)
	a.Holds = readHolds(r)
	return a
}

// allocations is a query for allocations a.
func allocations(rest string, args ...any) engine.Statement {
	return engine.Do("SELECT "+allocationTable.Columns+", (SELECT json_group_array("+holdArray+`) FROM holds h WHERE h.allocation = a.id)
		FROM allocations a `+rest, args...)
}

func (r Records) allocations(ctx context.Context, rest string, args ...any) ([]Allocation, error) {
	return engine.All(ctx, r.db, readAllocation, allocations(rest, args...))
}

// Add stores an allocation that waits. ErrConflict if there is one with its id.
func (r Records) Add(ctx context.Context, a Allocation, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{a.insert()}, events...)
}

func (a *Allocation) insert() engine.Statement {
	one := *a
	one.State = Waiting
	return allocationTable.Insert(one, "")
}

// Allocation returns the allocation with an id. ErrNotFound if there is none.
func (r Records) Allocation(ctx context.Context, id string) (Allocation, error) {
	return engine.First(ctx, r.db, readAllocation, allocations("WHERE a.id = ?", id))
}

// AllocationQuery selects allocations. A zero field does not restrict the result.
type AllocationQuery struct {
	Owner  string
	Tenant string
	State  string
	NodeID string // that has a part of it; with All or State also one that had
	All    bool   // released ones too; not looked at with State
	Limit  int    // 0: 100; 1000 at most
	Cursor string // from the previous page
}

// Allocations returns one page of the allocations that match a query, the newest first, with the cursor of the next page ("": there is
// none) and how many there are in all. For a cursor that Allocations did not make, the error wraps store.ErrBadCursor.
func (r Records) Allocations(ctx context.Context, q AllocationQuery) (page []Allocation, next string, total int, err error) {
	where := q.where()
	count, err := engine.First(ctx, r.db, (*engine.Row).Number, engine.Do("SELECT count(*) FROM allocations a"+where.SQL(), where.Args...))
	if err != nil {
		return nil, "", 0, err
	}
	page, next, err = pages.Page(ctx, r.db, where, q.Limit, q.Cursor)
	return page, next, int(count), err
}

var pages = engine.Pages[Allocation]{Query: allocations, Read: readAllocation, Column: "a.number",
	Number: func(a Allocation) int64 { return a.Number }}

func (q AllocationQuery) where() (where engine.Where) {
	where.Given("a.owner = ?", q.Owner)
	where.Given("a.tenant = ?", q.Tenant)
	where.Given("a.id IN (SELECT allocation FROM holds WHERE node_id = ?)", q.NodeID)
	switch { // in the words of the indexes
	case q.State == Released:
		where.And("a.state = 'released'")
	case q.State != "" || !q.All:
		where.And("a.state <> 'released'")
		where.Given("a.state = ?", q.State)
	}
	return where
}

// Queue returns the allocations that wait, in the order in which they are served.
func (r Records) Queue(ctx context.Context) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'waiting' ORDER BY a.priority DESC, a.number")
}

// Live returns all allocations that are not released, the oldest first.
func (r Records) Live(ctx context.Context) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state <> 'released' ORDER BY a.number")
}

// Ending returns the allocations whose end has come, the earliest first.
func (r Records) Ending(ctx context.Context, now time.Time) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'allocated' AND a.ends_at <= ? ORDER BY a.ends_at, a.number", engine.Millis(now))
}

// Warnable returns the allocations that end within a time and whose owners were not told yet.
func (r Records) Warnable(ctx context.Context, now time.Time, before time.Duration) ([]Allocation, error) {
	return r.allocations(ctx, "WHERE a.state = 'allocated' AND a.ends_at > ? AND a.ends_at <= ? AND a.warned = 0 "+
		"ORDER BY a.ends_at, a.number", engine.Millis(now), engine.Millis(now.Add(before)))
}

// Extend moves the end of an allocation. Its owner is told of the new one. ErrConflict if it is not allocated, or does not end at from.
func (r Records) Extend(ctx context.Context, id string, from, to time.Time, events ...store.Event) error {
	same := engine.In("allocations", "id = ? AND state = 'allocated' AND ends_at = ?", id, engine.Millis(from))
	return r.db.Change(ctx, same.Update("ends_at = ?, warned = 0", engine.Millis(to)), events...)
}

// Warned says that the owner was told when the allocation ends. ErrConflict if it is not allocated or ends at another time, or if that was
// said before.
func (r Records) Warned(ctx context.Context, id string, end time.Time, events ...store.Event) error {
	unwarned := engine.In("allocations", "id = ? AND state = 'allocated' AND ends_at = ? AND warned = 0", id, engine.Millis(end))
	return r.db.Change(ctx, unwarned.Update("warned = 1"), events...)
}

// AllocationTask is a task that an allocation asked for.
type AllocationTask struct {
	Allocation string `sql:"allocation"`
	Task       string `sql:"task"` // id
	NodeID     string `sql:"node_id"`
	Kind       string `sql:"kind"`
}

// AddTask notes a task. A second call with it changes nothing.
func (r Records) AddTask(ctx context.Context, t AllocationTask, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		allocationTasks.Insert(t, "ON CONFLICT DO NOTHING"),
	}, events...)
}

// Tasks returns the tasks of an allocation.
func (r Records) Tasks(ctx context.Context, allocation string) ([]AllocationTask, error) {
	return allocationTasks.All(ctx, r.db, "WHERE allocation = ? ORDER BY task", allocation)
}

var allocationTasks = engine.NewTable[AllocationTask]("allocation_tasks", "", "")

// Prune deletes released allocations that ended before a time, with what is kept of them, at most limit, and tells how many.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) (int, error) {
	const old = "SELECT id FROM allocations WHERE state = 'released' AND ended_at < ? ORDER BY ended_at, number LIMIT ?"
	at := engine.Millis(before)
	return r.db.Most(ctx, limit,
		engine.Do("DELETE FROM holds WHERE allocation IN ("+old+")", at, int64(limit)),
		engine.Do("DELETE FROM allocation_tasks WHERE allocation IN ("+old+")", at, int64(limit)),
		engine.Do("DELETE FROM allocations WHERE id IN ("+old+")", at, int64(limit)))
}
