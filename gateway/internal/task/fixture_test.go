package task_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/task"
	"muster/store"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// hall is a desk on a real store, with nodes that are active.
type hall struct {
	*task.Service
	t        testing.TB
	clock    *kit.Clock
	store    *store.Store
	key      ed25519.PrivateKey
	operator ed25519.PrivateKey
	telling  sync.Mutex
	moved    []string // "node task" in the order in which it was told
	aside    []*wire.SignedTask
}

func newHall(t testing.TB, nodes ...string) *hall {
	t.Helper()
	h := &hall{t: t, clock: kit.NewClock(start)}
	h.store = kit.Store(t, h.clock.Now)
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	_, h.operator, _ = ed25519.GenerateKey(rand.Reader)
	must(t, h.store.CreateToken(context.Background(), store.Token{ID: "mse_many", Tenant: "default", Uses: 100_000, Key: []byte("k"),
		CreatedAt: start, ExpiresAt: start.Add(100 * time.Hour)}))
	for _, name := range nodes {
		h.enrol(name)
	}
	h.open()
	return h
}

// open makes the desk, as a start of the gateway does.
func (h *hall) open() {
	h.t.Helper()
	var err error
	h.Service, err = task.New(context.Background(), task.Config{
		Store: h.store, Now: h.clock.Now,
		Moved: func(node, id string) {
			h.telling.Lock()
			defer h.telling.Unlock()
			h.moved = append(h.moved, node+" "+id)
		},
		Sign: func(payload []byte) (wire.SignedTask, error) { return sign.SealTask(h.key, payload), nil },
		Keys: func() []ed25519.PublicKey {
			return []ed25519.PublicKey{h.key.Public().(ed25519.PublicKey), h.operator.Public().(ed25519.PublicKey)}
		},
	})
	must(h.t, err)
}

func (h *hall) certificate(print string) store.Certificate {
	return store.Certificate{Fingerprint: print, KeyHash: "key of " + print, PublicKey: []byte(print), Chain: "chain", NotBefore: start,
		NotAfter: start.Add(1000 * time.Hour), IssuedAt: h.clock.Now()}
}

// enrol makes an active node. Its id is id-NAME, its enrolment e-NAME, its fingerprint print-NAME.
func (h *hall) enrol(name string) {
	h.t.Helper()
	ctx := context.Background()
	must(h.t, h.store.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "mse_many", ConsumeToken: true, KeyHash: "key-" + name,
		At: h.clock.Now(), Node: store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "enrolled"}, NewNode: true,
		Certificate: h.certificate("print-" + name)}))
	h.move(name, "enrolled", "active")
}

// again enrols a node anew, on another machine.
func (h *hall) again(name string) {
	h.t.Helper()
	must(h.t, h.store.Enrol(context.Background(), store.Enrolment{ID: "e2-" + name, Credential: "mse_many", ConsumeToken: true,
		KeyHash: "key2-" + name, At: h.clock.Now(), Node: store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "active"},
		TakeOver: &store.TakeOver{EnrolmentID: "e-" + name, State: "active"}, Certificate: h.certificate("print2-" + name)}))
}

// renew makes the next certificate of a node, print-NAME-next, and uses it for the first time.
func (h *hall) renew(name string) task.Claimer {
	h.t.Helper()
	ctx := context.Background()
	c := h.certificate("print-" + name + "-next")
	c.NodeID = "id-" + name
	c.EnrolmentID = "e-" + name
	c.Generation = 2
	must(h.t, h.store.AddCertificate(ctx, c, "print-"+name))
	must(h.t, h.store.PromoteCertificate(ctx, c.Fingerprint, h.clock.Now()))
	claimer := h.claimer(name)
	claimer.Fingerprint = c.Fingerprint
	return claimer
}

func (h *hall) move(name, from, to string) {
	h.t.Helper()
	must(h.t, h.store.MoveNode(context.Background(), store.Move{NodeID: "id-" + name, From: from, To: to, At: h.clock.Now(),
		RevokeCertificates: to == "retired"}))
}

// heard notes a heartbeat.
func (h *hall) heard(name string) {
	h.t.Helper()
	must(h.t, h.store.SaveBeats(context.Background(), []store.Beat{{NodeID: "id-" + name, At: h.clock.Now(), RunID: "r"}}, h.clock.Now()))
}

func (h *hall) claimer(name string) task.Claimer {
	return task.Claimer{NodeID: "id-" + name, Enrolment: "e-" + name, Fingerprint: "print-" + name, Proof: "tls:print-" + name,
		Address: "192.0.2.7"}
}

func operator() store.Actor { return store.Actor{Name: "operator:socket", Address: "192.0.2.1"} }

// make queues a task whose types need no params.
func (h *hall) make(node, kind string) store.Task {
	h.t.Helper()
	t, created, err := h.Create(context.Background(), "", task.Request{Node: node, Type: kind}, operator())
	must(h.t, err)
	if !created {
		h.t.Fatal("it was there already")
	}
	return t
}

// take waits not at all, and returns the id of the task that the claimer gets; "": none.
func (h *hall) take(c task.Claimer) string {
	h.t.Helper()
	signed, err := h.Wait(context.Background(), c, 0, task.Takes{Tasks: true})
	must(h.t, err)
	if signed == nil {
		return ""
	}
	return h.opened(signed).TaskID
}

// opened is what a node reads in a task that it got.
func (h *hall) opened(signed *wire.SignedTask) wire.TaskPayload {
	h.t.Helper()
	payload, _, err := sign.OpenTask(*signed, []ed25519.PublicKey{h.key.Public().(ed25519.PublicKey), h.operator.Public().(ed25519.PublicKey)})
	must(h.t, err)
	return payload
}

func (h *hall) get(id string) store.Task {
	h.t.Helper()
	t, err := h.Task(context.Background(), "", id)
	must(h.t, err)
	return t
}

func (h *hall) begin(c task.Claimer, id string) {
	h.t.Helper()
	progress, err := h.Started(context.Background(), c, id)
	must(h.t, err)
	if progress.Cancel {
		h.t.Fatal("it is to be canceled")
	}
}

// result is what a node says about a task that went well.
func result(change func(*wire.TaskResult)) []byte {
	exit := 0
	r := wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &exit, FinishedAt: start,
		Output: wire.TaskLog{Head: []byte("done\n"), Bytes: 5}}
	if change != nil {
		change(&r)
	}
	body, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return body
}

func (h *hall) end(c task.Claimer, id string) {
	h.t.Helper()
	must(h.t, h.Result(context.Background(), c, id, result(nil)))
}

// events gives the kinds and outcomes of the events about tasks, oldest first.
func (h *hall) events() []string {
	h.t.Helper()
	rows, err := h.store.Events(context.Background(), store.EventQuery{Ascending: true, Limit: 1000})
	must(h.t, err)
	var all []string
	for _, e := range rows {
		if len(e.Kind) > 5 && e.Kind[:5] == "task." {
			all = append(all, e.Kind+" "+e.Outcome)
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode checks the code of a refusal.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}
