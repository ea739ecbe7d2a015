package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Task is a piece of work for one node. What decides anything is in the payload, which is signed: the node reads nothing else. The
// other fields repeat it for queries, or say what became of the task.
type Task struct {
	Number       int64  `sql:"t.number"` // later tasks have higher ones; the store gives it
	ID           string `sql:"id"`
	NodeID       string `sql:"node_id"`
	EnrolmentID  string `sql:"enrolment_id"` // the one enrolment of the node that it is for
	Type         string `sql:"type"`
	Payload      []byte `sql:"payload"` // JSON, as it was signed
	Signature    []byte `sql:"signature"`
	SigningKeyID string `sql:"signing_key_id"`
	Subject      TaskSubject
	Drained      bool      `sql:"drained"` // is also given to a node that takes no new work
	Repeats      int       `sql:"repeats"` // how often it may be queued anew when it is lost
	CreatedBy    string    `sql:"created_by"`
	CreatedAt    time.Time `sql:"created_at"`
	ExpiresAt    time.Time `sql:"expires_at"`   // nobody starts it at this time or later
	RetryOf      string    `sql:"retry_of"`     // the lost task that this one repeats
	RetriedAs    string    `sql:"t.retried_as"` // the task that repeats this lost one

	Status           string     `sql:"t.status"`            // one of the Task constants
	Deliveries       int        `sql:"t.deliveries"`        // how often it was given to its claimer
	ClaimFingerprint string     `sql:"t.claim_fingerprint"` // of the certificate that claimed it, or of its successor
	ClaimedAt        *time.Time `sql:"t.claimed_at"`
	StartedAt        *time.Time `sql:"t.started_at"`
	FinishedAt       *time.Time `sql:"t.finished_at"` // nil: it is open
	CancelAskedAt    *time.Time `sql:"t.cancel_asked_at"`
	CancelAskedBy    string     `sql:"t.cancel_asked_by"`

	TaskEnd

	// These fields are the node's, as they are now.
	NodeName    string   `sql:"n.name"`
	Tenant      string   `sql:"n.tenant"`
	NodeState   string   `sql:"n.state"`
	NodeReasons []string // of a queued task alone
	Behind      bool     // it is queued, and its node has first to end another task of its type, or an earlier one on its subject
}

// TaskSubject is what a task changes, where a task of another type can undo it.
type TaskSubject struct {
	Kind string `sql:"subject"`      // "": none
	Name string `sql:"subject_name"` // "": all of that kind
}

// Statuses of a task. A test of package task compares them with those of the protocol.
const (
	TaskQueued     = "queued"
	TaskDispatched = "dispatched"
	TaskRunning    = "running"
	TaskCompleted  = "completed"
	TaskFailed     = "failed"
	TaskExpired    = "expired"
	TaskCanceled   = "canceled"
	TaskLost       = "lost"
)

// TaskEnd says how a task ended. It is zero while the task is open.
type TaskEnd struct {
	ExitCode  *int   `sql:"t.exit_code"`
	Code      string `sql:"t.code"`
	Error     string `sql:"t.error"`
	Values    string `sql:"t.found"`     // JSON object; "": none
	Bytes     int64  `sql:"t.bytes"`     // that it has written
	Truncated bool   `sql:"t.truncated"` // not all of them are kept
	Archive   *TaskFile
	Digest    string `sql:"t.result_digest"` // of the result, so that the same one is known again; "": the gateway ended the task
	Proof     string `sql:"t.proof"`         // of the result; "": the gateway ended the task
}

// TaskFile is the file that a task has made.
type TaskFile struct {
	Name   string
	Size   int64
	SHA256 string // hex
}

// The parts of a query for tasks: t is the task, n its node.
const (
	taskMore = `, t.archive_name, t.archive_size, t.archive_sha256,
		CASE t.status WHEN 'queued' THEN (SELECT json_group_array(reason) FROM reasons WHERE node_id = n.id) END,
		CASE t.status WHEN 'queued' THEN ` + taskBehind + ` END`
	// The plus sign keeps SQLite from reading the tasks that have ended, which are many more.
	taskBehind = `(EXISTS(SELECT 1 FROM tasks o WHERE o.node_id = t.node_id AND o.finished_at IS NULL AND o.status <> 'queued'
		AND o.type = t.type)
		OR t.subject <> '' AND EXISTS(SELECT 1 FROM tasks o WHERE o.node_id = t.node_id AND o.finished_at IS NULL
			AND o.number < t.number AND +` + sameSubject + ` AND (o.status <> 'queued' OR o.drained = 1 OR n.state = 'active')))`
	sameSubject = `o.subject = t.subject AND o.subject <> '' AND (o.subject_name IN (t.subject_name, '') OR t.subject_name = '')`
	// taskOvertaken is true of a task whose node was given a later one on the same subject: to do it now would undo that one.
	taskOvertaken = `EXISTS(SELECT 1 FROM tasks o WHERE o.node_id = t.node_id AND o.number > t.number AND ` + sameSubject + `
		AND o.claimed_at IS NOT NULL)`
	taskTables = ` FROM tasks t JOIN nodes n ON n.id = t.node_id`
)

var tasks = engine.NewTable[Task]("tasks", "t", "")

func tasksWhere(where string, args ...any) statement {
	return do("SELECT "+tasks.Columns+taskMore+taskTables+where, args...)
}

func readTask(r *row) Task {
	t := tasks.Read(r)
	if file := (TaskFile{Name: r.Text(), Size: r.Number(), SHA256: r.Text()}); file.SHA256 != "" {
		t.Archive = &file
	}
	r.Document(&t.NodeReasons)
	t.Behind = r.Flag()
	return t
}

// Task returns a task of a tenant ("": of any), or ErrNotFound.
func (s *Store) Task(ctx context.Context, tenant, id string) (Task, error) {
	return first(ctx, s, readTask, tasksWhere(" WHERE t.id = ? AND (n.tenant = ? OR ? = '')", id, tenant, tenant))
}

// MostOpenTasks is how many tasks of one node can be open. Each claim looks through them.
const MostOpenTasks = 1000

// CreateTask queues a task. ErrConflict if there is a task with this id, if its node is not on record with this enrolment, or is retired
// or banned, or if MostOpenTasks of that node are open.
func (s *Store) CreateTask(ctx context.Context, t Task, events ...Event) error {
	return s.change(ctx, insertTask(t), events)
}

// taskRepeatable is true of a lost task in whose place another one may be queued: nobody has canceled it, none was queued yet, and its
// node was not given, and is not to be given, a later task on the same subject.
const taskRepeatable = `t.status = 'lost' AND t.retried_as = '' AND t.cancel_asked_at IS NULL AND NOT EXISTS(SELECT 1 FROM tasks o
	WHERE o.node_id = t.node_id AND o.number > t.number AND ` + sameSubject + ` AND (o.claimed_at IS NOT NULL OR o.finished_at IS NULL))`

// RepeatTask queues a task in place of a lost one, which may be repeated at least least more times. ErrConflict also if it may not, if it
// is not lost, if it is repeated already or canceled, or if there is a later task on its subject.
func (s *Store) RepeatTask(ctx context.Context, next Task, least int, events ...Event) error {
	repeat := []statement{
		guard("EXISTS(SELECT 1 FROM tasks t WHERE t.id = ? AND t.repeats >= ? AND "+taskRepeatable+")", next.RetryOf, int64(least)),
		do("UPDATE tasks SET retried_as = ? WHERE id = ?", next.ID, next.RetryOf),
	}
	return s.change(ctx, append(repeat, insertTask(next)...), events)
}

func insertTask(t Task) []statement {
	return []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND enrolment_id = ? AND enrolment_id <> '' AND retired_at IS NULL AND banned = 0)",
			t.NodeID, t.EnrolmentID),
		guard("(SELECT count(*) FROM tasks WHERE node_id = ? AND finished_at IS NULL) < ?", t.NodeID, int64(MostOpenTasks)),
		tasks.Insert(t, ""),
	}
}
