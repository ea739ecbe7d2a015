package task_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/task"
	"muster/store"
)

// launchOf reads a launch that a node would get.
func launchOf(t *testing.T, created store.Task) (p wire.WorkloadLaunch) {
	t.Helper()
	must(t, json.Unmarshal(task.Params(created), &p))
	must(t, p.Check())
	return p
}

// TestTagMoves: the node runs what the tag stood for when the task was given. The same request again is the same task.
func TestTagMoves(t *testing.T) {
	h := newHall(t, "n1")
	digest := "sha256:" + strings.Repeat("1", 64)
	var asked []task.Tag
	h.Digest = func(_ context.Context, tag task.Tag) (string, error) {
		asked = append(asked, tag)
		if strings.HasSuffix(tag.Image.Tag, "13") {
			return digest, nil // without the login
		}
		if lent, err := h.store.Events(t.Context(), store.EventQuery{Kind: "task.secret_lent"}); err != nil || len(lent) != 0 {
			t.Errorf("before the login is used: %+v, %v", lent, err)
		}
		login, err := tag.Login(t.Context())
		if login != "ada:pw" {
			t.Errorf("login %q", login)
		}
		return digest, err
	}
	must(t, h.store.SetLentSecret(t.Context(), store.LentSecret{Tenant: "default", Name: "login", CreatedAt: start, ChangedAt: start,
		ChangedBy: "op"}, []byte("ada:pw"), store.Event{At: start, Kind: "secret.set", Outcome: store.OutcomeOK}))
	q := task.Request{ID: wire.NewTaskID(), Node: "n1", Type: wire.TaskWorkloadLaunch,
		Params: json.RawMessage(`{"name":"x","image":"python:3.12","registry_secret":"login","env":{"A":"b"}}`)}
	first, created, err := h.Create(t.Context(), "", q, store.Actor{Name: "op"})
	must(t, err)
	p := launchOf(t, first)
	if !created || p.Image != "docker.io/library/python:3.12@"+digest || p.Env["A"] != "b" || len(asked) != 1 || asked[0].OfTenant {
		t.Fatalf("%v, %+v, asked %+v", created, p, asked)
	}
	wantLent := func() {
		t.Helper()
		lent, err := h.store.Events(t.Context(), store.EventQuery{Kind: "task.secret_lent", Security: true})
		if err != nil || len(lent) != 1 || lent[0].Actor != "op" || lent[0].Detail["secrets"] != "login" ||
			lent[0].Detail["host"] != "docker.io" || lent[0].Detail["task"] != first.ID || lent[0].Tenant != "default" {
			t.Errorf("%+v, %v", lent, err)
		}
	}
	wantLent()
	digest = "sha256:" + strings.Repeat("2", 64)
	again, created, err := h.Create(t.Context(), "", q, store.Actor{Name: "op"})
	if err != nil || created || again.ID != first.ID || launchOf(t, again).Image != p.Image || len(asked) != 1 {
		t.Errorf("again: %v, %v, asked %d times", created, err, len(asked))
	}
	q.Params = json.RawMessage(`{"name":"x","image":"python:3.13","registry_secret":"login","env":{"A":"b"}}`)
	_, _, err = h.Create(t.Context(), "", q, store.Actor{Name: "op"})
	wantCode(t, err, wire.CodeAlreadyThere)
	q.ID = ""
	later, _, err := h.Create(t.Context(), "", q, store.Actor{Name: "op"})
	must(t, err)
	if got := launchOf(t, later).Image; got != "docker.io/library/python:3.13@"+digest {
		t.Errorf("later: %s", got)
	}
	wantLent() // and no second one: the registry did not want it
}

// TestTagLoginOnRecord: a login of which nothing can be written down is not lent.
func TestTagLoginOnRecord(t *testing.T) {
	h := newHall(t, "n1")
	ctx, cancel := context.WithCancel(t.Context())
	h.Digest = func(_ context.Context, tag task.Tag) (string, error) {
		if !tag.OfTenant {
			t.Error("it is not known that a tenant asks")
		}
		cancel() // the store takes nothing from now on
		login, err := tag.Login(ctx)
		if err == nil || login != "" {
			t.Errorf("lent %q, %v", login, err)
		}
		return "", err
	}
	must(t, h.store.SetLentSecret(t.Context(), store.LentSecret{Tenant: "default", Name: "login"}, []byte("ada:pw")))
	_, _, err := h.Create(t.Context(), "default", task.Request{Node: "n1", Type: wire.TaskWorkloadLaunch,
		Params: json.RawMessage(`{"name":"x","image":"r.example/a:1","registry_secret":"login"}`)}, store.Actor{Name: "op"})
	if err == nil {
		t.Error("it was queued")
	}
}

// TestTagRefused: who cannot have a digest is told to give it, and nothing is queued.
func TestTagRefused(t *testing.T) {
	h := newHall(t, "n1")
	request := func(params string) error {
		q := task.Request{Node: "n1", Type: wire.TaskWorkloadLaunch, Params: json.RawMessage(params)}
		_, _, err := h.Create(t.Context(), "", q, store.Actor{Name: "op"})
		return err
	}
	err := request(`{"name":"x","image":"r.example/a:1"}`)
	wantCode(t, err, wire.CodeTaskParamsInvalid)
	if !strings.Contains(err.Error(), "r.example/a@sha256:") {
		t.Errorf("without a registry: %v", err)
	}
	h.Digest = func(context.Context, task.Tag) (string, error) {
		return "", wire.Refuse(wire.CodeTaskParamsInvalid, "no such tag", "look")
	}
	if err := request(`{"name":"x","image":"r.example/a:1"}`); err == nil || !strings.Contains(err.Error(), "no such tag") {
		t.Errorf("no such tag: %v", err)
	}
	h.Digest = func(context.Context, task.Tag) (string, error) { return "sha256:short", nil }
	for _, params := range []string{
		`{"name":"x","image":"r.example/a:1"}`, // the registry gives no digest
		`{"name":"--rm","image":"r.example/a:1"}`, `{"name":"x","image":"r.example/a:1","unknown":1}`, `{"name":"x","image":"r.example/A:1"}`,
	} {
		wantCode(t, request(params), wire.CodeTaskParamsInvalid)
	}
	if err := request(`{"name":"x","image":"r.example/a:1","registry_secret":"none"}`); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("no such secret: %v", err)
	}
	payload, err := json.Marshal(wire.TaskPayload{TaskID: wire.NewTaskID(), NodeID: "id-n1", Enrolment: "e-n1", Type: wire.TaskWorkloadLaunch,
		Params: json.RawMessage(`{"name":"x","image":"r.example/a:1"}`), IssuedAt: start, ExpiresAt: start.Add(1e9), Nonce: "n"})
	must(t, err)
	signed := sign.SealTask(h.operator, payload)
	_, _, err = h.Create(t.Context(), "", task.Request{Signed: &signed}, store.Actor{Name: "op"})
	wantCode(t, err, wire.CodeTaskParamsInvalid)
	if !strings.Contains(err.Error(), "an operator signs") {
		t.Errorf("signed by an operator: %v", err)
	}
	if waiting := h.Waiting("id-n1"); waiting != 0 {
		t.Errorf("%d tasks wait", waiting)
	}
}
