package task_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// beginning makes a task of a type that its node has begun.
func (h *hall) beginning(name, kind string) (task.Claimer, string) {
	h.t.Helper()
	c := h.claimer(name)
	id := h.make(name, kind).ID
	if got := h.take(c); got != id {
		h.t.Fatalf("got %q", got)
	}
	h.begin(c, id)
	return c, id
}

// TestClockOfTheDay: leases are judged by the time of day, as the store's times are. A time of time.Now also has a reading that stands
// still while the machine sleeps, and does not see that the clock was set: by that, every node would seem silent for as long.
func TestClockOfTheDay(t *testing.T) {
	h := newHall(t)
	desk, err := task.New(t.Context(), task.Config{Store: h.store})
	must(t, err)
	if now := desk.Now(); now != now.Round(0) {
		t.Errorf("%v has a monotonic reading", now)
	}
}

// TestClockIsSet: after the clock was set, forward or back, no node seems silent until a whole lease has gone by.
func TestClockIsSet(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		h := newHall(t, "n")
		step := func(d time.Duration) {
			h.clock.Forward(d)
			must(t, h.Sweep(t.Context()))
		}
		h.heard("n")
		n, id := h.beginning("n", wire.TaskDiagCollect)
		for range 20 {
			h.heard("n")
			_, err := h.Output(t.Context(), n, id, wire.TaskOutput{})
			must(t, err)
			step(time.Minute)
		}
		step(jump)
		if got := h.get(id).Status; got != wire.TaskRunning {
			t.Fatalf("after %v: %s", jump, got)
		}
		h.heard("n")
		for range 16 {
			step(time.Minute)
		}
		if got := h.get(id).Status; jump > 0 && got != wire.TaskLost {
			t.Errorf("after %v and a lease without a word: %s", jump, got)
		}
	}
}

// TestCanceledIsNotRepeated: a task that somebody wants to end does not come back when its node falls silent.
func TestCanceledIsNotRepeated(t *testing.T) {
	h := newHall(t, "n")
	h.heard("n")
	_, id := h.beginning("n", wire.TaskDiagCollect)
	_, err := h.Cancel(t.Context(), "", id, operator())
	must(t, err)
	for range 17 {
		h.clock.Forward(time.Minute)
		must(t, h.Sweep(t.Context()))
	}
	if got := h.get(id); got.Status != wire.TaskLost || got.RetriedAs != "" {
		t.Errorf("it is %s, and repeated as %q", got.Status, got.RetriedAs)
	}
}

// TestMostOpenTasks: nobody can queue tasks for a node without end, and the refusal says what to do.
func TestMostOpenTasks(t *testing.T) {
	h := newHall(t, "n", "m")
	for range store.MostOpenTasks {
		h.make("n", wire.TaskDiagCollect)
	}
	_, _, err := h.Create(t.Context(), "", task.Request{Node: "n", Type: wire.TaskDiagCollect}, operator())
	if wantCode(t, err, wire.CodeIllegalMove); err != nil && !strings.Contains(err.Error(), "have not ended") {
		t.Errorf("got %v", err)
	}
	h.make("m", wire.TaskDiagCollect)
	id := h.take(h.claimer("n"))
	h.end(h.claimer("n"), id)
	h.make("n", wire.TaskDiagCollect)
}

// TestSmallPieces: a node that sends single bytes does not fill the database with rows. The beginning and the end stay.
func TestSmallPieces(t *testing.T) {
	h := newHall(t, "n")
	n, id := h.beginning("n", wire.TaskWorkloadStatus)
	const most = 1024
	for i := range int64(3 * most) {
		_, err := h.Output(t.Context(), n, id, wire.TaskOutput{Offset: i, Data: fmt.Append(nil, i%10)})
		must(t, err)
	}
	pieces, err := h.store.TaskPieces(t.Context(), id, "", 0, 10*most)
	must(t, err)
	if len(pieces) != 2*most || pieces[0].Offset != 0 || pieces[most-1].Offset != most-1 || pieces[most].Offset != 2*most {
		t.Errorf("%d pieces are kept", len(pieces))
	}
	log, err := h.Log(t.Context(), h.get(id))
	must(t, err)
	if !log.Truncated || log.Bytes != 3*most || len(log.Head) != most || len(log.Tail) != most {
		t.Errorf("got %d bytes, %d and %d of them kept", log.Bytes, len(log.Head), len(log.Tail))
	}
}

// TestArchivePieces: a file comes in whole pieces, and of those types alone that make one.
func TestArchivePieces(t *testing.T) {
	h := newHall(t, "n", "m")
	n, id := h.beginning("n", wire.TaskDiagCollect)
	send := func(offset int64, size int) error {
		_, err := h.Output(t.Context(), n, id, wire.TaskOutput{File: wire.TaskArchive, Offset: offset, Data: bytes.Repeat([]byte("x"), size)})
		return err
	}
	must(t, send(0, wire.MaxTaskPiece))
	must(t, send(0, wire.MaxTaskPiece)) // again
	must(t, send(wire.MaxTaskPiece, 1))
	must(t, send(wire.MaxTaskPiece, 1))
	for _, c := range []struct {
		offset int64
		size   int
	}{{1, 1}, {wire.MaxTaskPiece + 1, 1}, {wire.MaxTaskPiece, 2}, {wire.MaxTaskArchive, 1}} {
		wantCode(t, send(c.offset, c.size), wire.CodeBadRequest)
	}
	pieces, err := h.store.TaskPieces(t.Context(), id, wire.TaskArchive, 0, 100)
	if must(t, err); len(pieces) != 2 {
		t.Errorf("%d pieces", len(pieces))
	}
	m, other := h.beginning("m", wire.TaskWorkloadStatus)
	_, err = h.Output(t.Context(), m, other, wire.TaskOutput{File: wire.TaskArchive, Data: []byte("x")})
	wantCode(t, err, wire.CodeBadRequest)
}

// TestValuesAsKept: what counts is the space that values take on record. A character that HTML would escape takes one byte.
func TestValuesAsKept(t *testing.T) {
	h := newHall(t, "n")
	n, id := h.beginning("n", wire.TaskDiagCollect)
	text := strings.Repeat("<", wire.MaxTaskValues-len(`{"a":""}`))
	body := result(func(r *wire.TaskResult) { r.Values = wire.TaskValues{"a": []byte(`"text"`)} })
	must(t, h.Result(t.Context(), n, id, bytes.Replace(body, []byte("text"), []byte(text), 1)))
	if got := len(h.get(id).Values); got != wire.MaxTaskValues {
		t.Errorf("they take %d bytes", got)
	}
	n, id = h.beginning("n", wire.TaskDiagCollect)
	name := strings.Repeat("\x01", wire.MaxTaskValues/3) // each takes six bytes of JSON
	wantCode(t, h.Result(t.Context(), n, id, result(func(r *wire.TaskResult) { r.Values = wire.TaskValues{name: []byte("1")} })),
		wire.CodeBadRequest)
}

// TestSignedTaskIsNotQueuedTwice: as long as a signed task can be begun, its row stays, whatever the retention.
func TestSignedTaskIsNotQueuedTwice(t *testing.T) {
	h := newHall(t, "n")
	c, id := h.beginning("n", wire.TaskDiagCollect)
	h.end(c, id)
	for _, want := range []int{0, 1} {
		h.clock.Forward(40 * time.Minute)
		if got, err := h.store.PruneTasks(t.Context(), h.clock.Now(), 10); err != nil || got != want {
			t.Errorf("after %v: %d went, %v", h.clock.Now().Sub(start), got, err)
		}
	}
}

// TestSecretsAreLentSeldom: a node that asks for its secrets without end gets no more of them, and makes no more events.
func TestSecretsAreLentSeldom(t *testing.T) {
	h := newHall(t, "n")
	ctx := t.Context()
	must(t, h.store.SetLentSecret(ctx, store.LentSecret{Tenant: "default", Name: "login"}, []byte("robot:hunter2")))
	_, _, err := h.Create(ctx, "", task.Request{Node: "n", Type: wire.TaskWorkloadLaunch, Params: []byte(
		`{"name":"web","image":"r.example/a@sha256:` + strings.Repeat("ab", 32) + `","registry_secret":"login"}`)}, operator())
	must(t, err)
	n := h.claimer("n")
	id := h.take(n)
	for range 100 {
		lent, err := h.Secrets(ctx, n, id)
		if must(t, err); lent.Secrets["login"] != "robot:hunter2" {
			t.Fatalf("got %v", lent)
		}
	}
	lent, err := h.Secrets(ctx, n, id)
	if wantCode(t, err, wire.CodeTooManyRequests); len(lent.Secrets) > 0 {
		t.Error("they were lent once more")
	}
	events, err := h.store.Events(ctx, store.EventQuery{Kind: "task.secret_lent", Limit: 1000})
	if must(t, err); len(events) != 100 {
		t.Errorf("%d events", len(events))
	}
	err = h.store.LendSecrets(ctx, id, "print-other", 1000)
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("to another certificate: %v", err)
	}
	h.end(n, id)
	if err = h.store.LendSecrets(ctx, id, n.Fingerprint, 1000); !errors.Is(err, store.ErrConflict) {
		t.Errorf("after the end: %v", err)
	}
}

// TestLostWithoutKey: where operators keep all task keys, a lost task of before is not repeated. No sweep fails for it, every five seconds.
func TestLostWithoutKey(t *testing.T) {
	h := newHall(t, "n")
	h.heard("n")
	_, id := h.beginning("n", wire.TaskDiagCollect)
	h.Sign = func([]byte) (wire.SignedTask, error) {
		return wire.SignedTask{}, wire.Refuse(wire.CodeBadRequest, "no key", "use yours")
	}
	for range 17 {
		h.clock.Forward(time.Minute)
		must(t, h.Sweep(t.Context()))
	}
	if got := h.get(id); got.Status != wire.TaskLost || got.RetriedAs != "" {
		t.Errorf("it is %s, and repeated as %q", got.Status, got.RetriedAs)
	}
}
