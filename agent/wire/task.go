package wire

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// TaskPayload is what a task's signature covers: everything that decides anything. The node checks the signature over these exact bytes
// first, and reads them afterwards, strictly. EnrolmentID binds the task to one enrolment of the node, so that nothing which was meant
// for an earlier owner of the name is ever run.
type TaskPayload struct {
	TaskID    string          `json:"task_id"`
	NodeID    string          `json:"node_id"`
	Enrolment string          `json:"enrolment"`
	Type      string          `json:"type"`
	Params    json.RawMessage `json:"params"` // an object; TaskType says what may be in it
	IssuedAt  time.Time       `json:"issued_at"`
	ExpiresAt time.Time       `json:"expires_at"` // a node does not start the task at this time or later
	Nonce     string          `json:"nonce"`      // random, so that no two payloads are equal
}

// SignedTask is a task as it travels and as it is stored. Its signature is that of a sign.Envelope in the role of task. SigningKeyID is a
// hint for finding the key, and never trusted.
type SignedTask struct {
	Payload      []byte `json:"payload"`
	Signature    []byte `json:"signature"`
	SigningKeyID string `json:"signing_key_id"`
}

// ReportNow answers a wait, in the place of a SignedTask, if the node is to report at once: its next heartbeat has news for it. Only a node
// that waits for WaitReport gets it.
type ReportNow struct {
	Report bool `json:"report"`
}

// TaskStarted says that the node has accepted a task and begins with it. From then on it is not delivered again.
type TaskStarted struct {
	StartedAt time.Time `json:"started_at"` // by the gateway's clock
}

// TaskOutput adds to what a running task has written. Without data it only says that the task is still at work. Both learn from the
// TaskProgress that answers it whether the task is to end.
//
// File names what the bytes belong to: empty is the output that a person reads while the task runs. TaskArchive is the file that the
// task makes for the operator.
type TaskOutput struct {
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset"` // of Data in all that was written
	Data   []byte `json:"data,omitempty"`
}

// TaskArchive is the one file that a task may give to the operator.
const TaskArchive = "archive"

// TaskProbe is the File by which a task measures the way to the gateway. Nothing of it is kept: Data is dropped, and Offset is how many
// bytes the answer is to have, at most MaxTaskPiece.
const TaskProbe = "probe"

// TaskProgress answers TaskStarted and TaskOutput.
type TaskProgress struct {
	Cancel bool   `json:"cancel,omitempty"` // somebody wants the task to end now
	Begun  bool   `json:"begun,omitempty"`  // of TaskStarted alone: the gateway had been told so before
	Data   []byte `json:"data,omitempty"`   // of a TaskProbe alone
}

// TaskResult ends a task. The same result again is answered as the first time.
type TaskResult struct {
	Status     string     `json:"status"` // TaskCompleted, TaskFailed, TaskCanceled or TaskExpired
	ExitCode   *int       `json:"exit_code"`
	Code       string     `json:"code,omitempty"`  // why it did not complete: one of the codes, such as CodeTaskForbidden
	Error      string     `json:"error,omitempty"` // for a person: what went wrong, and what to do next
	Output     TaskLog    `json:"output"`
	Archive    *TaskFile  `json:"archive,omitempty"` // the file that was sent as TaskArchive
	Values     TaskValues `json:"values,omitempty"`  // what the task found out, for programs
	StartedAt  *time.Time `json:"started_at"`        // nil: it never began
	FinishedAt time.Time  `json:"finished_at"`
}

// TaskValues are what a task found out: names that its type documents, with JSON values.
type TaskValues map[string]json.RawMessage

// TaskLog is what a task has written: its beginning and its end. Bytes counts all of it.
type TaskLog struct {
	Head      []byte `json:"head"` // at most MaxTaskHead bytes
	Tail      []byte `json:"tail"` // at most MaxTaskTail bytes; it follows the head without a gap unless Truncated
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"` // something between head and tail was not kept
}

// TaskFile names a file that a task has sent.
type TaskFile struct {
	Name   string `json:"name"` // for the operator's disk, without a folder
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// TaskSecrets answers a node that asks for the secrets which the params of a running task refer to. The key is the reference.
type TaskSecrets struct {
	Secrets map[string]string `json:"secrets"`
}

// NewTaskID makes the name of a task: 80 random bits in lower-case base32.
func NewTaskID() string {
	var random [10]byte
	rand.Read(random[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
}

// CheckTaskID refuses what is not a task's name.
func CheckTaskID(id string) error {
	raw, err := base32.StdEncoding.DecodeString(strings.ToUpper(id))
	if err != nil || len(raw) != 10 || id != strings.ToLower(id) {
		return Refuse(CodeBadRequest, fmt.Sprintf("%.40q is not a task's id", id), "an id has 16 lower-case letters and digits 2 to 7")
	}
	return nil
}
