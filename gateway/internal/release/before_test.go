package release_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release"
	"muster/store/releases"
)

// finished is a desk whose nodes run v1, which has finished.
func finished(t *testing.T, nodes ...string) *hall {
	t.Helper()
	h := newHall(t, nodes...)
	h.point(h.release("v1"), nil)
	for name := range h.look() {
		h.install(name, "v1")
	}
	h.look()
	h.state(releases.Done)
	return h
}

// TestReleaseBefore: a release that was replaced before it was through never becomes the one to go back to, whatever state it was in.
func TestReleaseBefore(t *testing.T) {
	for name, stop := range map[string]func(h *hall){
		"running": func(*hall) {},
		"paused": func(h *hall) {
			_, err := h.Pause(t.Context(), wire.DefaultChannel, operator)
			must(t, err)
		},
		"halted": func(h *hall) { h.say(one(t, h.beats(0)), wire.UpdateRolledBack, wire.UpdateCrashed) },
	} {
		t.Run(name, func(t *testing.T) {
			h := finished(t, names(4)...)
			h.point(h.release("v2"), waves())
			h.look()
			stop(h)
			h.open()
			c := h.point(h.release("v3"), waves())
			if c.Previous != sum("v1") {
				t.Errorf("v3 goes back to %s", c.Previous)
			}
			h.open()
			c, err := h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
			if err != nil || c.Digest != sum("v1") || !h.row().Finished {
				t.Errorf("got %+v, %v", c, err)
			}
			// What was gone back to is good to go back to again.
			if c = h.point(sum("v3"), waves()); c.Previous != sum("v1") {
				t.Errorf("v3 again goes back to %s", c.Previous)
			}
		})
	}
}

// TestNewcomerOnWayBack: a machine that joins during a way back installs what is gone back to, also while that is paused.
func TestNewcomerOnWayBack(t *testing.T) {
	h := finished(t, names(4)...)
	h.point(h.release("v2"), nil)
	for name := range h.look() {
		h.install(name, "v2")
	}
	h.look()
	h.state(releases.Done)
	_, err := h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{Plan: waves()}, operator)
	must(t, err)
	_, err = h.Pause(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	if n, ok, err := h.Newcomer(t.Context(), "id-new"); err != nil || !ok || n.Digest != sum("v1") || n.Pointer == "" {
		t.Errorf("a newcomer gets %s, %v, %v", n.Version, ok, err)
	}
}

// TestLate: a node that is heard and does not begin counts as failed after a fair time. A canary halts with its name, few of many are gone
// on without, and who begins at last counts no more.
func TestLate(t *testing.T) {
	h := newHall(t, names(12)...)
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	h.pass(7 * time.Minute)
	h.state(releases.Running)
	h.pass(2 * time.Minute)
	c := h.state(releases.Halted)
	if c.Counts.Late != 1 || !strings.Contains(c.Why, canary) {
		t.Errorf("got %+v", c)
	}
	h.open()
	h.beats(0)
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	if offered := h.look(); offered[canary] != sum("v1") {
		t.Errorf("offered %v", offered)
	}
	h.install(canary, "v1")
	h.look()
	if c := h.shown(); c.Counts.Late != 0 || c.Counts.Running != 1 {
		t.Errorf("got %+v", c)
	}

	h = newHall(t, names(12)...)
	h.point(h.release("v1"), nil)
	offered := h.look()
	delete(offered, "n000")
	for name := range offered {
		h.install(name, "v1")
	}
	h.pass(9 * time.Minute)
	if c := h.state(releases.Done); c.Counts.Late != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestLateIsFair: time in which nobody could begin does not count, and a node that waits for its tasks has longer.
func TestLateIsFair(t *testing.T) {
	h := newHall(t, names(4)...)
	h.point(h.release("v1"), nil)
	h.look()
	_, err := h.Pause(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.pass(time.Hour)
	_, err = h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.pass(5 * time.Minute)
	h.open() // and the gateway was away
	h.clock.Forward(time.Hour)
	h.pass(5 * time.Minute)
	if c := h.state(releases.Running); c.Counts.Late != 0 {
		t.Errorf("got %+v", c)
	}
	for _, name := range names(4) {
		h.say(name, wire.UpdateHeld, wire.UpdateBusy)
	}
	h.pass(5 * time.Hour)
	h.state(releases.Running)
	h.pass(2 * time.Hour)
	h.state(releases.Halted)
}

// TestHaltedIsNotLate: a halt takes the release from those that fetch it, so what it lasts does not count when it is over.
func TestHaltedIsNotLate(t *testing.T) {
	h := newHall(t, names(12)...)
	h.point(h.release("v1"), nil)
	h.look()
	for _, name := range names(12) {
		h.say(name, wire.UpdateFetching, "")
	}
	h.say("n000", wire.UpdateFailed, wire.UpdateNoRoom)
	h.say("n001", wire.UpdateFailed, wire.UpdateNoRoom)
	h.pass(7 * time.Hour)
	h.state(releases.Halted)
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	if offered := h.look(); len(offered) != 10 {
		t.Errorf("offered %v", offered)
	}
	h.pass(5 * time.Hour)
	if c := h.state(releases.Running); c.Counts.Late != 0 {
		t.Errorf("got %+v", c)
	}
	h.pass(2 * time.Hour)
	h.state(releases.Halted)
}

// TestAfterDone: who comes to the release when its rollout is done is watched by the same rule, as part of the last wave.
func TestAfterDone(t *testing.T) {
	h := newHall(t, names(10)...)
	for _, name := range []string{"shut1", "shut2", "shut3"} {
		h.enrol(name, map[string]string{wire.LabelWindow: "14:00-15:00"})
	}
	h.point(h.release("v1"), nil)
	for name := range h.look() {
		h.install(name, "v1")
	}
	h.look()
	h.state(releases.Done)
	h.pass(2 * time.Hour)
	if offered := h.look(); len(offered) != 3 {
		t.Fatalf("offered %v", offered)
	}
	h.say("shut1", wire.UpdateRolledBack, wire.UpdateCrashed)
	h.state(releases.Done) // one of thirteen may
	h.say("shut2", wire.UpdateRolledBack, wire.UpdateCrashed)
	h.state(releases.Halted)
	if offered := h.beats(0); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	must(t, h.Look(t.Context()))
	h.open()
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("after a restart: %v", offered)
	}
	h.state(releases.Halted)
	if len(h.events("rollout.halted")) != 1 {
		t.Error("the halt is not told once")
	}
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.look()
	h.install("shut3", "v1")
	h.look()
	h.state(releases.Done)
	// Who has it may be switched off: that says nothing of the release any more. Who comes back with another one gets it again.
	for _, name := range names(8) {
		h.nodes[name].silent = true
	}
	h.nodes["n008"].program = "sha256:old"
	h.pass(10 * time.Minute)
	h.state(releases.Done)
	if offered := h.beats(0); one(t, offered) != "n008" {
		t.Errorf("offered %v", offered)
	}
}

// TestLastWordLost: where the end of a trial was not recorded yet when the gateway ended, what the node runs tells that it got through.
func TestLastWordLost(t *testing.T) {
	h := newHall(t, names(4)...)
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	r, err := h.Wanted(t.Context(), "id-"+canary)
	must(t, err)
	n := h.nodes[canary]
	for _, said := range [][2]string{{wire.UpdateHeld, wire.UpdateStagger}, {wire.UpdateHeld, wire.UpdateBusy},
		{wire.UpdateHeld, wire.UpdateStagger}, {wire.UpdateFetching, ""}, {wire.UpdateTrial, ""}} {
		h.sayOf(n, r, said[0], said[1])
	}
	n.program = program("v1")
	h.sayOf(n, r, wire.UpdateTrial, "")
	must(t, h.Look(t.Context()))
	if c := h.shown(); c.Counts.Committed != 0 {
		t.Errorf("on trial: %+v", c.Counts)
	}
	h.sayOf(n, r, wire.UpdateCommitted, "")
	h.open()
	h.look()
	if c := h.state(releases.Running); c.Counts.Committed != 1 {
		t.Errorf("got %+v", c.Counts)
	}
}
