package release_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
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
		"abort": func(h *hall) error {
			_, err := h.Abort(ctx, wire.DefaultChannel, release.Promotion{}, operator)
			return err
		},
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
		releases.Running: {"pause": releases.Paused, "resume": releases.Running, "abort": releases.Aborted, "point": releases.Running,
			"rollback": releases.Running},
		releases.Paused: {"pause": releases.Paused, "resume": releases.Running, "abort": releases.Aborted, "point": releases.Running,
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
		_, err = h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
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

// TestAsSeen: who decided by what the channel was before its last change is refused, and nothing moves.
func TestAsSeen(t *testing.T) {
	h := newHall(t, names(4)...)
	v1 := h.release("v1")
	v2 := h.release("v2")
	v3 := h.release("v3")
	ctx := t.Context()
	name := wire.DefaultChannel
	h.point(v1, nil)
	for node := range h.look() {
		h.install(node, "v1")
	}
	h.look()
	h.point(v2, waves())
	seen, err := h.Channel(ctx, name)
	must(t, err)
	h.point(v3, waves())
	for what, do := range map[string]func(seen int64) (api.Channel, error){
		"abort": func(n int64) (api.Channel, error) {
			return h.Abort(ctx, name, release.Promotion{Seen: n}, operator)
		},
		"rollback": func(n int64) (api.Channel, error) {
			return h.Rollback(ctx, name, release.Promotion{Seen: n}, operator)
		},
		"point": func(n int64) (api.Channel, error) {
			return h.Point(ctx, name, release.Promotion{Digest: v1, Seen: n}, operator)
		},
	} {
		_, err := do(seen.Sequence)
		wantCode(t, err, wire.CodeIllegalMove)
		if now, err := h.Channel(ctx, name); err != nil || now.Digest != v3 || now.State != releases.Running {
			t.Errorf("%s: %+v, %v", what, now, err)
		}
	}
	_, err = h.Point(ctx, "unheard", release.Promotion{Digest: v1, Seen: 7}, operator)
	wantCode(t, err, wire.CodeIllegalMove)
	c, err := h.Abort(ctx, name, release.Promotion{Seen: seen.Sequence + 1}, operator)
	if err != nil || c.Digest != v1 || c.State != releases.Aborted {
		t.Errorf("as it is now: %+v, %v", c, err)
	}
}

// TestBackOutsideOfWindow: who runs a release that is taken back goes back at once, also if its window is shut or cannot be read. Who
// never had it waits for its window, and so does a node that is pinned.
func TestBackOutsideOfWindow(t *testing.T) {
	ways := map[string]func(*hall) (api.Channel, error){
		"abort": func(h *hall) (api.Channel, error) {
			return h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
		},
		"rollback": func(h *hall) (api.Channel, error) {
			return h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
		},
		"rollback in waves": func(h *hall) (api.Channel, error) {
			plan := release.Plan{Canary: "2", MaxFailed: "0"}
			return h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{Plan: &plan}, operator)
		},
	}
	for name, back := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHall(t)
			had := []string{"had", "unreadable", "pinned"}
			for _, name := range append(had, "never") {
				h.enrol(name, map[string]string{wire.LabelWindow: "11:00-13:00"}) // it is 12:00
			}
			h.nodes["never"].silent = true // it comes later, with another version still
			h.point(h.release("v1"), nil)
			h.look()
			for _, name := range had {
				h.install(name, "v1")
			}
			h.look()
			h.state(releases.Done)
			v2 := h.release("v2")
			h.point(v2, &release.Plan{Steps: []string{"90%"}, SoakSeconds: 3600, MaxFailed: "0"})
			h.look()
			for _, name := range had {
				h.install(name, "v2")
			}
			must(t, h.Pin(t.Context(), []release.Ref{{ID: "id-pinned", Name: "pinned"}}, sum("v1"), nil, operator))
			must(t, h.store.SetLabels(t.Context(), "id-unreadable", map[string]string{wire.LabelWindow: "at night"}, nil))
			h.clock.Set(start.Add(3 * time.Hour))
			h.look() // nobody was heard for long
			h.nodes["never"].silent = false
			if offered := h.look(); len(offered) != 0 {
				t.Fatalf("with all windows shut: %v", offered)
			}
			if _, err := back(h); err != nil {
				t.Fatal(err)
			}
			h.look()
			if offered := h.look(); len(offered) != 2 || offered["had"] != sum("v1") || offered["unreadable"] != sum("v1") {
				t.Errorf("offered %v", offered)
			}
			h.open() // also after a restart
			h.look()
			if offered := h.look(); len(offered) != 2 {
				t.Errorf("after a restart: %v", offered)
			}
			h.install("had", "v1")
			h.install("unreadable", "v1")
			h.point(v2, nil) // forward again: the windows count
			h.look()
			if offered := h.look(); len(offered) != 0 {
				t.Errorf("forward: %v", offered)
			}
		})
	}
}

// TestHeldByRollout: only a node that could get the release now is told that it waits for the rollout, and what that does.
func TestHeldByRollout(t *testing.T) {
	h := newHall(t, names(4)...)
	h.release("v1")
	h.enrol("has", nil).program = program("v1")
	h.enrol("away", nil)
	h.beats(time.Minute)
	h.nodes["away"].silent = true
	h.pass(10 * time.Minute)
	h.point(sum("v1"), waves())
	h.look()
	held := func(want string) {
		t.Helper()
		s, err := h.Status(t.Context(), wire.DefaultChannel)
		must(t, err)
		seen := map[string]int{}
		for _, n := range s.Nodes {
			seen[n.State]++
			if waits := n.State == "waiting"; waits != (n.Held == want) || !waits && n.Held != "" {
				t.Errorf("%s (%s): %q, want %q", n.Name, n.State, n.Held, want)
			}
		}
		if seen["running"] == 0 || seen["offline"] == 0 || seen["waiting"] == 0 {
			t.Errorf("the nodes are %v", seen)
		}
	}
	held("it is not its turn")
	_, err := h.Pause(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	held("the rollout is paused")
	_, err = h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	must(t, err)
	held("the rollout is aborted")
}

// TestAgain: what is asked for twice changes nothing the second time, records nothing, and says so. What a promotion ends is told.
func TestAgain(t *testing.T) {
	h := finished(t, names(4)...)
	v2 := h.release("v2")
	first := h.point(v2, waves())
	h.look()
	steps := []struct {
		kind string // of the event
		do   func() (api.Channel, error)
	}{
		{"channel.pointed", func() (api.Channel, error) {
			return h.Point(t.Context(), wire.DefaultChannel, release.Promotion{Digest: v2, Plan: waves()}, operator)
		}},
		{"rollout.paused", func() (api.Channel, error) { return h.Pause(t.Context(), wire.DefaultChannel, operator) }},
		{"rollout.resumed", func() (api.Channel, error) { return h.Resume(t.Context(), wire.DefaultChannel, operator) }},
	}
	for _, s := range steps {
		_, err := s.do()
		must(t, err)
		before := len(h.events(s.kind))
		c, err := s.do()
		if err != nil || c.Sequence != first.Sequence || !strings.Contains(c.Note, "nothing was changed") || len(h.events(s.kind)) != before {
			t.Errorf("%s again: %+v, %v", s.kind, c, err)
		}
	}
	other := waves()
	other.SoakSeconds++
	c := h.point(v2, other)
	const want = "this ended the rollout of v2, which was running in wave 1 of "
	told := slices.ContainsFunc(h.events("channel.pointed"), func(e store.Event) bool { return e.Detail["why"] == c.Note })
	if c.Sequence != first.Sequence+1 || !strings.HasPrefix(c.Note, want) || !told {
		t.Errorf("other waves: %+v, %+v", c, h.events("channel.pointed"))
	}
}

// TestBackOnce: a second way back does not go forward to what the channel was taken back from, unless that is named.
func TestBackOnce(t *testing.T) {
	h := finished(t, names(4)...)
	v2 := h.release("v2")
	h.point(v2, nil)
	for name := range h.look() {
		h.install(name, "v2")
	}
	h.look()
	h.state(releases.Done)
	back := func(digest string) (api.Channel, error) {
		return h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{Digest: digest}, operator)
	}
	c, err := back("")
	if err != nil || c.Digest != sum("v1") {
		t.Fatalf("got %+v, %v", c, err)
	}
	_, err = back("")
	wantCode(t, err, wire.CodeIllegalMove)
	if !strings.Contains(err.Error(), "v2, which the channel was taken back from") {
		t.Error(err)
	}
	if c, err = back(v2); err != nil || c.Digest != v2 {
		t.Errorf("by its name: %+v, %v", c, err)
	}
	if c, err = h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator); err != nil || c.Digest != sum("v1") {
		t.Errorf("aborted: %+v, %v", c, err)
	}
}

// TestPointCountsWhoCame: a node that was given to a channel just now is counted in the answer to the promotion.
func TestPointCountsWhoCame(t *testing.T) {
	h := newHall(t, names(2)...)
	v1 := h.release("v1")
	h.look()
	must(t, h.store.SetLabels(t.Context(), "id-n001", map[string]string{wire.LabelChannel: "beta"}, nil))
	c, err := h.Point(t.Context(), "beta", release.Promotion{Digest: v1}, operator)
	if err != nil || c.Counts.Nodes != 1 {
		t.Errorf("got %+v, %v", c.Counts, err)
	}
}

// TestRollbackNoChannel: a way back needs a channel, also if it names a release. Nothing hangs afterwards.
func TestRollbackNoChannel(t *testing.T) {
	h := newHall(t, names(1)...)
	v1 := h.release("v1")
	for _, digest := range []string{v1, ""} {
		_, err := h.Rollback(t.Context(), "stabel", release.Promotion{Digest: digest}, operator)
		wantCode(t, err, wire.CodeChannelUnknown)
	}
	h.point(v1, nil)
	h.look()
}

// TestPause: nobody begins while it is paused, and who has begun goes on.
func TestPause(t *testing.T) {
	h := newHall(t, names(10)...)
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	h.say("n001", wire.UpdateFetching, "")
	_, err := h.Pause(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	if offered := h.look(); one(t, offered) != "n001" {
		t.Errorf("paused: %v", offered)
	}
	h.install("n001", "v1")
	_, err = h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	if offered := h.look(); len(offered) != 9 {
		t.Errorf("resumed: %v", offered)
	}
}
