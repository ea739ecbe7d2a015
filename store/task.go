package store

import (
	"context"
	"encoding/base64"
	"time"
)

// Task is a piece of work for one node. What decides anything is in the payload, which is signed: the node reads nothing else. The
// other fields repeat it for queries, or say what became of the task.
type Task struct {
	Number       int64 // later tasks have higher ones; the store gives it
	ID           string
	NodeID       string
	EnrolmentID  string // the one enrolment of the node that it is for
	Type         string
	Payload      []byte // JSON, as it was signed
	Signature    []byte
	SigningKeyID string
	Subject      TaskSubject
	Drained      bool // is also given to a node that takes no new work
	Repeats      int  // how often it may be queued anew when it is lost
	CreatedBy    string
	CreatedAt    time.Time
	ExpiresAt    time.Time // nobody starts it at this time or later
	RetryOf      string    // the lost task that this one repeats
	RetriedAs    string    // the task that repeats this lost one

	Status           string // one of the Task constants
	Deliveries       int    // how often it was given to its claimer
	ClaimFingerprint string // of the certificate that claimed it, or of its successor
	ClaimedAt        *time.Time
	StartedAt        *time.Time
	FinishedAt       *time.Time // nil: it is open
	CancelAskedAt    *time.Time
	CancelAskedBy    string

	TaskEnd

	// These are its node's, as they are now.
	NodeName    string
	Tenant      string
	NodeState   string
	NodeReasons []string // of a queued task alone
	Behind      bool     // it is queued, and its node has first to end another task of its type, or an earlier one on its subject
}

// TaskSubject is what a task changes, where a task of another type can undo it.
type TaskSubject struct {
	Kind string // "": none
	Name string // "": all of that kind
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

// TaskEnd is how a task ended. Of a task that is open, it is zero.
type TaskEnd struct {
	ExitCode  *int
	Code      string
	Error     string
	Values    string // JSON object; "": none
	Bytes     int64  // that it has written
	Truncated bool   // not all of them are kept
	Archive   *TaskFile
	Digest    string // of the result, so that the same one is known again; "": the gateway ended the task
	Proof     string // of the result; "": the gateway ended the task
}

// TaskFile is the file that a task has made.
type TaskFile struct {
	Name   string
	Size   int64
	SHA256 string // hex
}

// The parts of a query for tasks: t is the task, n its node.
const (
	taskColumns = `t.number, t.id, t.node_id, t.enrolment_id, t.type, t.payload, t.signature, t.signing_key_id, t.subject, t.subject_name,
		t.drained, t.repeats,
		t.created_by, t.created_at, t.expires_at, t.retry_of, t.retried_as, t.status, t.deliveries, t.claim_fingerprint, t.claimed_at,
		t.started_at, t.finished_at, t.cancel_asked_at, t.cancel_asked_by, t.exit_code, t.code, t.error, t.found, t.bytes, t.truncated,
		t.archive_name, t.archive_size, t.archive_sha256, t.result_digest, t.proof, n.name, n.tenant, n.state,
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

func readTask(r *row) Task {
	t := Task{Number: r.Number(), ID: r.Text(), NodeID: r.Text(), EnrolmentID: r.Text(), Type: r.Text(), Payload: r.Bytes(),
		Signature: r.Bytes(), SigningKeyID: r.Text()}
	t.Subject = TaskSubject{r.Text(), r.Text()}
	t.Drained = r.Flag()
	t.Repeats = int(r.Number())
	t.CreatedBy = r.Text()
	t.CreatedAt = r.Time()
	t.ExpiresAt = r.Time()
	t.RetryOf = r.Text()
	t.RetriedAs = r.Text()
	t.Status = r.Text()
	t.Deliveries = int(r.Number())
	t.ClaimFingerprint = r.Text()
	t.ClaimedAt = r.Maybe()
	t.StartedAt = r.Maybe()
	t.FinishedAt = r.Maybe()
	t.CancelAskedAt = r.Maybe()
	t.CancelAskedBy = r.Text()
	t.TaskEnd = readTaskEnd(r)
	t.NodeName = r.Text()
	t.Tenant = r.Text()
	t.NodeState = r.Text()
	r.Document(&t.NodeReasons)
	t.Behind = r.Flag()
	return t
}

func readTaskEnd(r *row) TaskEnd {
	var end TaskEnd
	if code := r.Integer(); code != nil {
		exit := int(*code)
		end.ExitCode = &exit
	}
	end.Code = r.Text()
	end.Error = r.Text()
	end.Values = r.Text()
	end.Bytes = r.Number()
	end.Truncated = r.Flag()
	file := TaskFile{Name: r.Text(), Size: r.Number(), SHA256: r.Text()}
	if file.SHA256 != "" {
		end.Archive = &file
	}
	end.Digest = r.Text()
	end.Proof = r.Text()
	return end
}

// Task returns a task of a tenant ("": of any), or ErrNotFound.
func (s *Store) Task(ctx context.Context, tenant, id string) (Task, error) {
	return first(ctx, s, readTask, do("SELECT "+taskColumns+taskTables+" WHERE t.id = ? AND (n.tenant = ? OR ? = '')", id, tenant, tenant))
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

// RepeatTask queues a task in place of a lost one, which may be repeated so often still at least. ErrConflict also if it may not, if it
// is not lost, if it is repeated already or canceled, or if there is a later task on its subject.
func (s *Store) RepeatTask(ctx context.Context, next Task, least int, events ...Event) error {
	repeat := []statement{
		guard("EXISTS(SELECT 1 FROM tasks t WHERE t.id = ? AND t.repeats >= ? AND "+taskRepeatable+")", next.RetryOf, int64(least)),
		do("UPDATE tasks SET retried_as = ? WHERE id = ?", next.ID, next.RetryOf),
	}
	return s.change(ctx, append(repeat, insertTask(next)...), events)
}

func insertTask(t Task) []statement {
	text := base64.StdEncoding.EncodeToString
	return []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND enrolment_id = ? AND enrolment_id <> '' AND retired_at IS NULL AND banned = 0)",
			t.NodeID, t.EnrolmentID),
		guard("(SELECT count(*) FROM tasks WHERE node_id = ? AND finished_at IS NULL) < ?", t.NodeID, int64(MostOpenTasks)),
		do(`INSERT INTO tasks(id, node_id, enrolment_id, type, subject, subject_name, drained, repeats, created_by, created_at,
			expires_at, retry_of, signing_key_id, signature, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			t.ID, t.NodeID, t.EnrolmentID, t.Type, t.Subject.Kind, t.Subject.Name, flag(t.Drained), int64(t.Repeats), t.CreatedBy,
			millis(t.CreatedAt), millis(t.ExpiresAt),
			t.RetryOf, t.SigningKeyID, text(t.Signature), text(t.Payload)),
	}
}
