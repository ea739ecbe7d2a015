package release_test

import (
	"slices"
	"testing"
	"time"

	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// TestDeadNode: a node that has just fallen silent is not let in and holds nobody up; who is let in is told at once. When the node is heard
// again it gets the release; when it falls silent with it, it is not on it any more.
func TestDeadNode(t *testing.T) {
	h := newHall(t, names(3)...)
	var told []string
	h.config.Report = func(id string) { told = append(told, id) }
	v1 := h.release("v1")
	dead := h.nodes["n000"]
	dead.silent = true
	h.pass(2 * time.Minute) // its heartbeats are missed, and it may be going back from a release still
	now := rollout.AllAtOnce()
	h.point(v1, &now)
	offered := h.look()
	c := h.state(releases.Running)
	if len(offered) != 2 || c.Counts.Admitted != 2 || c.Counts.Offline != 1 {
		t.Errorf("offered %v, %+v", offered, c.Counts)
	}
	if slices.Sort(told); !slices.Equal(told, []string{"id-n001", "id-n002"}) {
		t.Errorf("told %v", told)
	}
	for name := range offered {
		h.nodes[name].program = program("v1")
	}
	h.look()
	if c := h.state(releases.Done); c.Counts.Running != 2 || c.Counts.Offline != 1 || c.Counts.Silent != 0 {
		t.Errorf("got %+v", c.Counts)
	}
	dead.silent = false
	h.beat(dead.name)
	if got := one(t, h.look()); got != dead.name || len(told) != 3 {
		t.Errorf("heard again: %s is offered it, told %v", got, told)
	}
	dead.program = program("v1")
	h.look()
	dead.silent = true
	h.pass(2 * time.Minute)
	if c := h.state(releases.Done); c.Counts.Running != 2 || c.Counts.Offline != 1 {
		t.Errorf("silent with the release: %+v", c.Counts)
	}
}

// TestOutage: while the network is away for a moment, no wave ends for want of nodes: the next one would let all in at once.
func TestOutage(t *testing.T) {
	h := newHall(t, names(20)...)
	out := func(is bool) {
		for _, n := range h.nodes {
			n.silent = is
		}
		h.pass(2 * time.Minute) // heartbeats are missed, and nobody counts as silent
	}
	v1 := h.release("v1")
	out(true)
	h.point(v1, waves())
	h.look()
	h.state(releases.Running)
	out(false)
	canary := one(t, h.look())
	h.take(canary, "v1")
	h.pass(8*time.Minute + 30*time.Second)
	out(true)
	if c := h.state(releases.Running); c.Wave != 2 || c.Counts.Admitted != 0 {
		t.Errorf("after the canary: %+v", c)
	}
	out(false)
	if offered := h.look(); len(offered) != 4 {
		t.Errorf("the second wave is %v", offered)
	}
}

// TestRetiredNode: a node leaves its channel's rollout at the moment when it is retired, also while its last heartbeat is new, whether it
// was let in or not. A node that only moved to another state stays.
func TestRetiredNode(t *testing.T) {
	h := newHall(t, names(4)...)
	v1 := h.release("v1")
	retire := func(name string) {
		h.nodes[name].silent = true
		must(t, h.store.MoveNode(t.Context(), storeMove("id-"+name, "enrolled", h.clock.Now())))
		n, err := h.store.Node(t.Context(), "", "id-"+name)
		must(t, err)
		h.Moved(n)
	}
	retire("n000")
	if c := h.point(v1, waves()); c.Counts.Nodes != 3 || c.Counts.Offline != 0 {
		t.Errorf("promoted just after: %+v", c.Counts)
	}
	canary := one(t, h.look())
	h.Moved(store.Node{ID: "id-" + canary, State: "active"})
	if c := h.shown(); c.Counts.Nodes != 3 || c.Counts.Admitted != 1 {
		t.Errorf("a canary that stays: %+v", c.Counts)
	}
	retire(canary)
	if c := h.shown(); c.Counts.Nodes != 2 || c.Counts.Admitted != 0 || c.Counts.Offline != 0 {
		t.Errorf("without its canary: %+v", c.Counts)
	}
	h.look()
	if c := h.state(releases.Running); c.Counts.Admitted != 1 {
		t.Errorf("nobody took the canary's place: %+v", c.Counts)
	}
}

// TestManyTold: of many that are let in at once, so many are told, and the others hear it with their heartbeats.
func TestManyTold(t *testing.T) {
	h := newHall(t, names(230)...)
	told := 0
	h.config.Report = func(string) { told++ }
	v1 := h.release("v1")
	now := rollout.AllAtOnce()
	h.point(v1, &now)
	if offered := h.look(); len(offered) != 230 || told != 200 {
		t.Errorf("%d are offered it, %d are told", len(offered), told)
	}
}
