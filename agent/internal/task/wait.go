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
	"muster/agent/sign"
	"muster/agent/wire"
)

const (
	// answerTime is how long before the end of a wait the gateway answers, so that the connection stays open for the next report.
	answerTime = 500 * time.Millisecond
	// lateTime is how long an answer may come after the time for which the gateway was asked to wait.
	lateTime = 15 * time.Second
	// placeTime is how long a place for a task is waited for before sessions alone are asked for.
	placeTime = 500 * time.Millisecond
)

// Wait asks the gateway for a task or a session, as the node that state says, until ctx is done or until says so. It returns before that
// only if there was one, if the gateway has answered for the whole time or wants a report, or if a task can be taken now and could not
// before. So it may be called again at once, whatever happened. If no task can be taken, it asks for sessions alone.
//
// The error wraps identity.ErrUnknownKey if the key that has signed a document is not named in the pinned trust set: a newer set may name
// it.
func (w *Worker) Wait(ctx context.Context, state identity.State, until time.Time) error {
	w.learn(state)
	if state.Enrolment == "" || !w.sleep(ctx) {
		<-ctx.Done()
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, placeTime)
	place, ok := w.place(patient)
	cancel()
	if ok {
		defer place.leave()
		return w.wait(ctx, state, until, place)
	}
	return w.waitForSessions(ctx, state, until)
}

// place is what a task needs that may come: that nobody keeps tasks out, and a slot.
type place struct {
	*Worker
	given bool // the task has the slot
}

// place waits until a task can be taken. It reports false if ctx is done before, and if nobody knows when that will be.
func (w *Worker) place(ctx context.Context) (*place, bool) {
	if !enter(ctx, w.door) {
		return nil, false
	}
	if w.asked.Load() >= most || !w.isReady(ctx) || !w.canRecord() || !enter(ctx, w.slots) {
		w.goOut()
		return nil, false
	}
	return &place{Worker: w}, true
}

func (p *place) leave() {
	if !p.given {
		p.free()
	}
	p.goOut()
}

func (p *place) free() { <-p.slots }

// waitForSessions asks for sessions alone. It returns as soon as there is a place for a task.
func (w *Worker) waitForSessions(ctx context.Context, state identity.State, until time.Time) error {
	bounded, cut := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		if place, ok := w.place(bounded); ok {
			place.leave()
			cut()
		}
	}()
	defer func() { cut(); <-looked }()
	return w.wait(bounded, state, until, nil)
}

// wait asks the gateway once, for tasks too where there is a place for one.
func (w *Worker) wait(ctx context.Context, state identity.State, until time.Time, place *place) error {
	began := time.Now()
	seconds := int(max(0, min(until.Sub(began)-answerTime, wire.MaxTaskWait)) / time.Second)
	if seconds == 0 { // there is no time to wait: ask for what is there, and not at the pace of fast reports
		w.later(time.Second)
	}
	signed, err := w.ask(ctx, state.NodeID, seconds, place != nil)
	if err == nil || errors.Is(err, errReport) {
		w.heard.Store(true)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, errReport):
		w.later(time.Second) // however often the gateway says it
		w.News()
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
	if err = w.take(ctx, state, *signed, place); err != nil {
		w.pause = until
	}
	return err
}

// errReport is the gateway's word that the node should report at once.
var errReport = errors.New("the gateway has news for the next report")

// isReady waits until Run has taken up what was left. It reports false if ctx was done before.
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

// sleep waits for the planned moment. It reports false if ctx is done before, or in the same moment.
func (w *Worker) sleep(ctx context.Context) bool {
	pause := time.Until(w.pause)
	if end, bounded := ctx.Deadline(); bounded && !w.pause.Before(end) {
		return false
	}
	return pause <= 0 || transport.Sleep(ctx, pause)
}

// ask waits at the gateway. nil without an error: there is nothing to do.
func (w *Worker) ask(ctx context.Context, nodeID string, seconds int, tasks bool) (*wire.SignedTask, error) {
	wants := wire.WaitSessions + "," + wire.WaitReport
	if tasks {
		wants = wire.WaitTasks + "," + wants
	}
	query := "?" + wire.TaskWaitSeconds + "=" + strconv.Itoa(seconds) + "&" + wire.TaskWaitFor + "=" + wants
	limit := time.Duration(seconds)*time.Second + lateTime
	answer, err := w.Client.Do(ctx, transport.Request{Path: wire.TaskWaitPath(nodeID) + query, Timeout: limit})
	if err != nil || answer.Status == http.StatusNoContent {
		return nil, err
	}
	var said struct {
		wire.SignedTask
		wire.ReportNow
	}
	if err := json.Unmarshal(answer.Body, &said); err != nil {
		return nil, fmt.Errorf("read the gateway's answer: %w", err)
	}
	if said.Report {
		return nil, errReport
	}
	return &said.SignedTask, nil
}

// take believes a task or a session, or refuses it. What it believes of a task is in the journal before anything else happens. A task that
// gets the place has its slot from then on, and gives it back.
func (w *Worker) take(ctx context.Context, state identity.State, signed wire.SignedTask, place *place) error {
	payload, key, err := open(state, signed)
	if err == nil && wire.IsSession(payload.Type) {
		w.Session(state, payload, key)
		return nil
	}
	if err == nil {
		err = meant(state, payload)
	}
	if err != nil {
		w.note("task", fmt.Sprintf("the gateway gave this node a task that was refused: %v", err))
		return err
	}
	w.note("task", "")
	if place == nil { // it was not asked for, and will be given again
		w.later(time.Second)
		return nil
	}
	if w.journal.seen(payload.TaskID, payload.ExpiresAt) {
		w.Logger.Info("the gateway gave this node a task again: it is not done again", "task", payload.TaskID)
		w.later(time.Second)
		return nil
	}
	if err := w.journal.accept(payload.TaskID, signed, payload.ExpiresAt); err != nil {
		w.noteJournal(err)
		w.later(w.backoff.Next())
		return nil
	}
	place.given = true
	told := w.begin(entry{record: record{Task: payload.TaskID, Step: stepAccepted, Signed: &signed, Expires: payload.ExpiresAt}}, place.free)
	select { // until the gateway knows, it would give the same task again
	case <-told:
	case <-ctx.Done():
	}
	return nil
}

// open checks the signature, and reads the document after that.
func open(state identity.State, signed wire.SignedTask) (wire.TaskPayload, ed25519.PublicKey, error) {
	payload, key, err := sign.OpenTask(signed, identity.TaskKeys(state.Gateway))
	if errors.Is(err, sign.ErrBadProof) {
		err = fmt.Errorf("%w it: its key was replaced or dropped since, or it is forged (muster key ls on the gateway lists the keys)",
			identity.ErrUnknownKey)
	}
	return payload, key, err
}

// meant refuses a task that is none of this node's. The gateway cannot be answered about such a task.
func meant(state identity.State, payload wire.TaskPayload) error {
	switch {
	case wire.CheckTaskID(payload.TaskID) != nil:
		return errors.New("its id is none")
	case payload.NodeID != state.NodeID:
		return errors.New("it is for another node")
	case payload.Enrolment != state.Enrolment:
		return errors.New("it is for another enrolment of this node")
	case payload.ExpiresAt.Sub(payload.IssuedAt) > wire.MaxTaskLife:
		return fmt.Errorf("it may wait for more than %v", wire.MaxTaskLife)
	}
	return nil
}
