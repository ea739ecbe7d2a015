package task_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
)

// TestUnbelievable: the key that signed a task was dropped since. Nodes do not believe it, and cannot say so. It holds up no others.
func TestUnbelievable(t *testing.T) {
	h := newHall(t, "n")
	n := h.claimer("n")
	first := h.make("n", wire.TaskDiagCollect).ID
	second := h.make("n", wire.TaskWorkloadStatus).ID
	other := h.key
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	third := h.make("n", wire.TaskDiagCollect).ID
	for range 2 {
		if got := h.take(n); got != "" && got != third {
			t.Errorf("got %q", got)
		}
	}
	if got := h.take(n); h.get(third).Status != wire.TaskDispatched {
		t.Errorf("got %q", got)
	}
	for _, id := range []string{first, second} {
		if got := h.get(id); got.Status != wire.TaskFailed || !strings.Contains(got.Error, "signature") || got.Digest != "" {
			t.Errorf("%s: %s", got.Status, got.Error)
		}
	}
	h.key = other
	if got := h.take(n); got != "" {
		t.Errorf("got %q, which has ended", got)
	}
	if got := strings.Join(h.events(), ", "); strings.Count(got, "task.finished failed") != 2 {
		t.Errorf("events: %s", got)
	}
}

// TestNotMeant: a record names another task, node or enrolment than what was signed. The node would refuse it without an answer.
func TestNotMeant(t *testing.T) {
	h := newHall(t, "n", "m")
	like := h.make("m", wire.TaskDiagCollect)
	var ids []string
	for _, change := range []func(*wire.TaskPayload){
		func(p *wire.TaskPayload) { p.TaskID = like.ID },
		func(p *wire.TaskPayload) { p.NodeID = "id-m" },
		func(p *wire.TaskPayload) { p.Enrolment = "e0-n" },
	} {
		row := like
		row.ID, row.NodeID, row.EnrolmentID = wire.NewTaskID(), "id-n", "e-n"
		var p wire.TaskPayload
		must(t, json.Unmarshal(like.Payload, &p))
		p.TaskID, p.NodeID, p.Enrolment = row.ID, row.NodeID, row.EnrolmentID
		change(&p)
		raw, err := json.Marshal(p)
		must(t, err)
		signed := sign.SealTask(h.key, raw)
		row.Payload, row.Signature, row.SigningKeyID = signed.Payload, signed.Signature, signed.SigningKeyID
		must(t, h.store.CreateTask(context.Background(), row))
		ids = append(ids, row.ID)
	}
	h.open()
	for _, id := range ids {
		if got := h.take(h.claimer("n")); got != "" || h.get(id).Status != wire.TaskFailed {
			t.Errorf("got %q, and the task is %s", got, h.get(id).Status)
		}
	}
}
