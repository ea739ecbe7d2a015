package release_test

import (
	"context"
	"testing"

	"muster/agent/wire"
	"muster/store"
	"muster/store/releases"
)

// TestClaims: a node that says it has committed, and runs another program, is not through.
func TestClaims(t *testing.T) {
	h := newHall(t, names(3)...)
	v1 := h.release("v1")
	h.point(v1, waves())
	canary := one(t, h.look())
	h.say(canary, wire.UpdateTrial, "")
	h.say(canary, wire.UpdateCommitted, "")
	h.look()
	if c := h.state(releases.Running); c.Counts.Admitted != 1 || c.Counts.Running != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestTrialNotRecorded: a node runs the release on trial, and has said so much lately that this word is not recorded yet. The rollout
// waits for how the trial ends all the same.
func TestTrialNotRecorded(t *testing.T) {
	h := newHall(t, names(1)...)
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	for range 4 {
		h.say("n000", wire.UpdateHeld, wire.UpdateBusy)
		h.say("n000", wire.UpdateHeld, wire.UpdateStagger)
	}
	wanted, err := h.Wanted(t.Context(), "id-n000")
	must(t, err)
	n := h.nodes["n000"]
	n.program = program("v1")
	h.sayOf(n, wanted, wire.UpdateTrial, "")
	must(t, h.Look(t.Context()))
	h.state(releases.Running)
	h.sayOf(n, wanted, wire.UpdateCommitted, "")
	must(t, h.Look(t.Context()))
	h.state(releases.Done)
}

// TestTrialBeingRecorded: a round of the rollout that comes while the word is being recorded sees it.
func TestTrialBeingRecorded(t *testing.T) {
	h := newHall(t, names(1)...)
	h.config.CountAgain = func(context.Context, store.Event) bool { // is asked in the midst of it
		if phase := h.Updating("id-n000").Phase; phase != wire.UpdateRolledBack {
			t.Errorf("the node has gone back, and is seen as %q", phase)
		}
		return false
	}
	h.point(h.release("v1"), nil) // this opens the service with it
	h.look()
	h.say("n000", wire.UpdateRolledBack, wire.UpdateHung)
	if len(h.events("release.rolled_back")) != 1 {
		t.Error("nothing was recorded")
	}
}

// TestAfterwards: when a rollout is done, a late node gets its release too: in its window alone, and not again if it failed, until a
// higher number orders it.
func TestAfterwards(t *testing.T) {
	h := newHall(t)
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	h.state(releases.Done)
	h.enrol("shut", map[string]string{wire.LabelWindow: "Mon 02:00-04:00"})
	h.enrol("late", nil)
	if offered := h.look(); one(t, offered) != "late" {
		t.Fatalf("offered %v", offered)
	}
	h.say("late", wire.UpdateRolledBack, wire.UpdateHung)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("after it failed: %v", offered)
	}
	h.open()
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("after a restart: %v", offered)
	}
	h.point(v1, nil)
	if offered := h.look(); one(t, offered) != "late" {
		t.Errorf("under a higher number: %v", offered)
	}
}
