package store_test

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"muster/store"
)

// queued is a task for a node that enrolled made.
func queued(id, name string) store.Task {
	return store.Task{ID: id, NodeID: "id-" + name, EnrolmentID: "enrolment-" + name, Type: "diag", Payload: []byte(`{"params":{}}`),
		Signature: []byte("signed"), SigningKeyID: "k1", Repeats: 2, CreatedBy: "operator:socket", CreatedAt: after(time.Minute),
		ExpiresAt: after(time.Hour)}
}

// claim is what the first certificate of a node that enrolled made asks with.
func claim(name string, at time.Time) store.TaskClaim {
	return store.TaskClaim{NodeID: "id-" + name, EnrolmentID: "enrolment-" + name, Fingerprint: "print-" + name, At: at,
		Active: "enrolled", Without: "conflict", Again: at.Add(-10 * time.Second), Deliveries: 10}
}

func getTask(t testing.TB, s *store.Store, id string) store.Task {
	t.Helper()
	got, err := s.Task(t.Context(), "", id)
	must(t, err)
	return got
}

// claimed makes a task of a node and claims it.
func claimed(t testing.TB, s *store.Store, id, name string) {
	t.Helper()
	q := queued(id, name)
	q.Type = id // a node gets one of a type at a time
	must(t, s.CreateTask(t.Context(), q))
	got, err := s.ClaimTask(t.Context(), claim(name, after(2*time.Minute)))
	must(t, err)
	if got.ID != id {
		t.Fatalf("got %s, want %s", got.ID, id)
	}
}

func running(t testing.TB, s *store.Store, id, name string) {
	t.Helper()
	claimed(t, s, id, name)
	must(t, s.StartTask(t.Context(), id, "print-"+name, after(3*time.Minute)))
}

func TestTaskOnRecord(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	want := queued("a", "n")
	must(t, s.CreateTask(ctx, want))
	want.Number = 1
	want.Status = store.TaskQueued
	want.NodeName = "n"
	want.Tenant = "default"
	want.NodeState = "enrolled"
	want.NodeReasons = []string{}
	if got := getTask(t, s, "a"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	wantError(t, s.CreateTask(ctx, queued("a", "n")), store.ErrConflict)
	for _, change := range []func(*store.Task){
		func(q *store.Task) { q.NodeID = "id-other" },
		func(q *store.Task) { q.EnrolmentID = "enrolment-other" },
	} {
		q := queued("b", "n")
		change(&q)
		wantError(t, s.CreateTask(ctx, q), store.ErrConflict)
	}
	_, err := s.Task(ctx, "another tenant", "a")
	wantError(t, err, store.ErrNotFound)
	_, err = s.TaskWork(ctx, "none", "")
	wantError(t, err, store.ErrNotFound)
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "retired", At: day()}))
	wantError(t, s.CreateTask(ctx, queued("b", "n")), store.ErrConflict)
}

// TestClaimTask: each of the claim's conditions stands in its SQL.
func TestClaimTask(t *testing.T) {
	at := after(2 * time.Minute)
	for name, c := range map[string]struct {
		prepare func(*store.Store)
		change  func(*store.TaskClaim)
		want    bool
	}{
		"good":                       {want: true},
		"another node":               {change: func(c *store.TaskClaim) { c.NodeID = "id-m" }},
		"another enrolment":          {change: func(c *store.TaskClaim) { c.EnrolmentID = "enrolment-m" }},
		"another node's certificate": {change: func(c *store.TaskClaim) { c.Fingerprint = "print-m" }},
		"it expires now":             {change: func(c *store.TaskClaim) { c.At = after(time.Hour) }},
		"it has expired":             {change: func(c *store.TaskClaim) { c.At = after(2 * time.Hour) }},
		"just before":                {change: func(c *store.TaskClaim) { c.At = after(time.Hour - time.Millisecond) }, want: true},
		"another state":              {change: func(c *store.TaskClaim) { c.Active = "active" }},
		"a pending certificate": {prepare: func(s *store.Store) {
			must(t, s.AddCertificate(t.Context(), renewed("n", 2), "print-n"))
		}, change: func(c *store.TaskClaim) { c.Fingerprint = "print-n/2" }},
		"a superseded certificate": {prepare: func(s *store.Store) {
			must(t, s.AddCertificate(t.Context(), renewed("n", 2), "print-n"))
			must(t, s.PromoteCertificate(t.Context(), "print-n/2", at))
		}},
		"a reason": {prepare: func(s *store.Store) {
			must(t, s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: at,
				AddReasons: []store.Reason{{Reason: "conflict"}}}))
		}},
		"another reason": {prepare: func(s *store.Store) {
			must(t, s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: at,
				AddReasons: []store.Reason{{Reason: "hot"}}}))
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := enrolled(t, "n", "m")
			must(t, s.CreateTask(t.Context(), queued("a", "n")))
			if c.prepare != nil {
				c.prepare(s)
			}
			q := claim("n", at)
			if c.change != nil {
				c.change(&q)
			}
			got, err := s.ClaimTask(t.Context(), q)
			if (err == nil) != c.want {
				t.Errorf("got %+v, %v", got, err)
			}
			if err != nil {
				wantError(t, err, store.ErrNotFound)
			}
		})
	}
}

// TestClaimsRace: a hundred at once, and one gets the task.
func TestClaimsRace(t *testing.T) {
	s := enrolled(t, "n")
	must(t, s.CreateTask(t.Context(), queued("a", "n")))
	var all sync.WaitGroup
	won := make(chan bool, 100)
	for range 100 {
		all.Go(func() {
			_, err := s.ClaimTask(t.Context(), claim("n", after(2*time.Minute)))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
			if err == nil {
				won <- true
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d got it", len(won))
	}
}

func TestStartTask(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	claimed(t, s, "a", "n")
	wantError(t, s.StartTask(ctx, "a", "print-other", after(3*time.Minute)), store.ErrConflict)
	wantError(t, s.StartTask(ctx, "a", "print-n", after(time.Hour)), store.ErrConflict)
	must(t, s.StartTask(ctx, "a", "print-n", after(3*time.Minute)))
	wantError(t, s.StartTask(ctx, "a", "print-n", after(3*time.Minute)), store.ErrConflict)
	claimed(t, s, "b", "n")
	must(t, s.AskCancel(ctx, "b", after(3*time.Minute), store.Actor{Name: "account:ci"}))
	wantError(t, s.StartTask(ctx, "b", "print-n", after(3*time.Minute)), store.ErrConflict)
	if got := getTask(t, s, "b"); got.Status != store.TaskDispatched || got.CancelAskedBy != "account:ci" || got.StartedAt != nil {
		t.Errorf("got %+v", got)
	}
}

// TestFinishTask: once, by the claim's certificate; what was written gives way to head and tail.
func TestFinishTask(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	running(t, s, "a", "n")
	piece := store.TaskOutput{ID: "a", Fingerprint: "print-n", TaskPiece: store.TaskPiece{Data: []byte("0123456789")}}
	must(t, s.AddTaskOutput(ctx, piece))
	piece.File = "archive"
	must(t, s.AddTaskOutput(ctx, piece))
	r := store.TaskResult{ID: "a", Fingerprint: "print-other", Status: store.TaskFailed, At: after(4 * time.Minute),
		TaskEnd: store.TaskEnd{ExitCode: pointer(3), Code: "odd", Error: "it broke", Values: `{"a":1}`, Bytes: 9, Truncated: true,
			Archive: &store.TaskFile{Name: "f", Size: 10, SHA256: "ab"}, Digest: "d", Proof: "p"}, Head: []byte("01"), Tail: []byte("89")}
	wantError(t, s.FinishTask(ctx, r), store.ErrConflict)
	r.Fingerprint = "print-n"
	must(t, s.FinishTask(ctx, r, store.Event{At: r.At, Kind: "told"}))
	wantError(t, s.FinishTask(ctx, r), store.ErrConflict)
	got := getTask(t, s, "a")
	if got.Status != store.TaskFailed || !reflect.DeepEqual(got.TaskEnd, r.TaskEnd) || !got.FinishedAt.Equal(r.At) {
		t.Errorf("got %+v", got)
	}
	pieces, err := s.TaskPieces(ctx, "a", "", 0, 10)
	must(t, err)
	if want := []store.TaskPiece{{Offset: 0, Data: []byte("01")}, {Offset: 7, Data: []byte("89")}}; !reflect.DeepEqual(pieces, want) {
		t.Errorf("got %v", pieces)
	}
	pieces, err = s.TaskPieces(ctx, "a", "archive", 4, 10)
	if err != nil || len(pieces) != 1 || len(pieces[0].Data) != 10 {
		t.Errorf("got %v, %v", pieces, err)
	}
	if countEvents(t, s, store.EventQuery{Kind: "told"}) != 1 {
		t.Error("the event is not there once")
	}
	running(t, s, "b", "n")
	must(t, s.FinishTask(ctx, store.TaskResult{ID: "b", Fingerprint: "print-n", Status: store.TaskCompleted, At: day()}))
	if got := getTask(t, s, "b"); !got.FinishedAt.Equal(*got.StartedAt) {
		t.Errorf("it ended %v, before it began %v", got.FinishedAt, got.StartedAt)
	}
	claimed(t, s, "c", "n")
	must(t, s.FinishTask(ctx, store.TaskResult{ID: "c", Fingerprint: "print-n", Status: store.TaskFailed, At: after(5 * time.Minute)}))
	must(t, s.CreateTask(ctx, queued("e", "n")))
	wantError(t, s.FinishTask(ctx, store.TaskResult{ID: "e", Fingerprint: "", Status: store.TaskFailed, At: day()}), store.ErrConflict)
}

// TestTaskOutput: in order, and only what a person is shown in the end is kept.
func TestTaskOutput(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	running(t, s, "a", "n")
	add := func(offset int64, size int) error {
		return s.AddTaskOutput(ctx, store.TaskOutput{ID: "a", Fingerprint: "print-n", Head: 20, Tail: 30,
			TaskPiece: store.TaskPiece{Offset: offset, Data: make([]byte, size)}})
	}
	for i := range 10 {
		must(t, add(int64(10*i), 10))
	}
	wantError(t, add(90, 10), store.ErrConflict) // again
	wantError(t, add(95, 10), store.ErrConflict) // over the end
	wantError(t, add(99, 10), store.ErrConflict) // over the last byte
	must(t, add(110, 10))                        // with a gap
	var offsets []int64
	pieces, err := s.TaskPieces(ctx, "a", "", 0, 100)
	must(t, err)
	for _, p := range pieces {
		offsets = append(offsets, p.Offset)
	}
	if want := []int64{0, 10, 90, 110}; !slices.Equal(offsets, want) {
		t.Errorf("got pieces at %v, want %v", offsets, want)
	}
	work, err := s.TaskWork(ctx, "a", "")
	if err != nil || work.End != 120 || work.Status != store.TaskRunning || work.CancelAsked {
		t.Errorf("got %+v, %v", work, err)
	}
	wantError(t, s.AddTaskOutput(ctx, store.TaskOutput{ID: "a", Fingerprint: "print-other",
		TaskPiece: store.TaskPiece{Offset: 120, Data: []byte("x")}}), store.ErrConflict)
	claimed(t, s, "b", "n")
	wantError(t, s.AddTaskOutput(ctx, store.TaskOutput{ID: "b", Fingerprint: "print-n", TaskPiece: store.TaskPiece{Data: []byte("x")}}),
		store.ErrConflict) // it has not begun
}

// TestTaskPiecesFrom finds the piece that an offset lies in.
func TestTaskPiecesFrom(t *testing.T) {
	s := enrolled(t, "n")
	running(t, s, "a", "n")
	for _, offset := range []int64{0, 10, 30} {
		must(t, s.AddTaskOutput(t.Context(), store.TaskOutput{ID: "a", Fingerprint: "print-n",
			TaskPiece: store.TaskPiece{Offset: offset, Data: make([]byte, 10)}}))
	}
	for from, want := range map[int64]int64{0: 0, 9: 0, 10: 10, 19: 10, 20: 30, 29: 30, 39: 30, 40: -1} {
		pieces, err := s.TaskPieces(t.Context(), "a", "", from, 1)
		must(t, err)
		got := int64(-1)
		if len(pieces) > 0 {
			got = pieces[0].Offset
		}
		if got != want {
			t.Errorf("from %d: got the piece at %d, want %d", from, got, want)
		}
	}
}
