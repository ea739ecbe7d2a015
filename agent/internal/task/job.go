// Package task does the work that the gateway gives a node: it asks for signed tasks, checks them, has them done at most once, and
// reports what came of them.
//
// A task is believed by its signature alone, and read after that. A journal on the disk remembers what was begun, so that nothing is
// begun twice, whatever crashes. What a task of one type does is not known here: Handle of the Config does it. What the owner of the
// machine lets the gateway do is: a Policy is for tasks and sessions alike.
package task

import (
	"context"
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
	// Probe sends the gateway bytes, and has it answer with so many, at most wire.MaxTaskPiece each, to measure the way. Nobody keeps them.
	Probe  func(ctx context.Context, data []byte, want int) error
	Dir    string // a folder for this task alone, mode 0700. It is removed when the task has ended
	Policy Policy
}

// Outcome is what a handler has done. The zero value is a success.
type Outcome struct {
	ExitCode int             // 0: the task is completed
	Code     string          // why it failed, where a program may ask: one of wire's codes, such as wire.CodeTaskForbidden
	Error    string          // for a person: what went wrong, and what to do next. If it is not empty, the task has failed
	Values   wire.TaskValues // what the task's type documents
	Archive  string          // the name of a file in Dir that goes to the operator; empty: none. It gets there under this name
	// After runs once the gateway has the result, for what ends this process. It does not run where the gateway refuses the result. If
	// the agent ends before, the task counts as interrupted. Its ctx is done when the agent stops. nil: nothing. A notice tells its error.
	After func(ctx context.Context) error
}

// Failed is the outcome of a task that failed with this error. An exit code in it becomes the task's own. A refusal in it gives its code.
// Everything else counts as 1.
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

// Failf is Failed with a text of its own.
func Failf(format string, args ...any) Outcome { return Failed(fmt.Errorf(format, args...)) }

// Ended is the outcome of work that has found something out, also if it failed; nil: it has not.
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
