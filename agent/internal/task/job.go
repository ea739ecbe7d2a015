// Package task does the work that the gateway gives a node: it asks for signed tasks, checks them, has them done at most once, and
// reports what came of them.
//
// A task is believed by its signature alone, and read after that. A journal on the disk remembers what was begun, so that nothing is
// begun twice, whatever crashes. What a task of one type does is not known here: Handle of the Config does it. What the owner of the
// machine lets the gateway do is: a Policy is for tasks and sessions alike.
package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

// Job is one task that its handler is to do. It was verified, and its params fit its type. The handler reads nothing else from outside.
type Job struct {
	ID     string
	Type   string
	Params wire.TaskParams
	Output io.Writer // what a person reads while the task runs. It never blocks and never fails, and is safe for concurrent use
	// Secrets asks the gateway for the secrets that the params refer to, by their names. It asks anew each time. Nothing of them may
	// get to Output, to the log, to an error or to the disk.
	Secrets func(ctx context.Context) (map[string]string, error)
	// Probe sends bytes to the gateway, which answers with want bytes, to measure the way. Each side sends at most wire.MaxTaskPiece.
	// Nobody keeps the bytes.
	Probe  func(ctx context.Context, data []byte, want int) error
	Dir    string // a folder for this task alone, mode 0700. It is removed when the task has ended
	Policy Policy
}

// Borrow gets the secrets that params name, by their names. It fails if the gateway does not lend one of them.
func (j Job) Borrow(ctx context.Context, params wire.TaskParams) (map[string]string, error) {
	names := wire.TaskSecretNames(params)
	if len(names) == 0 {
		return nil, nil
	}
	lent, err := j.Secrets(ctx)
	if err != nil {
		return nil, fmt.Errorf("the secrets could not be had: %w", err)
	}
	for _, name := range names {
		if _, found := lent[name]; !found {
			return nil, wire.Refuse(wire.CodeNotFound, fmt.Sprintf("the gateway did not lend the secret %q", name), "set it with muster secret set")
		}
	}
	return lent, nil
}

// Digest returns a text that is equal for params that want the same; empty: the params cannot be written as JSON, which does not happen for
// texts and numbers.
func Digest(params wire.TaskParams) string {
	raw, err := json.Marshal(params)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Outcome is what a handler has done. The zero value is a success.
type Outcome struct {
	ExitCode int             // 0: the task is completed
	Code     string          // why it failed, where a program may ask: one of wire's codes, such as wire.CodeTaskForbidden
	Error    string          // for a person: what went wrong, and what to do next. If it is not empty, the task has failed
	Values   wire.TaskValues // what the task's type documents
	Archive  string          // the name of a file in Dir that goes to the operator; empty: none. It gets there under this name
	// After runs once the gateway has the result, for work that ends this process. It does not run if the gateway refuses the result. If
	// the agent ends before, the task counts as interrupted. Its ctx is done when the agent stops. nil: nothing runs. A notice shows its
	// error.
	After func(ctx context.Context) error
}

// Failed returns the outcome of a task that failed with this error. An exit code in the error becomes the task's own, and so does the code
// of a refusal in it. Everything else counts as 1.
func Failed(err error) Outcome {
	o := Outcome{ExitCode: 1, Error: err.Error()}
	var exit *child.ExitError
	if errors.As(err, &exit) && exit.Code > 0 {
		o.ExitCode = exit.Code
	}
	var refusal *wire.ErrorDetail
	if errors.As(err, &refusal) {
		o.Code = refusal.Code
	}
	return o
}

// Failf returns Failed of an error with this text.
func Failf(format string, args ...any) Outcome { return Failed(fmt.Errorf(format, args...)) }

// Ended returns the outcome of work that has found something out, even if the work failed; nil: it has found nothing.
func Ended(err error, found map[string]any) Outcome {
	var o Outcome
	if err != nil {
		o = Failed(err)
	}
	o.Values = wire.TaskValues{}
	for name, value := range found {
		if raw, err := json.Marshal(value); err == nil { // nothing that cannot be written as JSON is ever put there
			o.Values[name] = raw
		}
	}
	return o
}
