package task_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

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
