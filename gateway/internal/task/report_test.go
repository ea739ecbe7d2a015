package task_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// running makes a task that its node has begun.
func (h *hall) running(name string) (task.Claimer, string) {
	h.t.Helper()
	c := h.claimer(name)
	id := h.make(name, wire.TaskDiagCollect).ID
	if got := h.take(c); got != id {
		h.t.Fatalf("got %q", got)
	}
	h.begin(c, id)
	return c, id
}

// TestResultOnce: the same again is answered as the first time, also under the next certificate, and nothing else is taken.
func TestResultOnce(t *testing.T) {
	h := newHall(t, "n", "m")
	n, id := h.running("n")
	wantCode(t, h.Result(t.Context(), h.claimer("m"), id, result(nil)), wire.CodeClaimMismatch)
	wantCode(t, h.Result(t.Context(), n, wire.NewTaskID(), result(nil)), wire.CodeNotFound)
	h.end(n, id)
	h.end(n, id)
	renewed := h.renew("n")
	h.end(renewed, id)
	other := result(func(r *wire.TaskResult) { r.Error = "changed my mind" })
	wantCode(t, h.Result(t.Context(), renewed, id, other), wire.CodeTaskFinished)
	wantCode(t, h.Result(t.Context(), h.claimer("m"), id, result(nil)), wire.CodeClaimMismatch)
	if got := h.get(id); got.Status != wire.TaskCompleted || got.Error != "" || got.Proof != n.Proof {
		t.Errorf("got %+v", got)
	}
	want := []string{"task.created ok", "task.result_refused claim_mismatch", "task.finished completed", "task.result_refused task_finished",
		"task.result_refused claim_mismatch"}
	if !slices.Equal(h.events(), want) {
		t.Errorf("got events %q", h.events())
	}
	refused, err := h.store.Events(t.Context(), store.EventQuery{Kind: "task.result_refused", Security: true})
	if err != nil || len(refused) != 3 || refused[1].Detail["said"] != wire.TaskCompleted || refused[1].NodeName != "n" {
		t.Errorf("got %+v, %v", refused, err)
	}
}

// TestResultRefuses: what no agent says.
func TestResultRefuses(t *testing.T) {
	h := newHall(t, "n")
	n, id := h.running("n")
	for name, change := range map[string]func(*wire.TaskResult){
		"no status": func(r *wire.TaskResult) { r.Status = "" },
		"lost":      func(r *wire.TaskResult) { r.Status = wire.TaskLost },
		"running":   func(r *wire.TaskResult) { r.Status = wire.TaskRunning },
		"head too large": func(r *wire.TaskResult) {
			r.Output = wire.TaskLog{Head: make([]byte, wire.MaxTaskHead+1), Bytes: 1 << 20}
		},
		"tail too large": func(r *wire.TaskResult) {
			r.Output = wire.TaskLog{Tail: make([]byte, wire.MaxTaskTail+1), Bytes: 1 << 20}
		},
		"too few bytes":  func(r *wire.TaskResult) { r.Output.Bytes = 4 },
		"error too long": func(r *wire.TaskResult) { r.Error = strings.Repeat("x", wire.MaxTaskError+1) },
		"values too large": func(r *wire.TaskResult) {
			r.Values = wire.TaskValues{"a": []byte(`"` + strings.Repeat("x", wire.MaxTaskValues) + `"`)}
		},
		"a folder":    func(r *wire.TaskResult) { r.Archive = &wire.TaskFile{Name: "../a"} },
		"hidden":      func(r *wire.TaskResult) { r.Archive = &wire.TaskFile{Name: ".bashrc"} },
		"like a flag": func(r *wire.TaskResult) { r.Archive = &wire.TaskFile{Name: "-rf"} },
	} {
		t.Log(name)
		wantCode(t, h.Result(t.Context(), n, id, result(change)), wire.CodeBadRequest)
	}
	for _, body := range []string{"", "{", `{"status":"completed","status":"failed"}`, `{"Status":"completed"}`} {
		wantCode(t, h.Result(t.Context(), n, id, []byte(body)), wire.CodeBadRequest)
	}
	if got := h.get(id).Status; got != wire.TaskRunning {
		t.Errorf("it is %s", got)
	}
}

// TestAgreedEnds: the gateway ended a task in the way that its claimer does a moment later. That is no event for the auditor.
func TestAgreedEnds(t *testing.T) {
	h := newHall(t, "n")
	n := h.claimer("n")
	id := h.make("n", wire.TaskDiagCollect).ID
	h.take(n)
	h.clock.Forward(time.Hour)
	_, err := h.Started(t.Context(), n, id)
	wantCode(t, err, wire.CodeTaskExpired)
	must(t, h.Sweep(t.Context()))
	_, err = h.Started(t.Context(), n, id)
	wantCode(t, err, wire.CodeTaskExpired)
	must(t, h.Result(t.Context(), n, id, result(func(r *wire.TaskResult) { r.Status = wire.TaskExpired })))
	wantCode(t, h.Result(t.Context(), n, id, result(nil)), wire.CodeTaskFinished)
	want := []string{"task.created ok", "task.expired expired", "task.result_refused task_finished"}
	if !slices.Equal(h.events(), want) {
		t.Errorf("got events %q", h.events())
	}
}

// TestCancel: a task that waits ends, one that was given out is not begun, and one that runs hears it with its next message.
func TestCancel(t *testing.T) {
	h := newHall(t, "n")
	n := h.claimer("n")
	cancel := func(id string) store.Task {
		t.Helper()
		got, err := h.Cancel(t.Context(), "default", id, operator())
		must(t, err)
		return got
	}
	waits := h.make("n", wire.TaskDiagCollect).ID
	for range 2 {
		if got := cancel(waits); got.Status != wire.TaskCanceled || h.Waiting("id-n") != 0 {
			t.Errorf("got %+v", got)
		}
	}
	held := h.make("n", wire.TaskDiagCollect).ID
	h.take(n)
	if got := cancel(held); got.Status != wire.TaskDispatched || got.CancelAskedBy != "operator:socket" {
		t.Errorf("got %+v", got)
	}
	if progress, err := h.Started(t.Context(), n, held); err != nil || !progress.Cancel {
		t.Errorf("got %+v, %v", progress, err)
	}
	must(t, h.Result(t.Context(), n, held, result(func(r *wire.TaskResult) { r.Status = wire.TaskCanceled })))
	_, id := h.running("n")
	cancel(id)
	if progress, err := h.Output(t.Context(), n, id, wire.TaskOutput{}); err != nil || !progress.Cancel {
		t.Errorf("got %+v, %v", progress, err)
	}
	h.end(n, id) // it was done already
	_, err := h.Cancel(t.Context(), "", id, operator())
	wantCode(t, err, wire.CodeTaskFinished)
	_, err = h.Cancel(t.Context(), "another tenant", id, operator())
	wantCode(t, err, wire.CodeNotFound)
}

// TestOutput: pieces that come again, or cut in another way, add nothing; those of others and out of bounds are refused.
func TestOutput(t *testing.T) {
	h := newHall(t, "n", "m")
	n, id := h.running("n")
	add := func(offset int64, data string) error {
		_, err := h.Output(t.Context(), n, id, wire.TaskOutput{Offset: offset, Data: []byte(data)})
		return err
	}
	must(t, add(0, "abc"))
	must(t, add(0, "abc"))
	must(t, add(0, "abcdef"))
	must(t, add(2, "cdefg"))
	log, err := h.Log(t.Context(), h.get(id))
	if err != nil || string(log.Head) != "abcdefg" || log.Bytes != 7 || log.Truncated {
		t.Errorf("got %+v, %v", log, err)
	}
	must(t, add(10, "xyz"))
	if log, err = h.Log(t.Context(), h.get(id)); err != nil || string(log.Head) != "abcdefg" || string(log.Tail) != "xyz" || !log.Truncated {
		t.Errorf("got %+v, %v", log, err)
	}
	for name, q := range map[string]wire.TaskOutput{
		"another file": {File: "x"}, "before the beginning": {Offset: -1}, "far away": {Offset: 1<<53 + 1},
		"too large":            {Data: make([]byte, wire.MaxTaskPiece+1)},
		"a file beyond bounds": {File: wire.TaskArchive, Offset: wire.MaxTaskArchive, Data: []byte("x")},
	} {
		t.Log(name)
		_, err := h.Output(t.Context(), n, id, q)
		wantCode(t, err, wire.CodeBadRequest)
	}
	_, err = h.Output(t.Context(), h.claimer("m"), id, wire.TaskOutput{Offset: 13, Data: []byte("forged")})
	wantCode(t, err, wire.CodeClaimMismatch)
	_, err = h.Output(t.Context(), n, wire.NewTaskID(), wire.TaskOutput{})
	wantCode(t, err, wire.CodeNotFound)
	h.end(n, id)
	wantCode(t, add(13, "late"), wire.CodeTaskFinished)
}

// TestProbe: what only measures the way is answered with as many bytes as it asks for, and nothing of it is kept.
func TestProbe(t *testing.T) {
	h := newHall(t, "n", "m")
	n, id := h.running("n")
	for asked, want := range map[int64]int{0: 0, 7: 7, wire.MaxTaskPiece: wire.MaxTaskPiece, 1 << 40: wire.MaxTaskPiece} {
		got, err := h.Output(t.Context(), n, id, wire.TaskOutput{File: wire.TaskProbe, Offset: asked, Data: []byte("abc")})
		if err != nil || len(got.Data) != want || got.Cancel {
			t.Errorf("asked for %d, got %d, %v", asked, len(got.Data), err)
		}
	}
	if log, err := h.Log(t.Context(), h.get(id)); err != nil || log.Bytes != 0 {
		t.Errorf("kept: %+v, %v", log, err)
	}
	_, err := h.Output(t.Context(), h.claimer("m"), id, wire.TaskOutput{File: wire.TaskProbe, Offset: 7})
	wantCode(t, err, wire.CodeClaimMismatch)
}

// TestLongOutput: what is kept of much output is its beginning and its end, as long as it runs and after that.
func TestLongOutput(t *testing.T) {
	h := newHall(t, "n")
	n, id := h.running("n")
	var all []byte
	for i := range 8 {
		piece := bytes.Repeat([]byte{byte('a' + i)}, 60<<10)
		_, err := h.Output(t.Context(), n, id, wire.TaskOutput{Offset: int64(len(all)), Data: piece})
		must(t, err)
		all = append(all, piece...)
	}
	check := func(when string) {
		t.Helper()
		log, err := h.Log(t.Context(), h.get(id))
		must(t, err)
		if !bytes.Equal(log.Head, all[:wire.MaxTaskHead]) || !bytes.Equal(log.Tail, all[len(all)-wire.MaxTaskTail:]) || !log.Truncated ||
			log.Bytes != int64(len(all)) {
			t.Errorf("%s: %d and %d of %d bytes, cut: %v", when, len(log.Head), len(log.Tail), log.Bytes, log.Truncated)
		}
	}
	check("while it runs")
	must(t, h.Result(t.Context(), n, id, result(func(r *wire.TaskResult) {
		r.Output = wire.TaskLog{Head: all[:wire.MaxTaskHead], Tail: all[len(all)-wire.MaxTaskTail:], Bytes: int64(len(all)), Truncated: true}
	})))
	check("after its end")
}

// TestFollow: a reader gets what comes, at once, to the end; what was not kept shows as a jump.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n")
		n, id := h.running("n")
		var got []string
		var jump int64
		ended := make(chan error, 1)
		go func() {
			ended <- h.Follow(t.Context(), h.get(id), 2, func(offset int64, data []byte) error {
				got = append(got, string(data))
				jump = offset
				return nil
			})
		}()
		add := func(offset int64, data string) {
			_, err := h.Output(t.Context(), n, id, wire.TaskOutput{Offset: offset, Data: []byte(data)})
			must(t, err)
			synctest.Wait()
		}
		synctest.Wait()
		begin := time.Now()
		add(0, "abc")
		add(3, "def")
		must(t, h.Result(t.Context(), n, id, result(func(r *wire.TaskResult) {
			r.Output = wire.TaskLog{Head: []byte("ab"), Tail: []byte("yz"), Bytes: 26, Truncated: true}
		})))
		if err := <-ended; err != nil || time.Since(begin) != 0 || !slices.Equal(got, []string{"c", "def", "yz"}) || jump != 24 {
			t.Errorf("got %q, the last one at %d, after %s, %v", got, jump, time.Since(begin), err)
		}
	})
}

// TestFollowEnds: by the reader's own error, by a task that ends without a word to the desk, and by the gateway's end.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, "n", "m")
		n, id := h.running("n")
		_, other := h.running("m")
		_, err := h.Output(t.Context(), n, id, wire.TaskOutput{Data: []byte("abc")})
		must(t, err)
		full := errors.New("full")
		if err := h.Follow(t.Context(), h.get(id), 0, func(int64, []byte) error { return full }); !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
		nothing := func(int64, []byte) error { return nil }
		retired, stopped := make(chan error, 1), make(chan error, 1)
		go func() { retired <- h.Follow(t.Context(), h.get(id), 0, nothing) }()
		go func() { stopped <- h.Follow(t.Context(), h.get(other), 0, nothing) }()
		synctest.Wait()
		h.move("n", "active", "retired")
		if err := <-retired; err != nil {
			t.Errorf("got %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		must(t, h.Run(ctx))
		wantCode(t, <-stopped, wire.CodeUnavailable)
	})
}

// TestArchive: a file that arrives whole is kept, and one that does not leaves the rest of the result as it is.
func TestArchive(t *testing.T) {
	h := newHall(t, "n")
	file := bytes.Repeat([]byte("0123456789"), 100<<10)
	sum := sha256.Sum256(file)
	for name, last := range map[string]int{"whole": len(file), "cut": len(file) - 1} {
		n, id := h.running("n")
		for at := 0; at < last; at += wire.MaxTaskPiece {
			_, err := h.Output(t.Context(), n, id, wire.TaskOutput{File: wire.TaskArchive, Offset: int64(at),
				Data: file[at:min(at+wire.MaxTaskPiece, last)]})
			must(t, err)
		}
		must(t, h.Result(t.Context(), n, id, result(func(r *wire.TaskResult) {
			r.Archive = &wire.TaskFile{Name: "diag.tar.gz", Size: int64(len(file)), SHA256: hex.EncodeToString(sum[:])}
		})))
		var got []byte
		err := h.Archive(t.Context(), h.get(id), func(data []byte) error {
			got = append(got, data...)
			return nil
		})
		if name == "whole" {
			if err != nil || !bytes.Equal(got, file) || h.get(id).Archive.Name != "diag.tar.gz" {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			continue
		}
		wantCode(t, err, wire.CodeNotFound)
		if q := h.get(id); q.Status != wire.TaskCompleted || q.Error != "its file did not arrive whole" {
			t.Errorf("got %+v", q)
		}
	}
}

// TestSecrets: to the claimer, while the task is open, those that it names, each time with an event.
func TestSecrets(t *testing.T) {
	h := newHall(t, "n", "m")
	for _, name := range []string{"hf", "login", "other"} {
		must(t, h.store.SetLentSecret(t.Context(), store.LentSecret{Tenant: "default", Name: name, ChangedAt: start}, []byte("value of "+name)))
	}
	params := `{"name":"a","image":"r.example/a@sha256:` + strings.Repeat("a", 64) +
		`","secret_env":{"A":"hf","B":"hf"},"registry_secret":"login"}`
	made, _, err := h.Create(t.Context(), "", task.Request{Node: "n", Type: wire.TaskWorkloadLaunch, Params: json.RawMessage(params)},
		operator())
	must(t, err)
	n := h.claimer("n")
	_, err = h.Secrets(t.Context(), n, made.ID)
	wantCode(t, err, wire.CodeClaimMismatch)
	h.take(n)
	h.begin(n, made.ID)
	_, err = h.Secrets(t.Context(), h.claimer("m"), made.ID)
	wantCode(t, err, wire.CodeClaimMismatch)
	lent, err := h.Secrets(t.Context(), n, made.ID)
	if err != nil || len(lent.Secrets) != 2 || lent.Secrets["hf"] != "value of hf" || lent.Secrets["login"] != "value of login" {
		t.Errorf("got %v, %v", lent, err)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "task.secret_lent", Security: true})
	if err != nil || len(events) != 1 || events[0].Detail["secrets"] != "hf,login" || strings.Contains(events[0].Detail["secrets"], "value") {
		t.Errorf("got %+v, %v", events, err)
	}
	must(t, h.store.DropLentSecret(t.Context(), "default", "hf"))
	_, err = h.Secrets(t.Context(), n, made.ID)
	wantCode(t, err, wire.CodeNotFound)
	h.end(n, made.ID)
	_, err = h.Secrets(t.Context(), n, made.ID)
	wantCode(t, err, wire.CodeTaskFinished)
	_, id := h.running("m")
	if lent, err := h.Secrets(t.Context(), h.claimer("m"), id); err != nil || len(lent.Secrets) != 0 {
		t.Errorf("a task that names none: %v, %v", lent, err)
	}
}

// FuzzResult: whatever a node sends, a result is refused or can be read again as it was sent.
func FuzzResult(f *testing.F) {
	f.Add(result(nil))
	f.Add([]byte(`{"status":"failed","exit_code":null,"output":{"head":"YQ==","tail":"Yg==","bytes":9,"truncated":true},"values":{"a":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		h := newHall(t, "n")
		n, id := h.running("n")
		if err := h.Result(t.Context(), n, id, body); err != nil {
			var refused *wire.ErrorDetail
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}
			return
		}
		var q wire.TaskResult
		if err := sign.DecodeOnce(body, &q); err != nil {
			t.Fatal(err)
		}
		got := h.get(id)
		log, err := h.Log(t.Context(), got)
		kept := len(log.Head) + len(log.Tail)
		if err != nil || got.Status != q.Status || log.Bytes != q.Output.Bytes || kept != len(q.Output.Head)+len(q.Output.Tail) {
			t.Errorf("got %+v, %+v, %v of %s", got, log, err, body)
		}
	})
}
