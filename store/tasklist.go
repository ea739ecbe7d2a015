package store

import (
	"context"
	"fmt"
	"strconv"

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
	Limit  int    // see pageLimit
	Cursor string // from the page before
}

// Tasks returns one page, newest first, and the cursor of the next page ("": there is none). For a cursor that Tasks did not make, the
// error wraps ErrBadCursor.
func (s *Store) Tasks(ctx context.Context, q TaskQuery) (tasks []Task, next string, err error) {
	where, err := q.filter()
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(q.Limit)
	tasks, err = all(ctx, s, readTask, do("SELECT "+taskColumns+taskTables+where.sql()+" ORDER BY t.number DESC LIMIT ?",
		append(where.args, limit+1)...))
	if err != nil {
		return nil, "", err
	}
	if int64(len(tasks)) > limit { // one more was asked for: if it comes, there is a next page
		tasks = tasks[:limit]
		next = strconv.FormatInt(tasks[limit-1].Number, 10)
	}
	return tasks, next, nil
}

func (q TaskQuery) filter() (filter, error) {
	var where filter
	if q.Tenant != "" {
		where.and("n.tenant = ?", q.Tenant)
	}
	if q.Node != "" {
		where.and("t.node_id IN (SELECT ? UNION SELECT id FROM nodes WHERE name = ?)", q.Node, q.Node)
	}
	if q.Type != "" {
		where.and("t.type = ?", q.Type)
	}
	if q.Status != "" {
		where.and("t.status = ?", q.Status)
	}
	if q.Open {
		where.and("t.finished_at IS NULL")
	}
	if q.Lost {
		where.and("t.status = 'lost' AND t.retried_as = ''")
	}
	if q.Cursor != "" {
		number, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil {
			return where, fmt.Errorf("%w: start again without one", ErrBadCursor)
		}
		where.and("t.number < ?", number)
	}
	return where, nil
}

// WaitingTasks returns how many tasks each node is to get: those that are queued, and those that were delivered and not begun. With a
// node's id it looks at that node alone.
func (s *Store) WaitingTasks(ctx context.Context, nodeID string) (map[string]int, error) {
	st := do("SELECT node_id, count(*) FROM tasks WHERE finished_at IS NULL AND started_at IS NULL GROUP BY node_id")
	if nodeID != "" {
		st = do("SELECT node_id, count(*) FROM tasks WHERE finished_at IS NULL AND started_at IS NULL AND node_id = ? GROUP BY node_id",
			nodeID)
	}
	rows, err := s.query(ctx, st)
	if err != nil {
		return nil, err
	}
	return counts(rows)
}

// counts reads rows of a text and its number.
func counts(rows [][]any) (map[string]int, error) {
	by := map[string]int{}
	for _, values := range rows {
		r := row{Values: values}
		what := r.Text()
		by[what] = int(r.Number())
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return by, nil
}

// OpenTasks counts the tasks that have not ended, by status.
func (s *Store) OpenTasks(ctx context.Context) (map[string]int, error) {
	rows, err := s.query(ctx, do("SELECT status, count(*) FROM tasks WHERE finished_at IS NULL GROUP BY status"))
	if err != nil {
		return nil, err
	}
	return counts(rows)
}

// LostTasks returns lost tasks that may be queued anew without a person, and whose nodes are still in the same enrolment. engine.Piece of
// them at most.
func (s *Store) LostTasks(ctx context.Context) ([]Task, error) {
	return all(ctx, s, readTask, do("SELECT "+taskColumns+taskTables+`
		WHERE t.repeats > 0 AND `+taskRepeatable+` AND n.enrolment_id = t.enrolment_id AND n.retired_at IS NULL
		ORDER BY t.number LIMIT ?`, int64(engine.Piece)))
}
