package store

import (
	"context"

	"muster/store/engine"
)

// TaskQuery selects tasks. A zero field does not restrict the result.
type TaskQuery struct {
	Tenant string
	Node   string // id, or name of nodes on record
	Type   string
	Status string
	Open   bool   // only those that have not ended
	Lost   bool   // only those that are lost, and in whose place none was queued
	Limit  int    // see engine.PageLimit
	Cursor string // from the previous page
}

// Tasks returns one page, newest first, and the cursor of the next page ("": there is none). For a cursor that Tasks did not make, the
// error wraps ErrBadCursor.
func (s *Store) Tasks(ctx context.Context, q TaskQuery) (page []Task, next string, err error) {
	var where engine.Where
	where.Given("n.tenant = ?", q.Tenant)
	where.Given("t.node_id IN (SELECT ? UNION SELECT id FROM nodes WHERE name = ?)", q.Node)
	where.Given("t.type = ?", q.Type)
	where.Given("t.status = ?", q.Status)
	if q.Open {
		where.And("t.finished_at IS NULL")
	}
	if q.Lost {
		where.And("t.status = 'lost' AND t.retried_as = ''")
	}
	return taskPages.Page(ctx, s.db, where, q.Limit, q.Cursor)
}

var taskPages = engine.Pages[Task]{Query: tasksWhere, Read: readTask, Column: "t.number", Number: func(t Task) int64 { return t.Number }}

// WaitingTasks returns how many tasks each node is to get: those that are queued, and those that were delivered and not begun. With a
// node's id it looks at that node alone.
func (s *Store) WaitingTasks(ctx context.Context, nodeID string) (map[string]int, error) {
	return s.counts(ctx, waitingTasks(nodeID))
}

// waitingTasks has the node's id in the query only if there is one: SQLite finds the tasks of one node by the index then. Each node that
// gets no task is counted so, again and again.
func waitingTasks(nodeID string) statement {
	var where engine.Where
	where.And("finished_at IS NULL AND started_at IS NULL")
	where.Given("node_id = ?", nodeID)
	return do("SELECT node_id, count(*) FROM tasks"+where.SQL()+"GROUP BY node_id", where.Args...)
}

// counts runs a query for rows of a text and its number.
func (s *Store) counts(ctx context.Context, st statement) (map[string]int, error) {
	by := map[string]int{}
	_, err := all(ctx, s, func(r *row) string {
		what := r.Text()
		by[what] = int(r.Number())
		return what
	}, st)
	return by, err
}

// OpenTasks counts the tasks that have not ended, by status.
func (s *Store) OpenTasks(ctx context.Context) (map[string]int, error) {
	return s.counts(ctx, do("SELECT status, count(*) FROM tasks WHERE finished_at IS NULL GROUP BY status"))
}

// LostTasks returns lost tasks that may be queued anew without a person, and whose nodes are still in the same enrolment. engine.Piece of
// them at most.
func (s *Store) LostTasks(ctx context.Context) ([]Task, error) {
	return all(ctx, s, readTask, tasksWhere(" WHERE t.repeats > 0 AND "+taskRepeatable+`
		AND n.enrolment_id = t.enrolment_id AND n.retired_at IS NULL ORDER BY t.number LIMIT ?`, int64(engine.Piece)))
}
