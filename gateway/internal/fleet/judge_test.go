package fleet_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func (f *world) judge(name string, add map[string]string, remove ...string) {
	f.t.Helper()
	if err := f.Judge(f.t.Context(), f.seen(name).ID, add, remove); err != nil {
		f.t.Fatal(err)
	}
}

// TestJudge: an active node fails by the first reason, comes back with the last, and each is written once.
func TestJudge(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	hot := map[string]string{"gpu_hot": "96 C"}
	for _, step := range []struct {
		add    map[string]string
		remove []string
		state  fleet.State
		events int
	}{
		{nil, []string{"gpu_hot"}, fleet.Active, 0},
		{hot, nil, fleet.Unavailable, 1},
		{hot, nil, fleet.Unavailable, 1},
		{map[string]string{"remap_failed": "GPU 1"}, []string{"gpu_hot"}, fleet.Unavailable, 2},
		{nil, []string{"gpu_hot", "remap_failed"}, fleet.Active, 3},
	} {
		f.judge("box", step.add, step.remove...)
		n := f.seen("box")
		got := len(f.events("node.failed")) + len(f.events("node.cured"))
		if n.State != string(step.state) || got != step.events {
			t.Errorf("after %v and less %v: %s with %d events, want %s with %d", step.add, step.remove, n.State, got, step.state, step.events)
		}
	}
	e := f.events("node.failed")[1]
	if e.Actor != "gateway" || e.Detail["gpu_hot"] != "96 C" || e.Detail["to"] != "unavailable" {
		t.Errorf("the event is %+v", e)
	}
	if state := f.beat(ad, 2, nil); state != fleet.Active {
		t.Errorf("a heartbeat afterwards: %s", state)
	}
}

// TestJudgeLeavesHeartbeatsAlone: what the gateway found is not what the node takes back, and the other way round.
func TestJudgeLeavesHeartbeatsAlone(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	f.beat(ad, 1, nil)
	f.judge("box", map[string]string{"gpu_hot": "96 C"})
	f.beat(ad, 2, health(wire.HealthGPUCountDropped))
	f.beat(ad, 3, nil)
	if n := f.seen("box"); n.State != "unavailable" || reasons(n) != "gpu_hot" {
		t.Errorf("well again by its own word: %s %s", n.State, reasons(n))
	}
}

// TestJudgeOverrulesNobody: what a person did stays, and a node in conflict, unknown or retired is left alone.
func TestJudgeOverrulesNobody(t *testing.T) {
	f := newFleet(t)
	hot := map[string]string{"gpu_hot": "96 C"}
	for _, c := range []struct {
		verb  fleet.Verb
		found bool
		state string
	}{{fleet.Drain, true, "drained"}, {fleet.Suspend, true, "unavailable"}, {fleet.Retire, false, "retired"}} {
		name := string(c.verb)
		ad := f.enrolled(name)
		f.beat(ad, 1, nil)
		f.apply(name, c.verb)
		f.judge(name, hot)
		n, err := f.store.Node(t.Context(), "", ad.Node.ID)
		if err != nil || n.State != c.state || hasReason(n, "gpu_hot") != c.found {
			t.Errorf("%s, found: %s %v, error %v", c.verb, n.State, n.Reasons, err)
		}
		f.judge(name, nil, "gpu_hot", wire.ReasonSuspended)
		n, err = f.store.Node(t.Context(), "", ad.Node.ID)
		if err != nil || n.State != c.state || hasReason(n, "gpu_hot") || hasReason(n, wire.ReasonSuspended) != (c.verb == fleet.Suspend) {
			t.Errorf("%s, cured: %s %v, error %v", c.verb, n.State, n.Reasons, err)
		}
	}
	if err := f.Judge(t.Context(), "n-none", hot, nil); err != nil {
		t.Errorf("a node that is not there: %v", err)
	}
	f.play(f.enrolled("twins"), "A1 5m A2 30s B1 30s A3 30s A4")
	f.judge("twins", hot)
	if got := reasons(f.seen("twins")); got != wire.ReasonConflict {
		t.Errorf("in conflict: %s", got)
	}
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if f.Judge(t.Context(), "n-none", hot, nil) == nil {
		t.Error("no error from a closed store")
	}
}

func hasReason(n store.Node, reason string) bool {
	for _, r := range n.Reasons {
		if r.Reason == reason {
			return true
		}
	}
	return false
}

// TestCounts: what counts of a heartbeat's words is asked at once, and moves the node. A node that has not looked is not asked about.
func TestCounts(t *testing.T) {
	f := newFleet(t)
	answer := []string{}
	var asked [][]string
	var err error
	f.Fleet, err = fleet.Open(t.Context(), fleet.Config{Store: f.store, Now: f.clock.Now, Written: f.took})
	if err != nil {
		t.Fatal(err)
	}
	f.CountBy(func(_ string, _ time.Duration, words []string, _ map[string]string) []string {
		asked = append(asked, words)
		return answer
	})
	ad := f.enrolled("box")
	if state := f.beat(ad, 1, health(wire.HealthGPUFault)); state != fleet.Active {
		t.Errorf("a word that does not count: %s", state)
	}
	answer = []string{wire.HealthGPUFault}
	if state := f.beat(ad, 2, health(wire.HealthGPUFault)); state != fleet.Unavailable {
		t.Errorf("a word that counts: %s", state)
	}
	if state := f.beat(ad, 3, health()); state != fleet.Unavailable || reasons(f.seen("box")) != wire.HealthGPUFault {
		t.Errorf("a word that counts on: %s, %s", state, reasons(f.seen("box")))
	}
	answer = []string{}
	if state := f.beat(ad, 4, unlooked); state != fleet.Unavailable || len(asked) != 3 {
		t.Errorf("not looked: %s, asked %v", state, asked)
	}
	if state := f.beat(ad, 5, health()); state != fleet.Active || len(asked[0]) != 1 || len(asked[3]) != 0 {
		t.Errorf("well: %s, asked %v", state, asked)
	}
}

// TestRetireSilentLater: a node whose time is over when the gateway starts can come back in the grace after that.
func TestRetireSilentLater(t *testing.T) {
	f := newFleet(t)
	f.beat(f.enrolled("gone"), 1, nil)
	const limit = 48 * time.Hour
	f.flush()
	for range 49 {
		f.clock.Forward(time.Hour)
		f.flush()
	}
	f.clock.Forward(time.Hour) // the gateway is away
	f.restart()
	id := f.seen("gone").ID
	for _, want := range []bool{false, true} {
		if done, err := f.RetireSilent(t.Context(), id, limit); done != want || err != nil {
			t.Errorf("%s: retired %v, want %v, %v", f.clock.Now(), done, want, err)
		}
		f.clock.Forward(7 * time.Minute)
		f.flush()
	}
}

// TestRetireSilent: a node that is silent for long is retired, but none that a person holds, and no time counts in which the gateway was
// away.
func TestRetireSilent(t *testing.T) {
	f := newFleet(t)
	for _, name := range []string{"gone", "drained", "suspended"} {
		f.beat(f.enrolled(name), 1, nil)
	}
	alive := f.enrolled("alive")
	f.beat(alive, 1, nil)
	f.enrolled("never")
	f.apply("drained", fleet.Drain)
	f.apply("suspended", fleet.Suspend)
	f.flush()
	const limit = 48 * time.Hour
	retire := func(name string) bool {
		t.Helper()
		done, err := f.RetireSilent(t.Context(), f.seen(name).ID, limit)
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	f.clock.Forward(limit + time.Hour) // the gateway is away
	f.restart()
	if retire("gone") {
		t.Error("retired in the grace after a start")
	}
	f.clock.Forward(time.Hour)
	if retire("gone") {
		t.Error("retired for a time in which the gateway was away")
	}
	for range 50 {
		f.clock.Forward(time.Hour)
		f.flush()
	}
	f.beat(alive, 2, nil)
	for name, want := range map[string]bool{"gone": true, "drained": false, "suspended": false, "never": false, "alive": false} {
		if got := retire(name); got != want {
			t.Errorf("%s: retired %v, want %v", name, got, want)
		}
	}
	events := f.events("node.retired")
	if len(events) != 1 || events[0].NodeName != "gone" || events[0].Actor != "gateway" || events[0].Detail["why"] == "" ||
		!events[0].Security {
		t.Errorf("events %+v", events)
	}
	if done, err := f.RetireSilent(t.Context(), "n-none", limit); done || err != nil {
		t.Errorf("a node that is not there: %v, %v", done, err)
	}
}
