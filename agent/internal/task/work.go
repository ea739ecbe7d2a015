package task

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/identity"
	"muster/agent/sign"
	"muster/agent/wire"
)

// stuckTime is how long a handler may go on after it was asked to end, until its task ends without it.
const stuckTime = 30 * time.Second

// Why a handler is asked to end.
var (
	errCanceled = errors.New("somebody canceled the task")
	errTimedOut = errors.New("the task took too long")
	errUnwanted = errors.New("the gateway does not wait for this task any more")
	errStops    = errors.New("the agent stops")
)

// order is a task that fits its type.
type order struct {
	kind   wire.TaskType
	params wire.TaskParams
	policy Policy
}

// work is one task on its way from the journal to its result.
type work struct {
	*Worker
	entry
	output *output
	know   func()        // says that the gateway knows of the start, or need not
	free   func()        // gives the slot back
	stuck  chan struct{} // closed when a handler that was given up has come back; nil: none was
}

// begin goes on with a task at the step where it is. It calls free when the task needs no slot any more. told is closed when the gateway
// does not give the task again.
func (w *Worker) begin(e entry, free func()) (told <-chan struct{}) {
	known := make(chan struct{})
	k := &work{Worker: w, entry: e, output: newOutput(), know: sync.OnceFunc(func() { close(known) }), free: free}
	w.asked.Add(1)
	w.running.Go(func() {
		defer w.asked.Add(-1)
		k.goOn()
	})
	return known
}

// goOn does what is left of the task.
func (k *work) goOn() {
	var after func(context.Context) error
	switch k.Step {
	case stepAccepted:
		outcome, done := k.fromTheStart()
		if !done {
			return
		}
		after = outcome.After
	case stepStarted:
		k.finish(k.interrupted("the agent or the machine went down while the task ran, or the agent's journal of tasks was damaged"), "")
	case stepFinished:
		if k.Follows { // it was to happen in the process that is gone
			k.Follows = false
			k.finish(k.interrupted("the agent or the machine went down before it did what follows the result"), "")
		}
	}
	k.know()
	k.release()
	k.output = newOutput() // the result has what is kept of it
	over, taken := k.report()
	if !over {
		return
	}
	if err := os.RemoveAll(k.folder()); err != nil {
		k.Logger.Warn("the folder of a task cannot be removed", "task", k.Task, "error", err)
	}
	if after == nil || !taken {
		return
	}
	if err := after(k.life); err != nil {
		k.note("task", fmt.Sprintf("what follows task %s failed: %v", k.Task, err))
	}
}

// release gives the slot back, or leaves it with a handler that does not come back.
func (k *work) release() {
	if k.stuck == nil {
		k.free()
		return
	}
	k.lost.Add(1)
	go func() { <-k.stuck; k.lost.Add(-1); k.free() }()
}

// fromTheStart does a task that was accepted and not begun. done is false if the agent stops before it has begun: the next run
// does the task then.
func (k *work) fromTheStart() (outcome Outcome, done bool) {
	o, err := k.examine()
	if err != nil {
		k.finish(k.refused(err), "")
		return Outcome{}, true
	}
	ctx, cancel := context.WithCancelCause(k.life)
	defer cancel(nil)
	progress, err := k.tellStarted(ctx)
	switch {
	case k.life.Err() != nil:
		return Outcome{}, false
	case refusedForGood(err) != "":
		k.drop(err)
		return Outcome{}, false
	case err != nil:
		k.finish(k.refused(k.expired()), "")
		return Outcome{}, true
	case progress.Begun && k.unsure:
		k.finish(k.interrupted("the gateway knows that an earlier run of the agent began the task"), "")
		return Outcome{}, true
	case progress.Cancel:
		k.finish(k.ended(wire.TaskCanceled, "", errCanceled.Error()+" before it began"), "")
		return Outcome{}, true
	}
	k.know()
	streamed := make(chan struct{})
	go func() { defer close(streamed); k.stream(ctx, cancel) }()
	defer func() { cancel(nil); <-streamed }()
	return k.inTurn(ctx, &turn{o.kind.Name, o.params.Subject()})
}

// inTurn waits for tasks at work of the same type or on the same subject, checks the task again, and runs the handler.
func (k *work) inTurn(ctx context.Context, t *turn) (outcome Outcome, done bool) {
	if !k.takeTurn(ctx, t) {
		if k.life.Err() != nil {
			return Outcome{}, false
		}
		k.finish(k.ended(wire.TaskCanceled, "", context.Cause(ctx).Error()+" before it began"), "")
		return Outcome{}, true
	}
	defer func() {
		if k.stuck == nil {
			k.endTurn(t)
			return
		}
		go func() { <-k.stuck; k.endTurn(t) }()
	}()
	o, err := k.examine() // anew: the wait may have been long, and what counts is the time, the policy and the keys of now
	if err != nil {
		k.finish(k.refused(err), "")
		return Outcome{}, true
	}
	now := k.now()
	if err := k.journal.start(k.Task, now); err != nil {
		k.noteJournal(err)
		k.finish(k.refused(fmt.Errorf("it was not begun: %w", err)), "")
		return Outcome{}, true
	}
	k.Started = &now
	outcome = k.run(ctx, o)
	return outcome, true
}

// now is the time by the gateway's clock, as it stands in JSON.
func (k *work) now() time.Time { return k.Client.Now().UTC().Truncate(time.Millisecond) }

// examine checks all that the signature does not: the time, the type, the params and the policy, in this order.
func (k *work) examine() (order, error) {
	state := k.identity()
	var o order
	payload, key, err := open(state, *k.Signed) // once more, because a journal of an earlier run may be older than the keys
	if err != nil {
		return o, err
	}
	if err := meant(state, payload); err != nil {
		return o, err
	}
	if err := k.inTime(state, payload); err != nil {
		return o, err
	}
	if k.journal.doubts(payload.IssuedAt, k.Client.Offset()) {
		return o, wire.Refuse(wire.TaskInterrupted, "the agent's journal of tasks was damaged, and may have said that this task was begun",
			anew)
	}
	if o.kind, err = wire.FindTaskType(payload.Type); err != nil {
		return o, err
	}
	o.params = o.kind.New()
	if err := sign.DecodeStrict(payload.Params, o.params); err != nil {
		return o, wire.Refuse(wire.CodeTaskParamsInvalid, "the params are not those of "+payload.Type+": "+err.Error(),
			"muster task types lists them")
	}
	if err := o.params.Check(); err != nil {
		return o, err
	}
	return o, k.allowed(&o, key)
}

// anew is the next step for a task that is not begun, or not again.
const anew = "see what it left, and start it anew where it is still wanted"

// inTime refuses a task that has expired by this machine's clock or by the gateway's, and one that is not issued yet.
func (k *work) inTime(state identity.State, payload wire.TaskPayload) error {
	switch {
	case !identity.Latest(k.Client).Before(payload.ExpiresAt):
		return k.expired()
	case payload.IssuedAt.After(state.Within(k.Client).Add(wire.MaxTaskAhead)):
		return wire.Refuse(wire.CodeClockSkew, "the task was issued in the future, at "+payload.IssuedAt.UTC().Format(time.RFC3339),
			"set the clock of the machine that signed it, and the one of this node, then start it anew")
	}
	return nil
}

func (k *work) expired() error {
	return identity.Expired(k.Client, "the task expired before the node began", "start it anew where it is still wanted")
}

// allowed asks the policy, which is read anew for each task. key is the one that verified it.
func (k *work) allowed(o *order, key ed25519.PublicKey) error {
	owners, err := LoadPolicy(k.Policies...)
	if err != nil {
		k.note("policy", fmt.Sprintf("no tasks are done: %v", err))
		return wire.Refuse(wire.CodeTaskForbidden, err.Error(), "the owner of this node mends the file")
	}
	k.note("policy", "")
	o.policy = owners
	for _, name := range append([]string{o.kind.Name}, wire.TaskIncludes(o.params)...) {
		if err := owners.Check(name, key); err != nil {
			return err
		}
	}
	return nil
}

// run lets the handler do the task, and writes the result into the journal.
func (k *work) run(ctx context.Context, o order) Outcome {
	limit := o.kind.Limit(o.params)
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errTimedOut)
	defer cancel()
	k.Logger.Info("task begins", "task", k.Task, "type", o.kind.Name)
	job := Job{
		ID: k.Task, Type: o.kind.Name, Params: o.params, Output: k.output, Secrets: k.secrets, Probe: k.probe, Dir: k.folder(),
		Policy: o.policy,
	}
	outcome := k.handle(bounded, job)
	result, archive := k.judge(outcome, context.Cause(bounded), limit)
	k.Follows = outcome.After != nil
	k.finish(result, archive)
	k.Logger.Info("task ended", "task", k.Task, "type", o.kind.Name, "status", result.Status, "error", result.Error)
	return outcome
}

// handle calls the handler, and comes back even if the handler does not.
func (k *work) handle(ctx context.Context, job Job) Outcome {
	if err := cmp.Or(os.MkdirAll(filepath.Dir(job.Dir), 0o700), os.RemoveAll(job.Dir), os.Mkdir(job.Dir, 0o700)); err != nil {
		return Failf("make a folder for the task: %w", disk.Advise(err))
	}
	outcome := make(chan Outcome, 1)
	back := make(chan struct{})
	go func() {
		defer close(back)
		defer func() {
			if p := recover(); p != nil {
				k.Logger.Error("the handler of a task panicked", "task", k.Task, "panic", p, "stack", string(debug.Stack()))
				outcome <- Failf("the agent has a fault in this type of task: %v", p)
			}
		}()
		outcome <- k.Handle(ctx, job)
	}()
	select {
	case o := <-outcome:
		return o
	case <-ctx.Done():
	}
	timer := time.NewTimer(stuckTime)
	defer timer.Stop()
	select {
	case o := <-outcome:
		return o
	case <-timer.C:
		k.stuck = back
		return Failf("the work does not end, and may still go on: look at the node")
	}
}

// folder is the task's own.
func (k *work) folder() string { return filepath.Join(k.Folder, WorkFolder, k.Task) }
