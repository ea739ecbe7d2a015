package release_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
	"muster/store/releases"
)

// waves is a plan with a canary, a quarter, and the others.
func waves() *release.Plan {
	return &release.Plan{Canary: "1", Steps: []string{"25%", "100%"}, SoakSeconds: 600, MaxFailed: "10%"}
}

// TestRollout: a canary, its soak time, a quarter, the others; each node gets the release when it is its turn.
func TestRollout(t *testing.T) {
	h := newHall(t, names(20)...)
	v1 := h.release("v1")
	c := h.point(v1, waves())
	if c.Sequence != 1 || c.State != releases.Running || c.Wave != 1 || c.Waves != 3 || c.Counts.Nodes != 20 {
		t.Fatalf("got %+v", c)
	}
	if offered := h.beats(0); len(offered) != 0 {
		t.Fatalf("before a round: %v", offered)
	}
	canary := one(t, h.look())
	h.say(canary, wire.UpdateFetching, "")
	h.say(canary, wire.UpdateTrial, "")
	if offered := h.look(); one(t, offered) != canary {
		t.Fatalf("in the trial: %v", offered)
	}
	h.install(canary, "v1")
	if offered := h.look(); len(offered) != 0 {
		t.Fatalf("in the soak time: %v", offered)
	}
	h.pass(9 * time.Minute)
	if offered := h.look(); len(offered) != 0 {
		t.Fatalf("in the soak time: %v", offered)
	}
	h.pass(time.Minute)
	quarter := h.look()
	if len(quarter) != 4 {
		t.Fatalf("the quarter: %v", quarter)
	}
	for name := range quarter {
		h.install(name, "v1")
	}
	h.look()
	h.pass(10 * time.Minute)
	rest := h.look()
	if len(rest) != 15 {
		t.Fatalf("the others: %v", rest)
	}
	for name := range rest {
		h.install(name, "v1")
	}
	h.look()
	c = h.state(releases.Done)
	if c.Counts.Running != 20 || c.Counts.Committed != 20 || c.Wave != 3 {
		t.Errorf("got %+v", c)
	}
	h.enrol("late", nil)
	h.beat("late")
	if offered := h.look(); one(t, offered) != "late" {
		t.Error("a node that comes when it is done gets nothing")
	}
	if len(h.events("rollout.wave")) != 2 || len(h.events("rollout.done")) != 1 || len(h.events("release.committed")) != 20 {
		t.Error("events are missing")
	}
	if e := h.events("channel.pointed"); len(e) != 1 || !e[0].Security || e[0].Actor != operator.Name || e[0].Detail["seq"] != "1" {
		t.Errorf("the log has %+v", e)
	}
}

// TestCanaryHalts: a canary that goes back stops all, at the same moment, also after a restart. What it said is kept.
func TestCanaryHalts(t *testing.T) {
	for phase, code := range map[string]string{wire.UpdateRolledBack: wire.UpdateCrashed, wire.UpdateFailed: wire.UpdateNoRoom} {
		h := newHall(t, names(10)...)
		v1 := h.release("v1")
		h.point(v1, waves())
		canary := one(t, h.look())
		h.say(canary, wire.UpdateTrial, "")
		if halted := h.Halted(); len(halted) != 0 {
			t.Errorf("amid the rollout, halted are %+v", halted)
		}
		h.say(canary, phase, code)
		h.state(releases.Halted)
		if offered := h.look(); len(offered) != 0 {
			t.Errorf("offered %v", offered)
		}
		h.open()
		if offered := h.look(); len(offered) != 0 {
			t.Errorf("after a restart: %v", offered)
		}
		c := h.state(releases.Halted)
		if c.Counts.Failed != 1 || c.Why == "" {
			t.Errorf("got %+v", c)
		}
		if halted := h.Halted(); len(halted) != 1 || halted[0].Channel != c.Channel || halted[0].Why != c.Why {
			t.Errorf("halted are %+v", halted)
		}
		s, err := h.Status(t.Context(), wire.DefaultChannel)
		must(t, err)
		for _, n := range s.Nodes {
			if n.Name == canary && (n.State != phase || n.Code != code || n.Log != "last lines of "+canary || n.Wave != 1 || n.Held != "") {
				t.Errorf("got %+v", n)
			}
			if n.Name != canary && n.Held == "" {
				t.Errorf("nothing is said of why %s gets nothing", n.Name)
			}
		}
		if len(h.events("rollout.halted")) != 1 || len(h.events("release."+phase)) != 1 {
			t.Error("events are missing")
		}
		// An operator accepts the failure: the next node is let in, and the one that failed is left alone.
		_, err = h.Resume(t.Context(), wire.DefaultChannel, operator)
		must(t, err)
		h.look()
		h.pass(10 * time.Minute)
		if offered := h.look(); len(offered) == 0 || offered[canary] != "" {
			t.Errorf("after it was resumed: %v", offered)
		}
	}
}

// TestLimit: a later wave may lose as many as the plan says, and not one more.
func TestLimit(t *testing.T) {
	h := newHall(t, names(30)...)
	v1 := h.release("v1")
	h.point(v1, &release.Plan{Steps: []string{"100%"}, MaxFailed: "10%"})
	offered := h.look()
	if len(offered) != 30 {
		t.Fatalf("offered %v", offered)
	}
	failed := 0
	for name := range offered {
		h.say(name, wire.UpdateRolledBack, wire.UpdateHung)
		if failed++; failed == 4 {
			break
		}
		h.state(releases.Running)
	}
	h.state(releases.Halted)
	if offered := h.beats(0); len(offered) != 0 {
		t.Errorf("after the halt: %v", offered)
	}
}

// TestSilence: a node that was let in and falls silent counts as failed, and no longer when it comes back.
func TestSilence(t *testing.T) {
	h := newHall(t, names(4)...)
	v1 := h.release("v1")
	h.point(v1, waves())
	canary := one(t, h.look())
	h.nodes[canary].silent = true
	h.pass(7 * time.Minute)
	h.look()
	h.look()
	c := h.state(releases.Halted)
	if c.Counts.Silent != 1 || !strings.Contains(c.Why, "; not heard any more: "+canary) {
		t.Errorf("got %+v", c)
	}
	h.nodes[canary].silent = false
	h.nodes[canary].program = program("v1")
	h.look()
	if c := h.state(releases.Halted); c.Counts.Silent != 0 || c.Counts.Running != 1 {
		t.Errorf("got %+v", c)
	}
	// Also in the soak time, after it has committed.
	_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
	must(t, err)
	h.look()
	h.nodes[canary].silent = true
	h.pass(2 * time.Minute)
	h.look()
	h.pass(2 * time.Minute)
	h.look()
	h.state(releases.Halted)
}

// TestAbort: nodes that have it get the release before under a higher number, and the others stay.
func TestAbort(t *testing.T) {
	h := newHall(t, names(8)...)
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	for name := range h.look() {
		h.install(name, "v1")
	}
	h.look()
	h.state(releases.Done)
	h.point(v2, waves())
	canary := one(t, h.look())
	h.install(canary, "v2")
	c, err := h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	must(t, err)
	if c.Digest != v1 || c.Sequence != 3 || c.State != releases.Aborted {
		t.Errorf("got %+v", c)
	}
	if offered := h.look(); one(t, offered) != canary || offered[canary] != v1 {
		t.Errorf("offered %v", offered)
	}
	_, err = h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	wantCode(t, err, wire.CodeIllegalMove)
	h.install(canary, "v1")
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
}

// TestAbortFirst: if there is no release before, nobody gets the aborted one any more, also after a restart.
func TestAbortFirst(t *testing.T) {
	h := newHall(t, names(3)...)
	v1 := h.release("v1")
	h.point(v1, waves())
	h.look()
	c, err := h.Abort(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	must(t, err)
	if c.Digest != v1 || c.State != releases.Aborted || !strings.Contains(c.Why, "the nodes that have it keep it") || len(h.look()) != 0 {
		t.Errorf("got %+v", c)
	}
	if e := h.events("rollout.aborted"); len(e) != 1 || e[0].Detail["why"] != c.Why {
		t.Errorf("recorded %+v, want %q", e, c.Why)
	}
	h.open()
	h.enrol("late", nil)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	if n, ok, err := h.Newcomer(t.Context(), "id-late"); err != nil || ok {
		t.Errorf("a newcomer installs %s, %v", n.Version, err)
	}
}

// TestRollback: a higher number on the release before, for all at once; once more it goes forward again.
func TestRollback(t *testing.T) {
	h := newHall(t, names(5)...)
	v1 := h.release("v1")
	v2 := h.release("v2")
	_, err := h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	wantCode(t, err, wire.CodeChannelUnknown)
	h.point(v1, nil)
	_, err = h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	wantCode(t, err, wire.CodeIllegalMove)
	h.point(v2, nil)
	c, err := h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	if err != nil || c.Digest != v1 || c.Previous != "" {
		t.Errorf("a rollback of what has not finished: %+v, %v", c, err)
	}
	h.point(v2, nil)
	for name := range h.look() {
		h.install(name, "v2")
	}
	h.look()
	h.state(releases.Done)
	c, err = h.Rollback(t.Context(), wire.DefaultChannel, release.Promotion{}, operator)
	must(t, err)
	if c.Digest != v1 || c.Previous != v2 || c.Sequence != 5 {
		t.Errorf("got %+v", c)
	}
	if offered := h.look(); len(offered) != 5 || offered["n000"] != v1 {
		t.Errorf("offered %v", offered)
	}
}

// TestNextPromotion: a promotion in the middle of a rollout ends that one, and a node gets the newer release alone.
func TestNextPromotion(t *testing.T) {
	h := newHall(t, names(8)...)
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, waves())
	first := one(t, h.look())
	h.say(first, wire.UpdateFetching, "")
	c := h.point(v2, waves())
	if c.Sequence != 2 || c.Wave != 1 || c.Counts.Admitted != 0 {
		t.Errorf("got %+v", c)
	}
	offered := h.look()
	if offered[one(t, offered)] != v2 {
		t.Errorf("offered %v", offered)
	}
	all, err := h.records.Rollouts(t.Context())
	if err != nil || len(all) != 1 || all[0].Sequence != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// TestEmpty: without nodes a rollout is done at once, and a group smaller than its canary is one wave.
func TestEmpty(t *testing.T) {
	h := newHall(t)
	v1 := h.release("v1")
	h.point(v1, waves())
	h.look()
	h.state(releases.Done)
	h = newHall(t, names(2)...)
	v1 = h.release("v1")
	h.point(v1, &release.Plan{Canary: "5", Steps: []string{"50%"}, MaxFailed: "0", SoakSeconds: 60})
	for name := range h.look() {
		h.install(name, "v1")
	}
	h.look()
	if c := h.state(releases.Running); c.Wave != 1 || c.Counts.Running != 2 {
		t.Errorf("got %+v", c)
	}
	h.pass(time.Minute)
	h.look()
	h.state(releases.Done)
}

// TestGroup: who is not of the group is not let in, and the counts say so.
func TestGroup(t *testing.T) {
	h := newHall(t, names(3)...)
	h.enrol("beta", map[string]string{wire.LabelChannel: "beta"})
	h.enrol("unable", nil).old = true
	h.enrol("runs", nil).program = program("v1")
	h.enrol("shut", map[string]string{wire.LabelWindow: "Mon 02:00-04:00"})
	h.enrol("odd", map[string]string{wire.LabelWindow: "at night"})
	h.enrol("gone", nil).silent = true
	v1 := h.release("v1")
	h.point(v1, nil)
	if offered := h.look(); len(offered) != 3 || offered["n000"] != v1 {
		t.Errorf("offered %v", offered)
	}
	c := h.state(releases.Running)
	want := api.RolloutCounts{Nodes: 8, Running: 1, Admitted: 3, Held: 2, Unable: 1, Offline: 1}
	if c.Counts != want {
		t.Errorf("got %+v, want %+v", c.Counts, want)
	}
	for _, name := range names(3) {
		h.install(name, "v1")
	}
	h.look()
	h.state(releases.Done)
	h.clock.Set(time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC))
	h.look() // nobody was heard for a day
	if offered := h.look(); one(t, offered) != "shut" {
		t.Errorf("in the window: %v", offered)
	}
}

// TestWindowCloses: a node whose window closes before it begins is let in again later, and the rollout does not wait for it.
func TestWindowCloses(t *testing.T) {
	h := newHall(t)
	h.enrol("a", map[string]string{wire.LabelWindow: "12:00-12:05"})
	h.enrol("b", nil)
	v1 := h.release("v1")
	h.point(v1, nil)
	if offered := h.look(); len(offered) != 2 {
		t.Fatalf("offered %v", offered)
	}
	h.install("b", "v1")
	h.pass(6 * time.Minute)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	h.look()
	h.state(releases.Done)
}

// TestMoves: nodes that leave, that move to another channel, or that are pinned, are not waited for, and are no failures.
func TestMoves(t *testing.T) {
	h := newHall(t, names(4)...)
	v1 := h.release("v1")
	h.point(v1, &release.Plan{Canary: "4", SoakSeconds: 0, MaxFailed: "0"})
	if offered := h.look(); len(offered) != 4 {
		t.Fatalf("offered %v", offered)
	}
	h.install("n000", "v1")
	must(t, h.store.SetLabels(t.Context(), "id-n001", map[string]string{wire.LabelChannel: "beta"}, nil))
	must(t, h.Pin(t.Context(), []release.Ref{{ID: "id-n002", Name: "n002"}}, "", nil, operator))
	node, err := h.store.Node(t.Context(), "", "id-n003")
	must(t, err)
	must(t, h.store.MoveNode(t.Context(), storeMove(node.ID, node.State, h.clock.Now())))
	h.nodes["n003"].silent = true
	for range 8 {
		h.pass(time.Minute)
		h.look()
	}
	h.state(releases.Done)
	if h.nodes["n001"].channel != "beta" {
		t.Error("a node is not told its new channel")
	}
}

// TestRestart: a rollout goes on after a restart, and does not take nodes that were not heard yet for gone.
func TestRestart(t *testing.T) {
	h := newHall(t, names(12)...)
	v1 := h.release("v1")
	h.point(v1, waves())
	h.install(one(t, h.look()), "v1")
	h.look()
	h.pass(10 * time.Minute)
	wave := h.look()
	if len(wave) != 2 {
		t.Fatalf("offered %v", wave)
	}
	h.seen()
	h.open()
	must(t, h.Look(context.Background()))
	for name := range wave {
		h.install(name, "v1")
	}
	must(t, h.Look(context.Background()))
	h.clock.Forward(11 * time.Second)
	must(t, h.Look(context.Background()))
	if c := h.state(releases.Running); c.Wave != 2 {
		t.Errorf("before the others were heard: %+v", c)
	}
}

// TestRestartWithRareReports: nodes that report every ten minutes are not taken for silent while they cannot have been heard yet, and not
// for well either.
func TestRestartWithRareReports(t *testing.T) {
	h := newHall(t, names(4)...)
	for _, n := range h.nodes {
		n.every = 10 * time.Minute
	}
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	h.install(canary, "v1")
	h.look()
	h.seen()
	h.open()
	h.nodes[canary].silent = true
	h.pass(29 * time.Minute)
	if c := h.state(releases.Running); c.Wave != 1 {
		t.Errorf("got %+v", c)
	}
	h.pass(2 * time.Minute)
	h.state(releases.Halted)
}
