package release_test

import (
	"context"
	"errors"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/release"
	"muster/store"
	"muster/store/releases"
)

// TestTurns has every state of a rollout with every operation: what comes of it, or "" where it is refused.
func TestTurns(t *testing.T) {
	ctx := context.Background()
	operations := map[string]func(*hall) error{
		"pause":  func(h *hall) error { _, err := h.Pause(ctx, wire.DefaultChannel, operator); return err },
		"resume": func(h *hall) error { _, err := h.Resume(ctx, wire.DefaultChannel, operator); return err },
		"abort":  func(h *hall) error { _, err := h.Abort(ctx, wire.DefaultChannel, nil, operator); return err },
		"point": func(h *hall) error {
			_, err := h.Point(ctx, wire.DefaultChannel, release.Promotion{Digest: sum("v1"), Plan: waves()}, operator)
			return err
		},
		"rollback": func(h *hall) error {
			_, err := h.Rollback(ctx, wire.DefaultChannel, release.Promotion{}, operator)
			return err
		},
	}
	for state, want := range map[string]map[string]string{
		releases.Running: {"pause": releases.Paused, "resume": "", "abort": releases.Aborted, "point": releases.Running,
			"rollback": releases.Running},
		releases.Paused: {"pause": "", "resume": releases.Running, "abort": releases.Aborted, "point": releases.Running,
			"rollback": releases.Running},
		releases.Halted: {"pause": "", "resume": releases.Running, "abort": releases.Aborted, "point": releases.Running,
			"rollback": releases.Running},
		releases.Aborted: {"pause": "", "resume": "", "abort": "", "point": releases.Running, "rollback": ""},
		releases.Done:    {"pause": "", "resume": "", "abort": "", "point": releases.Running, "rollback": releases.Running},
	} {
		if len(want) != len(operations) {
			t.Errorf("%s: %d operations of %d", state, len(want), len(operations))
		}
		for name, next := range want {
			h := inState(t, state)
			err := operations[name](h)
			if next == "" {
				wantCode(t, err, wire.CodeIllegalMove)
				next = state
			} else if err != nil {
				t.Errorf("%s, %s: %v", state, name, err)
			}
			h.state(next)
			h.open()
			h.state(next)
		}
	}
	h := newHall(t)
	for name, operate := range operations {
		if name != "point" {
			wantCode(t, operate(h), wire.CodeChannelUnknown)
		}
	}
}

// inState is a hall whose channel's rollout is in a state, with a release before it.
func inState(t *testing.T, state string) *hall {
	t.Helper()
	h := newHall(t, names(5)...)
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	for name := range h.look() {
		h.install(name, "v1")
	}
	h.point(v2, waves())
	canary := one(t, h.look())
	var err error
	switch state {
	case releases.Paused:
		_, err = h.Pause(t.Context(), wire.DefaultChannel, operator)
	case releases.Halted:
		h.say(canary, wire.UpdateRolledBack, wire.UpdateCrashed)
	case releases.Aborted:
		_, err = h.Abort(t.Context(), wire.DefaultChannel, nil, operator)
	case releases.Done:
		h.point(v2, nil)
		for name := range h.look() {
			h.install(name, "v2")
		}
		h.look()
	}
	must(t, err)
	h.state(state)
	return h
}

// TestNotRecorded: what a node says is not lost where the database takes no writes: its heartbeat fails, and it says it again.
func TestNotRecorded(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	must(t, h.store.Close())
	u := &wire.Update{Channel: "stable", Sequence: 1, Release: v1, About: 1, Phase: wire.UpdateRolledBack, Code: wire.UpdateHung}
	n := release.Node{ID: "id-n", Name: "n", OS: "linux", Arch: "amd64", Digest: "sha256:old"}
	for range 2 {
		if _, _, _, err := h.Heard(t.Context(), n, u); !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if _, _, _, err := h.Heard(t.Context(), n, &wire.Update{Channel: "stable", Sequence: 1}); err != nil {
		t.Errorf("a heartbeat without news needs the database: %v", err)
	}
}

// TestCounted: a node that says something new all the time fills no log.
func TestCounted(t *testing.T) {
	h := newHall(t, "n")
	counted := 0
	h.config.CountAgain = func(context.Context, store.Event) bool { counted++; return counted > 1 }
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	for about := range int64(5) {
		h.nodes["n"].update = &wire.Update{Channel: "stable", Release: v1, About: about, Phase: wire.UpdateFailed, Code: wire.UpdateNoRoom}
		h.beat("n")
	}
	if got := len(h.events("release.failed")); got != 1 || counted != 5 {
		t.Errorf("%d events of %d", got, counted)
	}
}
