package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Kinds of events that the store itself adds, because its statements alone know which tasks they are about.
const (
	taskCanceled    = "task.canceled"
	taskCancelAsked = "task.cancel_asked"
	taskExpired     = "task.expired"
	taskLost        = "task.lost"
	taskFinished    = "task.finished"
)

// byGateway is the actor of what the gateway does by itself.
const byGateway = "gateway"

// EndedTask names a task that the gateway itself ended, and its node.
type EndedTask struct{ ID, NodeID string }

// ending ends open tasks without a result, each with an event.
type ending struct {
	at     time.Time
	kind   string // of the events
	status string
	why    string // for a person
	final  bool   // none of them is queued anew
	most   int64  // at most so many; -1: all
	where  string // selects them by t, and by v, which is the node's liveness
	args   []any
}

const endingTables = " FROM tasks t JOIN liveness v ON v.node_id = t.node_id WHERE t.finished_at IS NULL AND "

// numbers selects the tasks, the oldest first. The plus sign keeps SQLite from reading all tasks in that order: it sorts the few that an
// index finds.
func (e ending) numbers() string {
	return "SELECT t.number" + endingTables + e.where + " ORDER BY +t.number LIMIT ?"
}

// with gives parameters that come before those of numbers.
func (e ending) with(args ...any) []any { return append(append(args, e.args...), e.most) }

func (e ending) statements() []statement {
	return []statement{
		do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
			SELECT ?, ?, ?, n.id, n.name, n.tenant, '', ?, json_object('task', t.id, 'type', t.type, 'was', t.status, 'why', ?), ?`+taskTables+
			" WHERE t.number IN ("+e.numbers()+") ORDER BY t.number",
			e.with(millis(e.at), e.kind, byGateway, e.status, e.why, flag(e.kind == taskCanceled))...),
		do("DELETE FROM task_pieces WHERE file <> '' AND task IN (SELECT id FROM tasks WHERE number IN ("+e.numbers()+"))", e.with()...),
		do("UPDATE tasks SET status = ?, finished_at = ?, error = ?, repeats = CASE WHEN ? THEN 0 ELSE repeats END "+
			"WHERE number IN ("+e.numbers()+")", e.with(e.status, millis(e.at), e.why, flag(e.final))...),
	}
}

// endTasks ends all open tasks of a node whose identity ends. What was claimed is lost: nobody knows whether it was done.
func endTasks(nodeID string, at time.Time, why string) []statement {
	lost := ending{at: at, kind: taskLost, status: TaskLost, why: why, final: true, most: -1,
		where: "t.node_id = ? AND t.status <> 'queued'", args: []any{nodeID}}
	canceled := ending{at: at, kind: taskCanceled, status: TaskCanceled, why: why, final: true, most: -1,
		where: "t.node_id = ? AND t.status = 'queued'", args: []any{nodeID}}
	return append(lost.statements(), canceled.statements()...)
}

// loseClaims ends the claims of a node's certificates but one. Tasks that wait go to that one.
func loseClaims(nodeID, kept string, at time.Time, why string) []statement {
	return ending{at: at, kind: taskLost, status: TaskLost, why: why, most: -1,
		where: "t.node_id = ? AND t.status <> 'queued' AND t.claim_fingerprint <> ?", args: []any{nodeID, kept}}.statements()
}

// loseAll ends every open task after a restore: each may have been done after the backup, also one that was queued then, and undone
// again. So none is queued anew without a person, also none that was lost before. Each of the two writes is one piece.
func loseAll(at time.Time) [][]statement {
	const repeated = "SELECT number FROM tasks WHERE status = 'lost' AND repeats > 0 LIMIT ?"
	return [][]statement{
		ending{at: at, kind: taskLost, status: TaskLost, why: "the gateway was restored from a backup", most: engine.Piece,
			where: "1"}.statements(),
		{do("UPDATE tasks SET repeats = 0 WHERE number IN ("+repeated+")", int64(engine.Piece))},
	}
}

// TaskSweep says which open tasks are overdue.
type TaskSweep struct {
	At time.Time // what was not begun, and expires now or has expired, is expired
	// Silent is a time. Claims from before it are lost if their nodes were last heard before it. Tasks that were begun before it and are
	// not in Heard are lost too: their node has forgotten them. Zero: no task is lost.
	Silent     time.Time
	Heard      []string  // tasks of which their nodes have said something since Silent: they are running still
	Begun      time.Time // what was begun before it is lost
	Delivered  time.Time // what was delivered Deliveries times, the last time before it, and was not begun, has failed
	Deliveries int
}

func (q TaskSweep) endings() []ending {
	all := []ending{
		{kind: taskExpired, status: TaskExpired, why: "its time was over before the node began",
			where: "t.started_at IS NULL AND t.expires_at <= ?", args: []any{millis(q.At)}},
		{kind: taskFinished, status: TaskFailed, why: "the node never began it: see its notices",
			where: "t.claimed_at IS NOT NULL AND t.status = 'dispatched' AND t.deliveries >= ? AND t.delivered_at < ?",
			args:  []any{int64(q.Deliveries), millis(q.Delivered)}},
		{kind: taskCanceled, status: TaskCanceled, why: "its node was given a later task on the same account or workload before it",
			where: "t.status = 'queued' AND t.started_at IS NULL AND t.subject <> '' AND " + taskOvertaken},
		{kind: taskLost, status: TaskLost, why: "it began so long ago that nobody knows of it any more",
			where: "t.claimed_at IS NOT NULL AND t.started_at < ?", args: []any{millis(q.Begun)}},
	}
	if q.Silent.IsZero() {
		return all
	}
	return append(all,
		ending{kind: taskLost, status: TaskLost, why: "its node has fallen silent",
			where: "t.claimed_at < ? AND COALESCE(v.last_seen, 0) < ?", args: []any{millis(q.Silent), millis(q.Silent)}},
		ending{kind: taskLost, status: TaskLost, why: "its node says nothing of it any more",
			where: "t.claimed_at < ? AND t.status = 'running' AND t.started_at < ? AND t.id NOT IN (SELECT value FROM json_each(?))",
			args:  []any{millis(q.Silent), millis(q.Silent), engine.JSON(q.Heard)}})
}

// SweepTasks ends the tasks that are overdue, engine.Piece of each kind at most, and returns them. It writes only if there are some. It
// chooses them first, and asks afterwards which of them it has ended: so it knows them even if the answer to the write is lost.
func (s *Store) SweepTasks(ctx context.Context, q TaskSweep) ([]EndedTask, error) {
	var ended []EndedTask
	for _, e := range q.endings() {
		e.at = q.At
		e.most = engine.Piece
		found, err := all(ctx, s, (*row).Number, do(e.numbers(), e.with()...))
		if err != nil {
			return ended, err
		}
		if len(found) == 0 {
			continue
		}
		chosen := engine.JSON(found)
		e.where = "t.number IN (SELECT value FROM json_each(?)) AND " + e.where
		e.args = append([]any{chosen}, e.args...)
		if err := s.change(ctx, e.statements(), nil); err != nil {
			return ended, err
		}
		of, err := all(ctx, s, func(r *row) EndedTask { return EndedTask{r.Text(), r.Text()} },
			do("SELECT id, node_id FROM tasks WHERE number IN (SELECT value FROM json_each(?)) AND finished_at = ? AND status = ?",
				chosen, millis(e.at), e.status))
		if err != nil {
			return ended, err
		}
		ended = append(ended, of...)
	}
	return ended, nil
}

// AskCancel ends a task that waits. If the node has the task already, it notes that the task is to end: the node hears that with its next
// message. ErrConflict if the task has ended. A second call changes nothing.
func (s *Store) AskCancel(ctx context.Context, id string, at time.Time, by Actor) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM tasks WHERE id = ? AND finished_at IS NULL)", id),
		do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
			SELECT ?, CASE t.status WHEN 'queued' THEN ? ELSE ? END, ?, n.id, n.name, n.tenant, ?, ?,
				json_object('task', t.id, 'type', t.type, 'was', t.status), 1`+taskTables+" WHERE t.id = ? AND t.cancel_asked_at IS NULL",
			millis(at), taskCanceled, taskCancelAsked, by.Name, by.Address, OutcomeOK, id),
		do(`UPDATE tasks SET cancel_asked_at = ?, cancel_asked_by = ?, finished_at = CASE status WHEN 'queued' THEN ? END,
				status = CASE status WHEN 'queued' THEN 'canceled' ELSE status END
			WHERE id = ? AND finished_at IS NULL AND cancel_asked_at IS NULL`, millis(at), by.Name, millis(at), id),
	}, nil)
}
