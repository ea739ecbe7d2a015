package store_test

import (
	"reflect"
	"testing"
	"time"

	"muster/store"
)

// TestTasksEndWithIdentity: whatever ends an identity ends what it has claimed, in the same batch, each with its event.
func TestTasksEndWithIdentity(t *testing.T) {
	at := after(10 * time.Minute)
	again := func(s *store.Store) error {
		e := enrolment("mse_many", "n")
		e.ID = "enrolment-2"
		e.KeyHash = "key-2"
		e.Certificate.Fingerprint = "print-2"
		e.At = at
		e.NewNode = false
		e.TakeOver = &store.TakeOver{EnrolmentID: "enrolment-n", State: "enrolled"}
		return s.Enrol(t.Context(), e)
	}
	for name, c := range map[string]struct {
		end                func(*store.Store) error
		held, begun, waits string
		repeats            int
	}{
		"enrolled again": {again, store.TaskLost, store.TaskLost, store.TaskCanceled, 0},
		"retired": {func(s *store.Store) error {
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "retired", At: at})
		}, store.TaskLost, store.TaskLost, store.TaskCanceled, 0},
		"banned": {func(s *store.Store) error {
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "retired", At: at, Ban: true})
		}, store.TaskLost, store.TaskLost, store.TaskCanceled, 0},
		"revoked": {func(s *store.Store) error {
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: at, RevokeCertificates: true})
		}, store.TaskLost, store.TaskLost, store.TaskCanceled, 0},
		"another certificate was chosen": {func(s *store.Store) error {
			must(t, s.AddCertificate(t.Context(), renewed("n", 2), "print-n"))
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: at, KeepCertificate: "print-n/2"})
		}, store.TaskLost, store.TaskLost, store.TaskQueued, 2},
		"its own certificate was chosen": {func(s *store.Store) error {
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: at, KeepCertificate: "print-n"})
		}, store.TaskDispatched, store.TaskRunning, store.TaskQueued, 2},
		"drained": {func(s *store.Store) error {
			return s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "drained", At: at})
		}, store.TaskDispatched, store.TaskRunning, store.TaskQueued, 2},
		"restored": {func(s *store.Store) error {
			return s.NoteRestore(t.Context(), store.Restoration{At: at, BackupAt: day(), AdoptUntil: at})
		}, store.TaskLost, store.TaskLost, store.TaskLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := enrolled(t, "n", "m")
			claimed(t, s, "held", "n")
			running(t, s, "begun", "n")
			running(t, s, "other", "m")
			must(t, s.CreateTask(t.Context(), queued("waits", "n")))
			must(t, c.end(s))
			events := 0
			for id, want := range map[string]string{"held": c.held, "begun": c.begun, "waits": c.waits} {
				got := getTask(t, s, id)
				if got.Status != want || got.Repeats != c.repeats || (got.FinishedAt != nil) != (got.Error != "") {
					t.Errorf("%s is %s, want %s: %+v", id, got.Status, want, got)
				}
				if got.FinishedAt != nil {
					events++
				}
			}
			if other := getTask(t, s, "other"); name != "restored" && other.Status != store.TaskRunning {
				t.Errorf("another node's task is %s", other.Status)
			}
			lost, err := s.Events(t.Context(), store.EventQuery{Node: "id-n", Kind: "task.lost"})
			must(t, err)
			canceled, err := s.Events(t.Context(), store.EventQuery{Node: "id-n", Kind: "task.canceled", Security: true})
			must(t, err)
			if len(lost)+len(canceled) != events {
				t.Errorf("got %d and %d events for %d ends", len(lost), len(canceled), events)
			}
			for _, e := range lost {
				if e.Outcome != store.TaskLost || e.NodeName != "n" || e.Tenant != "default" || e.Detail["why"] == "" || e.Detail["task"] == "" ||
					!e.At.Equal(at) {
					t.Errorf("got the event %+v", e)
				}
			}
		})
	}
}

// TestPromoteMovesClaims: open claims go to the next certificate, and what has ended keeps the one that ended it.
func TestPromoteMovesClaims(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	running(t, s, "ended", "n")
	must(t, s.FinishTask(ctx, store.TaskResult{ID: "ended", Fingerprint: "print-n", Status: store.TaskCompleted, At: after(4 * time.Minute)}))
	running(t, s, "begun", "n")
	claimed(t, s, "held", "n")
	must(t, s.CreateTask(ctx, queued("waits", "n")))
	must(t, s.AddCertificate(ctx, renewed("n", 2), "print-n"))
	must(t, s.PromoteCertificate(ctx, "print-n/2", after(16*time.Hour)))
	for id, want := range map[string]string{"ended": "print-n", "begun": "print-n/2", "held": "print-n/2", "waits": ""} {
		if got := getTask(t, s, id).ClaimFingerprint; got != want {
			t.Errorf("%s is claimed by %q, want %q", id, got, want)
		}
	}
	wantError(t, s.FinishTask(ctx, store.TaskResult{ID: "begun", Fingerprint: "print-n", Status: store.TaskCompleted, At: day()}),
		store.ErrConflict)
}

// TestSweepTasks: what is overdue ends, each in its way, and nothing else does.
func TestSweepTasks(t *testing.T) {
	s := enrolled(t, "n", "loud")
	ctx := t.Context()
	claimed(t, s, "held", "loud")
	running(t, s, "silent", "n")
	running(t, s, "heard", "loud")
	running(t, s, "old", "loud")
	must(t, s.CreateTask(ctx, queued("waits", "n")))
	at := after(time.Hour)
	must(t, s.SaveBeats(ctx, []store.Beat{{NodeID: "id-loud", At: at, RunID: "r"}}, at))
	must(t, s.AddTaskOutput(ctx, store.TaskOutput{ID: "silent", Fingerprint: "print-n", File: "archive",
		TaskPiece: store.TaskPiece{Data: []byte("half a file")}}))
	sweep := func(q store.TaskSweep) map[string]bool {
		q.Deliveries = 10
		ended, err := s.SweepTasks(ctx, q)
		must(t, err)
		ids := map[string]bool{}
		for _, e := range ended {
			ids[e.ID+" of "+e.NodeID] = true
		}
		return ids
	}
	if got := sweep(store.TaskSweep{At: at.Add(-time.Millisecond), Begun: day(), Delivered: at}); len(got) != 0 {
		t.Errorf("ended too early: %v", got)
	}
	want := map[string]bool{"waits of id-n": true, "held of id-loud": true}
	if got := sweep(store.TaskSweep{At: at, Begun: day(), Delivered: at}); !reflect.DeepEqual(got, want) {
		t.Errorf("expired: got %v, want %v", got, want)
	}
	want = map[string]bool{"silent of id-n": true}
	silent := store.TaskSweep{At: at, Begun: day(), Delivered: at, Silent: at.Add(-time.Minute), Heard: []string{"x", "heard", "old"}}
	if got := sweep(silent); !reflect.DeepEqual(got, want) {
		t.Errorf("silent: got %v, want %v", got, want)
	}
	pieces, err := s.TaskPieces(ctx, "silent", "archive", 0, 1)
	if err != nil || len(pieces) != 0 {
		t.Errorf("half a file is left: %v, %v", pieces, err)
	}
	want = map[string]bool{"heard of id-loud": true}
	silent.Heard = []string{"old"}
	if got := sweep(silent); !reflect.DeepEqual(got, want) {
		t.Errorf("forgotten: got %v, want %v", got, want)
	}
	want = map[string]bool{"old of id-loud": true}
	if got := sweep(store.TaskSweep{At: at, Begun: at, Delivered: at}); !reflect.DeepEqual(got, want) {
		t.Errorf("begun long ago: got %v, want %v", got, want)
	}
	for id, want := range map[string]string{"waits": store.TaskExpired, "held": store.TaskExpired, "silent": store.TaskLost,
		"heard": store.TaskLost, "old": store.TaskLost} {
		if got := getTask(t, s, id); got.Status != want || got.Error == "" || got.Digest != "" {
			t.Errorf("%s: got %+v", id, got)
		}
	}
	if n := countEvents(t, s, store.EventQuery{Kind: "task.expired"}) + countEvents(t, s, store.EventQuery{Kind: "task.lost"}); n != 5 {
		t.Errorf("got %d events, want 5", n)
	}
}

// TestRepeatTask: a lost task is queued anew once, for the same enrolment, while it may be.
func TestRepeatTask(t *testing.T) {
	s := enrolled(t, "n", "m")
	ctx := t.Context()
	running(t, s, "a", "n")
	running(t, s, "b", "m")
	next := queued("a2", "n")
	next.RetryOf = "a"
	next.Repeats = 1
	wantError(t, s.RepeatTask(ctx, next, 2), store.ErrConflict) // it is not lost
	at := after(time.Hour)
	_, err := s.SweepTasks(ctx, store.TaskSweep{At: at, Begun: at, Delivered: at, Deliveries: 10})
	must(t, err)
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-m", From: "enrolled", To: "retired", At: at}))
	lost, err := s.LostTasks(ctx)
	if err != nil || len(lost) != 1 || lost[0].ID != "a" {
		t.Fatalf("got %+v, %v", lost, err)
	}
	must(t, s.RepeatTask(ctx, next, 2))
	wantError(t, s.RepeatTask(ctx, next, 2), store.ErrConflict)
	if lost, err = s.LostTasks(ctx); err != nil || len(lost) != 0 {
		t.Errorf("got %+v, %v", lost, err)
	}
	first, second := getTask(t, s, "a"), getTask(t, s, "a2")
	if first.RetriedAs != "a2" || second.RetryOf != "a" || second.Status != store.TaskQueued || second.Repeats != 1 {
		t.Errorf("got %+v and %+v", first, second)
	}
	tooOften := queued("a3", "n")
	tooOften.RetryOf = "a2"
	tooOften.Repeats = 1
	wantError(t, s.RepeatTask(ctx, tooOften, 2), store.ErrConflict)
}

// TestAskCancel: what waits ends at once, what is under way is asked once, and what has ended is not touched.
func TestAskCancel(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	by := store.Actor{Name: "account:ci", Address: "192.0.2.9"}
	at := after(5 * time.Minute)
	running(t, s, "begun", "n")
	must(t, s.CreateTask(ctx, queued("waits", "n")))
	must(t, s.AskCancel(ctx, "waits", at, by))
	wantError(t, s.AskCancel(ctx, "waits", at, by), store.ErrConflict)
	wantError(t, s.AskCancel(ctx, "none", at, by), store.ErrConflict)
	must(t, s.AskCancel(ctx, "begun", at, by))
	must(t, s.AskCancel(ctx, "begun", at.Add(time.Minute), store.Actor{Name: "another"}))
	waits, begun := getTask(t, s, "waits"), getTask(t, s, "begun")
	if waits.Status != store.TaskCanceled || !waits.FinishedAt.Equal(at) {
		t.Errorf("got %+v", waits)
	}
	if begun.Status != store.TaskRunning || !begun.CancelAskedAt.Equal(at) || begun.CancelAskedBy != by.Name || begun.FinishedAt != nil {
		t.Errorf("got %+v", begun)
	}
	for kind, want := range map[string]int{"task.canceled": 1, "task.cancel_asked": 1} {
		events, err := s.Events(ctx, store.EventQuery{Kind: kind, Security: true})
		if err != nil || len(events) != want || events[0].Actor != by.Name || events[0].Address != by.Address {
			t.Errorf("%s: got %+v, %v", kind, events, err)
		}
	}
}
