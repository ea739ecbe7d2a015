package task_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// payload is what an operator signs.
func payload(change func(*wire.TaskPayload)) []byte {
	p := wire.TaskPayload{TaskID: wire.NewTaskID(), NodeID: "id-n", Enrolment: "e-n", Type: wire.TaskDiagCollect, Params: []byte("{}"),
		IssuedAt: start, ExpiresAt: start.Add(time.Hour), Nonce: "once"}
	if change != nil {
		change(&p)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return raw
}

func signed(key ed25519.PrivateKey, payload []byte) task.Request {
	s := sign.SealTask(key, payload)
	return task.Request{Signed: &s}
}

// TestCreateRefuses: each thing that is wrong with its own code, and nothing is on record then.
func TestCreateRefuses(t *testing.T) {
	h := newHall(t, "n", "gone")
	h.move("gone", "active", "retired")
	must(t, h.store.CreateNode(t.Context(), store.Node{ID: "id-new", Name: "new", Tenant: "default", CreatedAt: start}, nil))
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	ask := func(kind, params string) task.Request {
		return task.Request{Node: "n", Type: kind, Params: json.RawMessage(params)}
	}
	with := func(q task.Request, change func(*task.Request)) task.Request {
		change(&q)
		return q
	}
	diag := ask(wire.TaskDiagCollect, "")
	tampered := signed(h.operator, payload(nil))
	tampered.Signed.Payload[len(tampered.Signed.Payload)-3] ^= 1
	for name, c := range map[string]struct {
		q    task.Request
		code string
	}{
		"no such type":      {ask("shell", ""), wire.CodeTaskTypeUnknown},
		"unknown param":     {ask(wire.TaskDiagCollect, `{"x":1}`), wire.CodeTaskParamsInvalid},
		"param twice":       {ask(wire.TaskProvisionUser, `{"username":"a","username":"b"}`), wire.CodeTaskParamsInvalid},
		"another case":      {ask(wire.TaskProvisionUser, `{"Username":"a"}`), wire.CodeTaskParamsInvalid},
		"a shell's signs":   {ask(wire.TaskProvisionUser, `{"username":"a;id"}`), wire.CodeTaskParamsInvalid},
		"not JSON":          {ask(wire.TaskDiagCollect, `{`), wire.CodeTaskParamsInvalid},
		"too large":         {ask(wire.TaskWorkloadStop, `{"name":"a"`+strings.Repeat(" ", 10)+`,"x":1}`), wire.CodeTaskParamsInvalid},
		"no such node":      {with(diag, func(q *task.Request) { q.Node = "none" }), wire.CodeNotFound},
		"a retired node":    {with(diag, func(q *task.Request) { q.Node = "gone" }), wire.CodeIllegalMove},
		"it never enrolled": {with(diag, func(q *task.Request) { q.Node = "new" }), wire.CodeIllegalMove},
		"not an id":         {with(diag, func(q *task.Request) { q.ID = "../x" }), wire.CodeBadRequest},
		"waits too long":    {with(diag, func(q *task.Request) { q.Expires = wire.MaxTaskLife + 1 }), wire.CodeBadRequest},
		"waits not at all":  {with(diag, func(q *task.Request) { q.Expires = -1 }), wire.CodeBadRequest},
		"may not": {with(diag, func(q *task.Request) {
			q.May = func(kind string) error { return wire.Refuse(wire.CodeForbidden, kind, "x") }
		}), wire.CodeForbidden},
		"may not what it includes": {with(ask(wire.TaskNodeCheck, `{"checks":["gpu_program"],"image":"r.example/a@sha256:`+
			strings.Repeat("a", 64)+`"}`), func(q *task.Request) {
			q.May = func(kind string) error {
				if kind == wire.TaskWorkloadLaunch {
					return wire.Refuse(wire.CodeForbidden, kind, "x")
				}
				return nil
			}
		}), wire.CodeForbidden},
		"no such secret": {ask(wire.TaskWorkloadLaunch, `{"name":"a","image":"r.example/a@sha256:`+strings.Repeat("a", 64)+
			`","secret_env":{"A":"none"}}`), wire.CodeNotFound},

		"another's key":       {signed(stranger, payload(nil)), wire.CodeBadRequest},
		"one byte changed":    {tampered, wire.CodeBadRequest},
		"signed, no JSON":     {signed(h.operator, []byte("x")), wire.CodeBadRequest},
		"signed, unknown key": {signed(h.operator, []byte(`{"x":1}`)), wire.CodeBadRequest},
		"signed, and a node":  {with(signed(h.operator, payload(nil)), func(q *task.Request) { q.Node = "n" }), wire.CodeBadRequest},
		"signed, another id":  {with(signed(h.operator, payload(nil)), func(q *task.Request) { q.ID = wire.NewTaskID() }), wire.CodeBadRequest},
		"signed, no nonce":    {signed(h.operator, payload(func(p *wire.TaskPayload) { p.Nonce = "" })), wire.CodeBadRequest},
		"signed, no id":       {signed(h.operator, payload(func(p *wire.TaskPayload) { p.TaskID = "x" })), wire.CodeBadRequest},
		"signed, other params": {signed(h.operator, payload(func(p *wire.TaskPayload) { p.Params = []byte(`{"x":1}`) })),
			wire.CodeTaskParamsInvalid},
		"signed, expired": {signed(h.operator, payload(func(p *wire.TaskPayload) { p.ExpiresAt = start })), wire.CodeTaskExpired},
		"signed, lives too long": {signed(h.operator, payload(func(p *wire.TaskPayload) {
			p.ExpiresAt = start.Add(wire.MaxTaskLife + time.Second)
		})), wire.CodeBadRequest},
		"signed in the future": {signed(h.operator, payload(func(p *wire.TaskPayload) { p.IssuedAt = start.Add(time.Hour) })),
			wire.CodeBadRequest},
		"signed, by name": {signed(h.operator, payload(func(p *wire.TaskPayload) { p.NodeID = "n" })), wire.CodeNotFound},
		"signed, another enrolment": {signed(h.operator, payload(func(p *wire.TaskPayload) { p.Enrolment = "e-old" })),
			wire.CodeIllegalMove},
	} {
		t.Run(name, func(t *testing.T) {
			_, created, err := h.Create(t.Context(), "", c.q, operator())
			wantCode(t, err, c.code)
			if created {
				t.Error("created")
			}
		})
	}
	_, _, err := h.Create(t.Context(), "another tenant", diag, operator())
	wantCode(t, err, wire.CodeNotFound)
	tasks, _, err := h.Tasks(t.Context(), store.TaskQuery{})
	if err != nil || len(tasks) != 0 {
		t.Errorf("got %+v, %v", tasks, err)
	}
}

// TestCreateTwice: the same request again makes no second task, and another request with its id is refused.
func TestCreateTwice(t *testing.T) {
	h := newHall(t, "n", "m")
	mine := signed(h.operator, payload(nil))
	first, created, err := h.Create(t.Context(), "default", mine, operator())
	if err != nil || !created || first.Repeats != 0 || first.SigningKeyID != sign.KeyID(h.operator.Public().(ed25519.PublicKey)) {
		t.Fatalf("got %+v, %v, %v", first, created, err)
	}
	id := wire.NewTaskID()
	asked := task.Request{ID: id, Node: "n", Type: wire.TaskProvisionUser, Params: []byte(`{ "username": "ada" }`)}
	made := make(chan bool, 100)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			got, created, err := h.Create(t.Context(), "default", asked, operator())
			if err != nil || got.ID != id {
				t.Errorf("got %+v, %v", got, err)
			}
			if created {
				made <- true
			}
		})
	}
	all.Wait()
	if len(made) != 1 {
		t.Errorf("made %d times", len(made))
	}
	asked.Node = "id-n"
	if got, created, err := h.Create(t.Context(), "", asked, operator()); err != nil || created || got.ID != id {
		t.Errorf("by the node's id: got %+v, %v, %v", got, created, err)
	}
	if got, created, err := h.Create(t.Context(), "", mine, operator()); err != nil || created || got.ID != first.ID {
		t.Errorf("signed, again: got %+v, %v, %v", got, created, err)
	}
	other := asked
	other.Params = []byte(`{"username":"eve"}`)
	elsewhere := asked
	elsewhere.Node = "m"
	resigned := signed(h.operator, payload(func(p *wire.TaskPayload) { p.TaskID = first.ID; p.Nonce = "another" }))
	for name, q := range map[string]task.Request{"params": other, "node": elsewhere, "nonce": resigned} {
		_, _, err := h.Create(t.Context(), "", q, operator())
		t.Log(name)
		wantCode(t, err, wire.CodeAlreadyThere)
	}
}

// TestLease: a silent node loses its claims after the lease, when the gateway was there for all of it. What may be repeated is queued anew.
func TestLease(t *testing.T) {
	h := newHall(t, "n")
	n := h.claimer("n")
	h.heard("n")
	begin := func(kind, params string) string {
		made, _, err := h.Create(t.Context(), "", task.Request{Node: "n", Type: kind, Params: json.RawMessage(params)}, operator())
		must(t, err)
		if got := h.take(n); got != made.ID {
			t.Fatalf("got %q", got)
		}
		h.begin(n, made.ID)
		return made.ID
	}
	once := begin(wire.TaskWorkloadLaunch, `{"name":"a","image":"r.example/a@sha256:`+strings.Repeat("a", 64)+`"}`)
	safe := begin(wire.TaskDiagCollect, "")
	sweep := func(d time.Duration) {
		t.Helper()
		for step := time.Duration(0); step < d; step += 30 * time.Second {
			h.clock.Forward(30 * time.Second)
			must(t, h.Sweep(t.Context()))
		}
	}
	h.clock.Forward(time.Hour) // the gateway was away
	must(t, h.Sweep(t.Context()))
	sweep(wire.TaskLease - time.Minute)
	if got := h.get(safe).Status; got != wire.TaskRunning {
		t.Fatalf("lost too early: %s", got)
	}
	sweep(2 * time.Minute)
	if a, b := h.get(once), h.get(safe); a.Status != wire.TaskLost || b.Status != wire.TaskLost || a.RetriedAs != "" || b.RetriedAs == "" {
		t.Fatalf("got %s %q and %s %q", a.Status, a.RetriedAs, b.Status, b.RetriedAs)
	}
	wantCode(t, h.Result(t.Context(), n, safe, result(nil)), wire.CodeTaskFinished)
	for left := 1; left >= 0; left-- { // it is lost again and again
		next := h.get(h.get(safe).RetriedAs)
		if next.Repeats != left || next.RetryOf != safe || next.Status != wire.TaskQueued || next.ExpiresAt.Sub(next.CreatedAt) != time.Hour {
			t.Fatalf("got %+v", next)
		}
		if got := h.take(n); got != next.ID {
			t.Fatalf("got %q", got)
		}
		h.begin(n, next.ID)
		sweep(wire.TaskLease + time.Minute)
		safe = next.ID
	}
	if got := h.get(safe); got.Status != wire.TaskLost || got.RetriedAs != "" {
		t.Errorf("repeated a third time: %+v", got)
	}
}

// TestForgotten: a node that has lost what it knew of a task says nothing of it any more, and reports on. The task does not stay open, nor
// in the way of the next one. One that is at work stays.
func TestForgotten(t *testing.T) {
	h := newHall(t, "n")
	ctx := t.Context()
	n := h.claimer("n")
	forgotten := h.make("n", wire.TaskWorkloadStatus).ID
	h.take(n)
	h.begin(n, forgotten)
	works := h.make("n", wire.TaskDiagCollect).ID
	h.take(n)
	h.begin(n, works)
	for range 2 * int(wire.TaskLease/time.Minute) {
		h.clock.Forward(time.Minute)
		h.heard("n")
		_, err := h.Output(ctx, n, works, wire.TaskOutput{})
		must(t, err)
		must(t, h.Sweep(ctx))
	}
	if got := h.get(forgotten); got.Status != wire.TaskLost || got.Error != "its node says nothing of it any more" {
		t.Errorf("got %+v", got)
	}
	if got := h.get(works).Status; got != wire.TaskRunning {
		t.Errorf("the other task is %s", got)
	}
}
