package task_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// TestLife is a task from its making to its result.
func TestLife(t *testing.T) {
	h := newHall(t, "n", "m")
	ctx := t.Context()
	made := h.make("n", wire.TaskDiagCollect)
	if made.Status != wire.TaskQueued || made.NodeID != "id-n" || made.EnrolmentID != "e-n" || made.CreatedBy != "operator:socket" ||
		!made.ExpiresAt.Equal(start.Add(time.Hour)) || h.Waiting("id-n") != 1 {
		t.Errorf("got %+v", made)
	}
	if got := h.take(h.claimer("m")); got != "" {
		t.Errorf("another node got %s", got)
	}
	n := h.claimer("n")
	if got := h.take(n); got != made.ID {
		t.Fatalf("got %q, want %q", got, made.ID)
	}
	if got := h.get(made.ID); got.Status != wire.TaskDispatched || got.ClaimFingerprint != "print-n" ||
		got.ClaimedAt == nil || got.Deliveries != 1 {
		t.Errorf("got %+v", got)
	}
	h.clock.Forward(time.Second)
	h.begin(n, made.ID)
	again, err := h.Started(ctx, n, made.ID) // the answer was lost
	if must(t, err); !again.Begun || again.Cancel {
		t.Errorf("told again: %+v", again)
	}
	if h.Waiting("id-n") != 0 {
		t.Error("it waits still")
	}
	for range 2 {
		progress, err := h.Output(ctx, n, made.ID, wire.TaskOutput{Data: []byte("hello")})
		if must(t, err); progress.Cancel {
			t.Error("it is to be canceled")
		}
	}
	log, err := h.Log(ctx, h.get(made.ID))
	must(t, err)
	if string(log.Head) != "hello" || log.Bytes != 5 || log.Truncated {
		t.Errorf("got %+v", log)
	}
	h.clock.Forward(time.Second)
	end := func(r *wire.TaskResult) {
		r.FinishedAt = start.Add(1500 * time.Millisecond)
		r.Values = wire.TaskValues{"found": []byte(`{"a":[1]}`)}
		r.Output = wire.TaskLog{Head: []byte("hello "), Tail: []byte("you"), Bytes: 9}
	}
	must(t, h.Result(ctx, n, made.ID, result(end)))
	got := h.get(made.ID)
	if got.Status != wire.TaskCompleted || *got.ExitCode != 0 || !got.FinishedAt.Equal(start.Add(1500*time.Millisecond)) ||
		!got.StartedAt.Equal(start.Add(time.Second)) || got.Values != `{"found":{"a":[1]}}` || got.Proof != "tls:print-n" || got.Bytes != 9 {
		t.Errorf("got %+v", got)
	}
	log, err = h.Log(ctx, got)
	must(t, err)
	if string(log.Head)+string(log.Tail) != "hello you" || log.Truncated {
		t.Errorf("got %+v", log)
	}
	if want := []string{"task.created ok", "task.finished completed"}; !slices.Equal(h.events(), want) {
		t.Errorf("got events %q", h.events())
	}
}

// TestTwoClaims: many wait, and each task goes to one of them.
func TestTwoClaims(t *testing.T) {
	h := newHall(t, "n")
	types := []string{wire.TaskDiagCollect, wire.TaskWorkloadStatus, wire.TaskAgentRestart}
	for _, kind := range types {
		h.make("n", kind)
	}
	var got sync.Map
	var count atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			signed, err := h.Wait(context.Background(), h.claimer("n"), 0, task.Takes{Tasks: true})
			if err != nil {
				t.Error(err)
			}
			if signed == nil {
				return
			}
			count.Add(1)
			if _, twice := got.LoadOrStore(string(signed.Payload), true); twice {
				t.Error("one task went out twice")
			}
		})
	}
	all.Wait()
	if int(count.Load()) != len(types) {
		t.Errorf("%d tasks went out, want %d", count.Load(), len(types))
	}
}

// TestOldProcess is the incident: an old process with a certificate that was good claims a task, and its replacement is the real machine.
// The old one may not say that it was done.
func TestOldProcess(t *testing.T) {
	t.Run("the node renewed", func(t *testing.T) {
		h := newHall(t, "n")
		old := h.claimer("n")
		id := h.make("n", wire.TaskDiagCollect).ID
		h.take(old)
		h.begin(old, id)
		renewed := h.renew("n")
		wantCode(t, h.Result(t.Context(), old, id, result(nil)), wire.CodeClaimMismatch)
		if got := h.get(id); got.Status != wire.TaskRunning || got.ClaimFingerprint != renewed.Fingerprint {
			t.Errorf("got %+v", got)
		}
		h.end(renewed, id)
		want := []string{"task.created ok", "task.result_refused claim_mismatch", "task.finished completed"}
		if !slices.Equal(h.events(), want) {
			t.Errorf("got events %q", h.events())
		}
	})
	t.Run("the node enrolled again", func(t *testing.T) {
		h := newHall(t, "n")
		old := h.claimer("n")
		id := h.make("n", wire.TaskDiagCollect).ID
		waits := h.make("n", wire.TaskAgentRestart).ID
		h.take(old)
		h.begin(old, id)
		h.again("n")
		for _, c := range []task.Claimer{old, {NodeID: "id-n", Enrolment: "e2-n", Fingerprint: "print2-n"}} {
			err := h.Result(t.Context(), c, id, result(nil))
			want := wire.CodeTaskFinished
			if c.Enrolment != "e-n" {
				want = wire.CodeClaimMismatch
			}
			wantCode(t, err, want)
			if got := h.take(c); got != "" {
				t.Errorf("%s got the task %s", c.Fingerprint, got)
			}
		}
		if lost, canceled := h.get(id), h.get(waits); lost.Status != wire.TaskLost || canceled.Status != wire.TaskCanceled {
			t.Errorf("got %s and %s", lost.Status, canceled.Status)
		}
		must(t, h.Sweep(t.Context()))
		if lost := h.get(id); lost.RetriedAs != "" {
			t.Error("a task of the earlier enrolment was queued for the new one")
		}
	})
}

// TestClaimConditions: what keeps a task back, and what does not.
func TestClaimConditions(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    string
		prepare func(h *hall, id string) task.Claimer
		want    bool
		why     string
	}{
		{"an active node", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer { return h.claimer("n") }, true, ""},
		{"drained, a type that may run there", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			h.move("n", "active", "drained")
			return h.claimer("n")
		}, true, ""},
		{"drained, another type", wire.TaskProvisionUser, func(h *hall, _ string) task.Claimer {
			h.move("n", "active", "drained")
			return h.claimer("n")
		}, false, "its node is drained"},
		{"unavailable", wire.TaskProvisionUser, func(h *hall, _ string) task.Claimer {
			h.move("n", "active", "unavailable")
			return h.claimer("n")
		}, false, "its node is unavailable"},
		{"in conflict", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			must(h.t, h.store.MoveNode(h.t.Context(), store.Move{NodeID: "id-n", From: "active", To: "unavailable", At: start,
				AddReasons: []store.Reason{{Reason: wire.ReasonConflict}}}))
			return h.claimer("n")
		}, false, "two machines use its node's identity"},
		{"an old certificate", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			h.renew("n")
			return h.claimer("n")
		}, false, ""},
		{"a renewed certificate", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer { return h.renew("n") }, true, ""},
		{"another enrolment", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			other := h.claimer("n")
			other.Enrolment = "e-other"
			return other
		}, false, ""},
		{"a second before it expires", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			h.clock.Forward(time.Hour - time.Second)
			return h.claimer("n")
		}, true, ""},
		{"expired", wire.TaskDiagCollect, func(h *hall, _ string) task.Claimer {
			h.clock.Forward(time.Hour)
			return h.claimer("n")
		}, false, ""},
		{"canceled", wire.TaskDiagCollect, func(h *hall, id string) task.Claimer {
			_, err := h.Cancel(h.t.Context(), "", id, operator())
			must(h.t, err)
			return h.claimer("n")
		}, false, ""},
		{"behind another of its type", wire.TaskDiagCollect, func(h *hall, id string) task.Claimer {
			if got := h.take(h.claimer("n")); got != id {
				h.t.Fatalf("got %q", got)
			}
			return h.claimer("n")
		}, false, "its node is at work on another task of this type, or has an earlier one on the same account or workload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHall(t, "n")
			q := task.Request{Node: "n", Type: c.kind}
			if c.kind == wire.TaskProvisionUser {
				q.Params = []byte(`{"username":"ada"}`)
			}
			first, _, err := h.Create(t.Context(), "", q, operator())
			must(t, err)
			claimer := c.prepare(h, first.ID)
			last := first
			if c.why != "" {
				last, _, err = h.Create(t.Context(), "", q, operator())
				must(t, err)
				if got := task.WaitingFor(h.get(last.ID)); got != c.why {
					t.Errorf("it waits for %q, want %q", got, c.why)
				}
			}
			if got := h.take(claimer); (got != "") != c.want {
				t.Errorf("got %q, want a task: %v", got, c.want)
			}
		})
	}
}

// TestDeliveredAgain: an answer that was lost. The same certificate gets the task again after a while, nobody else does, and not for ever.
func TestDeliveredAgain(t *testing.T) {
	h := newHall(t, "n")
	n := h.claimer("n")
	id := h.make("n", wire.TaskDiagCollect).ID
	for i := range 10 {
		if got := h.take(n); got != id {
			t.Fatalf("delivery %d: got %q", i, got)
		}
		if got := h.take(n); got != "" {
			t.Errorf("delivery %d: given out again at once", i)
		}
		h.clock.Forward(10*time.Second + time.Millisecond)
	}
	if got := h.take(n); got != "" {
		t.Error("given out for the eleventh time")
	}
	must(t, h.Sweep(t.Context()))
	if got := h.get(id); got.Status != wire.TaskFailed || got.Error != "the node never began it: see its notices" {
		t.Errorf("got %s: %s", got.Status, got.Error)
	}
	begun := h.make("n", wire.TaskDiagCollect).ID
	h.take(n)
	h.begin(n, begun)
	h.clock.Forward(time.Minute)
	if got := h.take(n); got != "" {
		t.Error("a task that had begun was given out again")
	}
}

// TestRaceForTheEnd: claim, cancel, expiry and renewal at once. Whatever comes first, a task has one end, and one certificate.
func TestRaceForTheEnd(t *testing.T) {
	for i := range 20 {
		h := newHall(t, "n")
		id := h.make("n", wire.TaskDiagCollect).ID
		h.clock.Forward(time.Hour - time.Millisecond)
		ctx := context.Background()
		var all sync.WaitGroup
		var renewed task.Claimer
		all.Go(func() { _, _ = h.Wait(ctx, h.claimer("n"), 0, task.Takes{Tasks: true}) })
		all.Go(func() { _, _ = h.Cancel(ctx, "", id, operator()) })
		all.Go(func() { renewed = h.renew("n") })
		all.Go(func() {
			h.clock.Forward(time.Millisecond)
			if err := h.Sweep(ctx); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		must(t, h.Sweep(ctx))
		got := h.get(id)
		ends := 0
		for _, e := range h.events() {
			if e != "task.created ok" && e != "task.cancel_asked ok" {
				ends++
			}
		}
		if !wire.TaskEnded(got.Status) || ends != 1 {
			t.Fatalf("run %d: %s with the events %q", i, got.Status, h.events())
		}
		if got.ClaimFingerprint != "" && got.ClaimFingerprint != "print-n" && got.ClaimFingerprint != renewed.Fingerprint {
			t.Errorf("run %d: claimed by %s", i, got.ClaimFingerprint)
		}
	}
}

// TestStatusesAgree: the store has words of its own, because it may not know the protocol.
func TestStatusesAgree(t *testing.T) {
	got := []string{store.TaskQueued, store.TaskDispatched, store.TaskRunning, store.TaskCompleted, store.TaskFailed, store.TaskExpired,
		store.TaskCanceled, store.TaskLost}
	if fmt.Sprint(got) != fmt.Sprint(wire.TaskStatuses()) {
		t.Errorf("the store has %q, the protocol %q", got, wire.TaskStatuses())
	}
}
