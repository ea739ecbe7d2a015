package store_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/store"
)

func TestTasksList(t *testing.T) {
	s := enrolled(t, "n", "m")
	ctx := t.Context()
	for i := range 5 {
		q := queued(fmt.Sprint("n", i), "n")
		q.Type = fmt.Sprint("type", i%2)
		must(t, s.CreateTask(ctx, q))
	}
	must(t, s.CreateTask(ctx, queued("m0", "m")))
	must(t, s.AskCancel(ctx, "n1", day(), store.Actor{}))
	for name, c := range map[string]struct {
		q    store.TaskQuery
		want []string
	}{
		"all":    {store.TaskQuery{}, []string{"m0", "n4", "n3", "n2", "n1", "n0"}},
		"tenant": {store.TaskQuery{Tenant: "other"}, nil},
		"name":   {store.TaskQuery{Node: "m"}, []string{"m0"}},
		"id":     {store.TaskQuery{Node: "id-m", Tenant: "default"}, []string{"m0"}},
		"type":   {store.TaskQuery{Type: "type1"}, []string{"n3", "n1"}},
		"status": {store.TaskQuery{Status: "canceled"}, []string{"n1"}},
		"open":   {store.TaskQuery{Open: true, Node: "n"}, []string{"n4", "n3", "n2", "n0"}},
		"page":   {store.TaskQuery{Limit: 2}, []string{"m0", "n4"}},
	} {
		tasks, next, err := s.Tasks(ctx, c.q)
		must(t, err)
		var got []string
		for _, q := range tasks {
			got = append(got, q.ID)
		}
		if !slices.Equal(got, c.want) || (next != "") != (name == "page") {
			t.Errorf("%s: got %v and the next page %q, want %v", name, got, next, c.want)
		}
		if name == "page" {
			tasks, _, err = s.Tasks(ctx, store.TaskQuery{Cursor: next})
			if err != nil || len(tasks) != 4 || tasks[0].ID != "n3" {
				t.Errorf("the next page: %+v, %v", tasks, err)
			}
		}
	}
	_, _, err := s.Tasks(ctx, store.TaskQuery{Cursor: "x"})
	wantError(t, err, store.ErrBadCursor)
	waiting, err := s.WaitingTasks(ctx, "")
	if want := map[string]int{"id-n": 4, "id-m": 1}; err != nil || !reflect.DeepEqual(waiting, want) {
		t.Errorf("got %v, %v, want %v", waiting, err, want)
	}
	waiting, err = s.WaitingTasks(ctx, "id-m")
	if want := map[string]int{"id-m": 1}; err != nil || !reflect.DeepEqual(waiting, want) {
		t.Errorf("got %v, %v, want %v", waiting, err, want)
	}
}

// TestPruneTasks: ended tasks of long ago go with all that they wrote.
func TestPruneTasks(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	for _, id := range []string{"old1", "old2", "new", "open"} {
		running(t, s, id, "n")
		must(t, s.AddTaskOutput(ctx, store.TaskOutput{ID: id, Fingerprint: "print-n", TaskPiece: store.TaskPiece{Data: []byte("x")}}))
	}
	for id, at := range map[string]time.Time{"old1": after(4 * time.Minute), "old2": after(5 * time.Minute), "new": after(2 * time.Hour)} {
		must(t, s.FinishTask(ctx, store.TaskResult{ID: id, Fingerprint: "print-n", Status: store.TaskCompleted, At: at,
			TaskEnd: store.TaskEnd{Bytes: 1}, Head: []byte("x")}))
	}
	for _, want := range []int{1, 1, 0} {
		if got, err := s.PruneTasks(ctx, after(90*time.Minute), 1); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	tasks, _, err := s.Tasks(ctx, store.TaskQuery{})
	if err != nil || len(tasks) != 2 {
		t.Errorf("%d are left, %v", len(tasks), err)
	}
	for id, want := range map[string]int{"old1": 0, "old2": 0, "new": 1, "open": 1} {
		if pieces, err := s.TaskPieces(ctx, id, "", 0, 10); err != nil || len(pieces) != want {
			t.Errorf("%s has %d pieces, %v", id, len(pieces), err)
		}
	}
}

// TestWhyTaskWaits: what a queued task is shown with.
func TestWhyTaskWaits(t *testing.T) {
	s := enrolled(t, "n")
	running(t, s, "a", "n")
	must(t, s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: "enrolled", At: day(),
		AddReasons: []store.Reason{{Reason: "hot"}}}))
	q := queued("b", "n")
	q.Type = "a"
	must(t, s.CreateTask(t.Context(), q))
	if got := getTask(t, s, "b"); !got.Behind || !slices.Equal(got.NodeReasons, []string{"hot"}) {
		t.Errorf("got %+v", got)
	}
}

// TestOpenTasks: those that have not ended, by status.
func TestOpenTasks(t *testing.T) {
	s := enrolled(t, "n")
	for _, id := range []string{"a", "b"} {
		running(t, s, id, "n")
	}
	must(t, s.CreateTask(t.Context(), queued("c", "n")))
	must(t, s.FinishTask(t.Context(), store.TaskResult{ID: "b", Fingerprint: "print-n", Status: store.TaskCompleted, At: after(time.Hour)}))
	got, err := s.OpenTasks(t.Context())
	if err != nil || !maps.Equal(got, map[string]int{store.TaskRunning: 1, store.TaskQueued: 1}) {
		t.Errorf("got %v, %v", got, err)
	}
}
