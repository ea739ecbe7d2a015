package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// order queues a task with params.
func (h *hall) order(node, kind, params string) string {
	h.t.Helper()
	made, _, err := h.Create(context.Background(), "", task.Request{Node: node, Type: kind, Params: json.RawMessage(params)}, operator())
	must(h.t, err)
	return made.ID
}

// silence lets so much time pass, in which the gateway is at work.
func (h *hall) silence(d time.Duration) {
	h.t.Helper()
	for ; d > 0; d -= 30 * time.Second {
		h.clock.Forward(30 * time.Second)
		must(h.t, h.Sweep(context.Background()))
	}
}

func (h *hall) statuses(ids ...string) string {
	h.t.Helper()
	var all []string
	for _, id := range ids {
		all = append(all, h.get(id).Status)
	}
	return strings.Join(all, " ")
}

const (
	ada      = `{"username":"ada"}`
	bob      = `{"username":"bob"}`
	everyone = `{"all":true}`
)

// TestNothingAgainAfterRestore: what a backup had open, and what it had lost, was perhaps done and undone since. Only a person gives it
// again, once.
func TestNothingAgainAfterRestore(t *testing.T) {
	h := newHall(t, "n", "m")
	n := h.claimer("n")
	h.heard("n")
	lost := h.order("n", wire.TaskDiagCollect, "{}")
	h.take(n)
	h.begin(n, lost)
	h.clock.Forward(time.Minute)
	h.sweepWithoutRepeat(lost)
	begun := h.order("n", wire.TaskProvisionUser, ada)
	h.take(n)
	h.begin(n, begun)
	waits := h.order("n", wire.TaskProvisionUser, bob)
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: h.clock.Now(), BackupAt: start, AdoptUntil: start}))
	h.open()
	h.silence(time.Hour)
	if got := h.take(n); got != "" {
		t.Errorf("%s was given out", got)
	}
	all, _, err := h.Tasks(t.Context(), store.TaskQuery{Lost: true})
	must(t, err)
	if len(all) != 3 || h.statuses(lost, begun, waits) != "lost lost lost" {
		t.Fatalf("%d are lost: %s", len(all), h.statuses(lost, begun, waits))
	}
	by := store.Actor{Name: "account:eve", Address: "192.0.2.9"}
	again, err := h.Retry(t.Context(), "default", begun, by)
	if err != nil || again.RetryOf != begun || again.CreatedBy != by.Name || again.Repeats != 2 || h.take(n) != again.ID {
		t.Errorf("%+v, %v", again, err)
	}
	if payload := task.Params(again); string(payload) != ada {
		t.Errorf("it has the params %s", payload)
	}
	for _, id := range []string{begun, again.ID} { // given again already, and not lost
		_, err := h.Retry(t.Context(), "", id, by)
		wantCode(t, err, wire.CodeIllegalMove)
	}
	_, err = h.Retry(t.Context(), "another", waits, by)
	wantCode(t, err, wire.CodeNotFound)
	if all, _, err = h.Tasks(t.Context(), store.TaskQuery{Lost: true}); err != nil || len(all) != 2 {
		t.Errorf("%d are lost, %v", len(all), err)
	}
	h.move("n", "active", "retired")
	_, err = h.Retry(t.Context(), "", waits, by)
	wantCode(t, err, wire.CodeIllegalMove)
}

// sweepWithoutRepeat ends a task as lost as the store does it, and leaves it so: the backup is made before the desk has looked.
func (h *hall) sweepWithoutRepeat(id string) {
	h.t.Helper()
	now := h.clock.Now()
	_, err := h.store.SweepTasks(context.Background(), store.TaskSweep{At: now, Begun: now, Delivered: start, Deliveries: 10})
	must(h.t, err)
	if got := h.get(id); got.Status != wire.TaskLost || got.Repeats == 0 {
		h.t.Fatalf("%+v", got)
	}
}

// TestOrderOnOneSubject: what was asked for later is what stands in the end, whatever is lost, held back or given out again meanwhile.
func TestOrderOnOneSubject(t *testing.T) {
	for name, run := range map[string]func(h *hall, n task.Claimer){
		"a delivery that was lost": func(h *hall, n task.Claimer) {
			first := h.order("n", wire.TaskProvisionUser, ada)
			second := h.order("n", wire.TaskDeprovisionUser, ada)
			other := h.order("n", wire.TaskDeprovisionUser, bob)
			if got := h.take(n); got != first {
				h.t.Errorf("got %q", got)
			}
			if got := h.take(n); got != other {
				h.t.Errorf("got %q while another of its subject was given out", got)
			}
			h.end(n, first)
			h.end(n, other)
			if got := h.take(n); got != second {
				h.t.Errorf("got %q", got)
			}
		},
		"behind another of the first one's type": func(h *hall, n task.Claimer) {
			h.order("n", wire.TaskProvisionUser, bob)
			first := h.order("n", wire.TaskProvisionUser, ada)
			second := h.order("n", wire.TaskDeprovisionUser, everyone)
			h.take(n)
			if got := h.take(n); got != "" || task.WaitingFor(h.get(second)) == "" || h.statuses(first) != "queued" {
				h.t.Errorf("got %q", got)
			}
		},
		"a drained node": func(h *hall, n task.Claimer) {
			first := h.order("n", wire.TaskProvisionUser, ada)
			other := h.order("n", wire.TaskProvisionUser, bob)
			h.move("n", "active", "drained")
			second := h.order("n", wire.TaskDeprovisionUser, ada)
			if got := h.take(n); got != second {
				h.t.Fatalf("got %q", got)
			}
			h.end(n, second)
			h.move("n", "drained", "active")
			if got := h.take(n); got != other {
				h.t.Errorf("got %q, which undoes what was done", got)
			}
			must(h.t, h.Sweep(context.Background()))
			if got := h.get(first); got.Status != wire.TaskCanceled || !strings.Contains(got.Error, "later task") {
				h.t.Errorf("%s: %s", got.Status, got.Error)
			}
		},
		"a long silence": func(h *hall, n task.Claimer) {
			first := h.order("n", wire.TaskProvisionUser, ada)
			h.take(n)
			h.begin(n, first)
			second := h.order("n", wire.TaskDeprovisionUser, ada)
			h.silence(wire.TaskLease + time.Minute)
			if got := h.get(first); got.Status != wire.TaskLost || got.RetriedAs != "" {
				h.t.Errorf("it is %s, repeated as %q", got.Status, got.RetriedAs)
			}
			if got := h.take(n); got != second {
				h.t.Fatalf("got %q", got)
			}
			h.end(n, second)
			h.silence(time.Hour)
			_, err := h.Retry(context.Background(), "", first, operator())
			wantCode(h.t, err, wire.CodeIllegalMove)
			if got := h.take(n); got != "" {
				h.t.Errorf("got %q", got)
			}
		},
		"a later one that was never given out": func(h *hall, n task.Claimer) {
			first := h.order("n", wire.TaskProvisionUser, ada)
			h.take(n)
			h.begin(n, first)
			second := h.order("n", wire.TaskDeprovisionUser, ada)
			_, err := h.Cancel(context.Background(), "", second, operator())
			must(h.t, err)
			h.silence(wire.TaskLease + time.Minute)
			if got := h.get(first); got.RetriedAs == "" {
				h.t.Error("it is not repeated")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHall(t, "n")
			h.heard("n")
			h.t = t
			run(h, h.claimer("n"))
		})
	}
}

// TestRetryRace: of many who give a task again at once, one does.
func TestRetryRace(t *testing.T) {
	h := newHall(t, "n")
	id := h.order("n", wire.TaskProvisionUser, ada)
	must(t, h.store.NoteRestore(t.Context(), store.Restoration{At: h.clock.Now(), BackupAt: start, AdoptUntil: start}))
	ends := make(chan error)
	for range 20 {
		go func() { _, err := h.Retry(context.Background(), "", id, operator()); ends <- err }()
	}
	var all []error
	for range 20 {
		all = append(all, <-ends)
	}
	refused := slices.DeleteFunc(all, func(err error) bool { return err == nil })
	if len(refused) != 19 {
		t.Errorf("%d were refused: %v", len(refused), errors.Join(refused...))
	}
}
