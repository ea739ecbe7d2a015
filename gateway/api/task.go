package api

import (
	"encoding/json"
	"time"

	"muster/agent/wire"
)

// Task is a task as the API shows it. Lists leave the head and the tail of the output empty.
type Task struct {
	ID               string          `json:"id"`
	Node             string          `json:"node"` // its name
	NodeID           string          `json:"node_id"`
	Tenant           string          `json:"tenant"`
	Type             string          `json:"type"`
	Params           json.RawMessage `json:"params"`
	Status           string          `json:"status"` // one of wire.TaskStatuses
	ExitCode         *int            `json:"exit_code"`
	Code             string          `json:"code"`  // why it did not complete: a word for programs
	Error            string          `json:"error"` // why it did not complete: for people
	Output           TaskLog         `json:"output"`
	Archive          *wire.TaskFile  `json:"archive"` // a file that it made; null: none
	Values           wire.TaskValues `json:"values"`  // what it found out, as its type documents
	CreatedBy        string          `json:"created_by"`
	CreatedAt        time.Time       `json:"created_at"`
	ExpiresAt        time.Time       `json:"expires_at"`
	ClaimedAt        *time.Time      `json:"claimed_at"`
	StartedAt        *time.Time      `json:"started_at"`
	FinishedAt       *time.Time      `json:"finished_at"`
	CancelAskedAt    *time.Time      `json:"cancel_asked_at"` // a cancel waits for the node
	CancelAskedBy    string          `json:"cancel_asked_by"`
	ClaimFingerprint string          `json:"claim_fingerprint"`
	SigningKeyID     string          `json:"signing_key_id"`
	Proof            string          `json:"proof"`       // of the result: the node's signature, or the fingerprint of its TLS connection
	RetryOf          string          `json:"retry_of"`    // the lost task that this one repeats
	RetriedAs        string          `json:"retried_as"`  // the task that repeats this lost one
	QueueReason      string          `json:"waiting_for"` // why a queued task is not given out, such as a drained node; empty: nothing
}

// TaskLog is what a task has written, as text. Bytes that are no UTF-8 are replaced; Client.TaskOutput has them.
type TaskLog struct {
	Head      string `json:"head"`
	Tail      string `json:"tail"`
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"` // something between head and tail was not kept
}

// NewTask asks for a task. Either Node, Type and Params are given, and the gateway signs; or Signed is, with an operator's key.
type NewTask struct {
	// ID is chosen by the caller, so that a repeated request makes no second task: wire.NewTaskID makes one. Empty: the gateway chooses.
	ID             string           `json:"id,omitempty"`
	Node           string           `json:"node,omitempty"` // name or id
	Type           string           `json:"type,omitempty"`
	Params         json.RawMessage  `json:"params,omitempty"`
	ExpiresSeconds int              `json:"expires_seconds,omitempty"` // until the node must have started it; 0: an hour
	Signed         *wire.SignedTask `json:"signed,omitempty"`
}

// TaskPage is one page of a list of tasks, newest first.
type TaskPage struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next"` // cursor of the next page, empty on the last
}

// TaskFilter picks tasks. A zero field does not count.
type TaskFilter struct {
	Node   string `json:"node,omitempty"`
	Type   string `json:"type,omitempty"`
	Status string `json:"status,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Open   bool   `json:"open,omitempty"` // only those that have not ended
	Lost   bool   `json:"lost,omitempty"` // only those that are lost, and in whose place none was queued
	Limit  int    `json:"limit,omitempty" most:"1000" usual:"100"`
	Cursor string `json:"cursor,omitempty"`
}
