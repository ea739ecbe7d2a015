// Package task is the desk over which work goes to the nodes: it queues tasks, gives each to the one identity that claims it, takes what
// the task writes and how it ended, and ends what cannot end by itself.
//
// The database is the truth, and its statements decide: one of them claims a task, with all conditions in it. What is in memory is a hint
// for which nodes there may be work, so that thousands of waits cost no query, and a bell for those who read what a task writes.
package task

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Config says what a Desk works with.
type Config struct {
	Store  *store.Store
	Sign   func(payload []byte) (wire.SignedTask, error) // with the gateway's own task key
	Keys   func() []ed25519.PublicKey                    // the task keys that nodes believe now
	Now    func() time.Time                              // nil: time.Now
	Logger *slog.Logger                                  // nil: none
	// CountAgain counts an event that comes too often, and then returns true: the Desk does not record it. Nil: it records every event.
	CountAgain func(context.Context, store.Event) bool
}

// Desk is safe for concurrent use.
type Desk struct {
	Config
	mu sync.Mutex
}

// Claimer is a node that has proven its identity.
type Claimer struct {
	NodeID, Enrolment, Fingerprint string
	Proof                          string // of this very request, for the record: its signature with what that covers, or "tls:" and the fingerprint
	Address                        string
}

// Request asks for a task: either NodeID, Type and Params, and the gateway signs; or Signed, with the key of an operator.
type Request struct {
	ID      string // chosen by the caller, so that the same request again makes no second task; "": the Desk chooses
	Node    string // name or id
	Type    string
	Params  json.RawMessage
	Expires time.Duration // until the node must have started it; 0: an hour
	Signed  *wire.SignedTask

	// May refuses a type that the caller may not ask for. It is called as soon as the type is known. Nil: any type.
	May func(taskType string) error
}

// New makes a Desk. It reads from the database which nodes have work waiting.
func New(ctx context.Context, c Config) (*Desk, error) { return &Desk{Config: c}, nil }

// Run ends what is overdue, and queues lost tasks anew where their type allows that, until ctx ends. Then it ends all waits.
func (d *Desk) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Create queues a task for a node of a tenant ("": of any). The same request again gives the task on record; created is false then.
func (d *Desk) Create(ctx context.Context, tenant string, q Request, by store.Actor) (t store.Task, created bool, err error) {
	return store.Task{}, false, notYet()
}

// Task gives a task of a tenant ("": of any).
func (d *Desk) Task(ctx context.Context, tenant, id string) (store.Task, error) {
	return store.Task{}, notYet()
}

// Tasks gives one page of tasks, newest first, and the cursor of the next page.
func (d *Desk) Tasks(ctx context.Context, q store.TaskQuery) (tasks []store.Task, next string, err error) {
	return nil, "", notYet()
}

// Cancel ends a task that waits, and asks the node to end one that it has. Again it changes nothing. A task that has ended is refused.
func (d *Desk) Cancel(ctx context.Context, tenant, id string, by store.Actor) (store.Task, error) {
	return store.Task{}, notYet()
}

// Log gives the beginning and the end of what a task has written so far.
func (d *Desk) Log(ctx context.Context, t store.Task) (wire.TaskLog, error) {
	return wire.TaskLog{}, notYet()
}

// Follow calls each with what the task has written from an offset on, in order, until the task has ended or each gives an error. Where an
// offset is beyond the one that was expected, what is between was not kept.
func (d *Desk) Follow(ctx context.Context, t store.Task, from int64, each func(offset int64, data []byte) error) error {
	return notYet()
}

// Archive calls each with the parts of the file that an ended task has made, in order.
func (d *Desk) Archive(ctx context.Context, t store.Task, each func(data []byte) error) error {
	return notYet()
}

// Waiting is how many tasks wait for a node, as far as memory knows.
func (d *Desk) Waiting(nodeID string) int { return 0 }

// Wait gives the node's next task as soon as there is one; nil: there was none within that time. A later wait of the same node ends this one.
func (d *Desk) Wait(ctx context.Context, c Claimer, within time.Duration) (*wire.SignedTask, error) {
	return nil, notYet()
}

// Started notes that the claimer begins with a task.
func (d *Desk) Started(ctx context.Context, c Claimer, taskID string, q wire.TaskStarted) (wire.TaskProgress, error) {
	return wire.TaskProgress{}, notYet()
}

// Output takes what a task has written since.
func (d *Desk) Output(ctx context.Context, c Claimer, taskID string, q wire.TaskOutput) (wire.TaskProgress, error) {
	return wire.TaskProgress{}, notYet()
}

// Result ends a task. body is the TaskResult as it came.
func (d *Desk) Result(ctx context.Context, c Claimer, taskID string, body []byte) error {
	return notYet()
}

// Secrets lends the secrets which the params of a task name to its claimer.
func (d *Desk) Secrets(ctx context.Context, c Claimer, taskID string) (wire.TaskSecrets, error) {
	return wire.TaskSecrets{}, notYet()
}

// WaitingFor says why a task that is queued is not given out; "": nothing holds it back.
func WaitingFor(t store.Task) string { return "" }

// Params are the params of a task, as they were signed.
func Params(t store.Task) json.RawMessage { return nil }

func notYet() error {
	return wire.Refuse(wire.CodeUnavailable, "tasks are not there yet", "use a later version of the gateway")
}
