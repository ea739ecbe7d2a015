package store

import "time"

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
	NodeName  string
	Tenant    string
	NodeState string
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
	Proof     string // of the result
}

// TaskFile is the file that a task has made.
type TaskFile struct {
	Name   string
	Size   int64
	SHA256 string // hex
}

// TaskPiece is a part of what a task has written, or of its file.
type TaskPiece struct {
	Offset int64
	Data   []byte
}

// TaskQuery selects tasks. A zero field does not restrict the result.
type TaskQuery struct {
	Tenant string
	Node   string // id, or name of nodes on record
	Type   string
	Status string
	Open   bool   // only those that have not ended
	Limit  int    // see pageLimit
	Cursor string // from the page before
}
