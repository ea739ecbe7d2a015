package task

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/trust"
	"muster/agent/sign"
	"muster/agent/wire"
)

const (
	// answerTime is how long before the end of a wait the gateway answers, so that the connection stays open for the next report.
	answerTime = 500 * time.Millisecond
	// lateTime is how long an answer may come after the time for which the gateway was asked to wait.
	lateTime = 15 * time.Second
)

// Wait asks the gateway for a task, as the node that state says, until ctx is done or until says so. It returns before that only where
// there was a task, or where the gateway has answered for the whole time. So it may be called again at once, whatever happened.
//
// The error wraps trust.ErrUnknownKey where a key that the pinned trust set does not name has signed a task: a newer set may name it.
func (w *Worker) Wait(ctx context.Context, state identity.State, until time.Time) error {
	w.learn(state)
	if !w.enter(ctx) {
		return nil
	}
	defer w.goOut()
	if state.Enrolment == "" || w.busy() || !w.isReady(ctx) || !w.sleep(ctx) || !w.canRecord() || !w.slot(ctx) {
		<-ctx.Done()
		return nil
	}
	given := false
	free := func() { <-w.slots }
	defer func() {
		if !given {
			free()
		}
	}()
	began := time.Now()
	seconds := int(max(0, min(until.Sub(began)-answerTime, wire.MaxTaskWait)) / time.Second)
	if seconds == 0 { // there is no time to wait: ask for what is there, and not at the pace of fast reports
		w.later(time.Second)
	}
	signed, err := w.ask(ctx, state.NodeID, seconds)
	if err == nil {
		w.heard.Store(true)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		w.Logger.Debug("no tasks from the gateway", "error", err)
		w.later(w.backoff.Next())
		return nil
	case signed == nil && time.Since(began) < time.Duration(seconds)*time.Second-answerTime:
		w.later(max(w.backoff.Next(), time.Second)) // it answered early, and so it may do again
		return nil
	}
	w.backoff.Reset()
	if signed == nil {
		if seconds == 0 {
			<-ctx.Done()
		}
		return nil
	}
	given, err = w.take(ctx, state, *signed, free)
	if err != nil {
		w.pause = until
	}
	return err
}

// isReady waits until Run has taken up what was left. It reports false where ctx was done before.
func (w *Worker) isReady(ctx context.Context) bool {
	select {
	case <-w.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// canRecord reports whether the journal takes what would be begun. Without that nothing may be claimed.
func (w *Worker) canRecord() bool {
	err := w.journal.writable()
	w.noteJournal(err)
	return err == nil
}

// later plans the next wait.
func (w *Worker) later(pause time.Duration) { w.pause = time.Now().Add(pause) }

// sleep waits for the planned moment. It reports false where ctx is done before, or in the same moment.
func (w *Worker) sleep(ctx context.Context) bool {
	pause := time.Until(w.pause)
	if end, bounded := ctx.Deadline(); bounded && !w.pause.Before(end) {
		return false
	}
	return pause <= 0 || transport.Sleep(ctx, pause)
}

// slot takes a place for one more task, as soon as there is one. It reports false where ctx was done before.
func (w *Worker) slot(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask waits at the gateway. nil without an error: there is nothing to do.
func (w *Worker) ask(ctx context.Context, nodeID string, seconds int) (*wire.SignedTask, error) {
	path := wire.TaskWaitPath(nodeID) + "?" + wire.TaskWaitSeconds + "=" + strconv.Itoa(seconds)
	answer, err := w.Client.Do(ctx, transport.Request{Path: path, Timeout: time.Duration(seconds)*time.Second + lateTime})
	if err != nil || answer.Status == http.StatusNoContent {
		return nil, err
	}
	var signed wire.SignedTask
	if err := json.Unmarshal(answer.Body, &signed); err != nil {
		return nil, fmt.Errorf("read the gateway's answer: %w", err)
	}
	return &signed, nil
}

// take believes a task or refuses it. What it believes is in the journal before anything else happens. taken says that the task has
// the slot from now on, and calls free.
func (w *Worker) take(ctx context.Context, state identity.State, signed wire.SignedTask, free func()) (taken bool, err error) {
	payload, err := verify(state, signed)
	if err != nil {
		w.note("task", fmt.Sprintf("the gateway gave this node a task that was refused: %v", err))
		return false, err
	}
	w.note("task", "")
	if w.journal.seen(payload.TaskID, payload.ExpiresAt) {
		w.Logger.Info("the gateway gave this node a task again: it is not done again", "task", payload.TaskID)
		w.later(time.Second)
		return false, nil
	}
	if err := w.journal.accept(payload.TaskID, signed, payload.ExpiresAt); err != nil {
		w.noteJournal(err)
		w.later(w.backoff.Next())
		return false, nil
	}
	told := w.begin(entry{id: payload.TaskID, step: stepAccepted, signed: signed, expires: payload.ExpiresAt}, free)
	select { // until the gateway knows, it would give the same task again
	case <-told:
	case <-ctx.Done():
	}
	return true, nil
}

// Refusals of a task that the gateway cannot be answered about, because the task is none of this node's.
var (
	errNoTask         = errors.New("its id is none")
	errOtherNode      = errors.New("it is for another node")
	errOtherEnrolment = errors.New("it is for another enrolment of this node")
	errTooLong        = fmt.Errorf("it may wait for more than %v", wire.MaxTaskLife)
)

// verify checks the signature first, and then whether the task is this node's.
func verify(state identity.State, signed wire.SignedTask) (wire.TaskPayload, error) {
	payload, _, err := sign.OpenTask(signed, taskKeys(state))
	switch {
	case errors.Is(err, sign.ErrBadProof):
		return payload, fmt.Errorf("%w it: its key was replaced or dropped since, or it is forged (muster key ls on the gateway lists the keys)",
			trust.ErrUnknownKey)
	case err != nil:
		return payload, err
	case wire.CheckTaskID(payload.TaskID) != nil:
		return payload, errNoTask
	case payload.NodeID != state.NodeID:
		return payload, errOtherNode
	case payload.Enrolment != state.Enrolment:
		return payload, errOtherEnrolment
	case payload.ExpiresAt.Sub(payload.IssuedAt) > wire.MaxTaskLife:
		return payload, errTooLong
	}
	return payload, nil
}

// taskKeys are the keys that the pinned trust set names for tasks.
func taskKeys(state identity.State) []ed25519.PublicKey {
	set, err := trust.Pinned(state.Gateway)
	if err != nil {
		return nil
	}
	var keys []ed25519.PublicKey
	for _, text := range set.TaskKeys {
		if key, err := sign.DecodeKey(text); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
