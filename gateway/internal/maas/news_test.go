package maas_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
	"muster/store"
)

// until looks until something is so.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !is(); {
		select {
		case <-tick.C:
		case <-limit:
			w.t.Fatal("it is not so: " + what)
		}
	}
}

// runs has the service run with views so far apart, until the test ends or end is called.
func (w *world) runs(every time.Duration) (end func()) {
	w.Every = every
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	ended := false
	end = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				w.t.Error(err)
			}
		}
	}
	w.t.Cleanup(end)
	return end
}

// TestSilent: one answer that does not come holds up the work at its own machine alone, and no view.
func TestSilent(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"allocate", "deploy", "release"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var ids []string
			for range 4 {
				id, _ := w.ready()
				ids = append(ids, id)
			}
			act := machines.ActDeploy
			if op == "release" {
				act = machines.ActRelease
				for _, id := range ids {
					w.bring(id, 10, wire.StateCommissioned, "muster")
				}
				w.pass(30 * time.Second)
			}
			w.sim.Fail(op, maassim.SilentAfter, 1)
			end := w.runs(20 * time.Millisecond)
			w.act(machines.Act{Act: act, Machines: ids})
			last := map[string]string{machines.ActDeploy: "deploy", machines.ActRelease: "release"}[act]
			w.until("the others go on", func() bool { return w.sim.Count(last) >= len(ids)-1 })
			lists := w.sim.Count("list")
			w.until("views go on", func() bool { return w.sim.Count("list") > lists+2 && w.State().Known })
			end()
			w.restart()
			for range 40 {
				w.pass(30 * time.Second)
			}
			for _, id := range ids {
				if m := w.machine(id); m.Work != nil {
					t.Errorf("%+v: %+v", m, m.Work)
				}
			}
			if got := w.sim.Count(last); got != len(ids) {
				t.Errorf("%s was done %d times", last, got)
			}
			w.harmless()
		})
	}
}

// TestBounded: MAAS is asked for few things at once.
func TestBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for range 12 {
		ids = append(ids, w.sim.Add(maassim.Machine{Status: 4, Passed: true, Tags: []string{api.ProfileBareMetal}}))
	}
	w.pass(30 * time.Second)
	for _, id := range ids {
		w.profile(w.machine(id).NodeID, api.ProfileBareMetal)
	}
	w.pass(30 * time.Second)
	var asked atomic.Int64
	w.watching(func(op string) {
		if op == "allocate" {
			asked.Add(1)
		}
	})
	w.sim.Fail("allocate", maassim.SilentBefore, -1)
	w.runs(20 * time.Millisecond)
	w.act(machines.Act{Act: machines.ActDeploy, Machines: ids})
	w.until("eight are asked for", func() bool { return asked.Load() == 8 })
	lists := w.sim.Count("list")
	w.until("more views are taken", func() bool { return w.sim.Count("list") > lists+4 })
	if n := asked.Load(); n != 8 {
		t.Errorf("%d are asked for", n)
	}
}

// TestNews: what is asked for and what nodes do is followed at once, and not at the next view.
func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{Status: 4, Passed: true})
	w.pass(30 * time.Second)
	w.runs(time.Hour)
	node := w.machine(id).NodeID
	news := func() {
		w.Take(t.Context(), []store.Event{{Kind: "node.something", NodeID: "another"}, {NodeID: node}})
	}
	w.profile(node, api.ProfileBareMetal)
	news()
	w.until("it is ready", func() bool { return w.machine(id).NodeState == wire.StateReady })
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	w.until("it is installed", func() bool {
		m := w.machine(id)
		return m.Work != nil && m.Work.Step == "install"
	})
	for range 8 { // less than an interval is an hour
		w.clock.Forward(time.Minute)
		w.sim.Tick()
	}
	w.beat()
	news()
	w.until("its agent was heard", func() bool { m := w.machine(id); return m.State == machines.StateDeployed && m.Work == nil })
	if m := w.machine(id); m.Ended == nil || m.Ended.Act != machines.ActDeploy || m.Ended.Why != "" {
		t.Errorf("%+v", m.Ended)
	}
	if n := w.sim.Count("list"); n > 12 {
		t.Errorf("%d lists", n)
	}
}

// TestProfileOnTheWay: a deployment with another profile goes through all its steps by itself, also when the gateway ends between two of
// them, and one whose profile is refused ends with the reason.
func TestProfileOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileSliceVM})
	for _, op := range []string{"update_nodes", "allocate"} {
		ctx, cancel := context.WithCancel(t.Context())
		w.watching(func(now string) {
			if now == op {
				cancel()
			}
		})
		_ = w.Round(ctx)
		w.watching(nil)
		w.restart()
	}
	w.pass(15 * time.Minute)
	m := w.is(id, machines.StateDeployed, wire.StateActive)
	if m.Profile != api.ProfileSliceVM || !slices.Equal(m.Tags, []string{api.ProfileSliceVM}) || m.Ended == nil || m.Ended.Why != "" {
		t.Errorf("%+v, %+v", m, m.Ended)
	}
	if c := w.sim.Counts(); c["deploy"] != 1 || c["allocate"] != 1 {
		t.Errorf("%v", c)
	}
	w.harmless()

	id, _ = w.ready()
	w.Assign = func(context.Context, string, string, store.Actor) error {
		return wire.Refuse(wire.CodeIllegalMove, "a host never has both", "take that away first")
	}
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileSliceVM})
	w.pass(2 * time.Minute)
	m = w.is(id, machines.StateReady, wire.StateReady)
	if m.Work != nil || m.Ended == nil || !strings.Contains(m.Ended.Why, "never has both") || m.Profile != api.ProfileBareMetal {
		t.Errorf("%+v, %+v", m, m.Ended)
	}
}

// TestAfterStart: just after the gateway's start a node that was heard before it is not silent, and it is not known whether it is heard.
func TestAfterStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.deployed()
	away := w.clock.Now()
	w.silence(id, true)
	w.clock.Forward(10 * time.Minute)
	ref := store.StatusRef{Start: w.clock.Now(), AliveAt: away, Grace: true}
	w.Ref = func() store.StatusRef {
		ref.Now = w.clock.Now()
		return ref
	}
	if err := w.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := w.is(id, machines.StateDeployed, wire.StateActive); m.Heard != api.StatusUnheard || m.Finding != "" {
		t.Errorf("just after the start: %q, %s", m.Heard, m.Finding)
	}
	w.sql("UPDATE nodes SET state = 'commissioned'")
	if m := w.machine(id); m.Heard != wire.StatusPending {
		t.Errorf("just after the start, and given back: %q", m.Heard)
	}
	w.sql("UPDATE nodes SET state = 'active'")
	ref.Grace = false
	if m := w.machine(id); m.Heard != wire.StatusStale || m.Finding != "node_silent" {
		t.Errorf("later: %q, %s", m.Heard, m.Finding)
	}
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}, Force: true})
	w.pass(20 * time.Minute)
	if m := w.is(id, machines.StateReady, wire.StateReady); m.Heard != wire.StatusPending || m.Finding != "" {
		t.Errorf("given back: %q, %s", m.Heard, m.Finding)
	}
}

// TestTagAlone: while a tag is written to a machine, and the machine is read back, no work goes on with it: it could write another tag, or
// see more than what is read back. It goes on after that.
func TestTagAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{Status: 4, Passed: true})
	w.pass(30 * time.Second)
	node := w.machine(id).NodeID
	var written, readBack atomic.Int32
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q, counted := r.URL.Query(), &readBack
		if q.Get("op") == "update_nodes" {
			counted = &written
		}
		if counted == &written || q.Has("id") && !q.Has("agent_name") {
			if counted.Add(1); !w.Busy(id) {
				t.Error("a work could go on with it")
			}
		}
		w.sim.ServeHTTP(rw, r)
	})
	w.profile(node, api.ProfileSliceVM)
	w.pass(time.Minute)
	w.profile(node, "")
	w.pass(time.Minute)
	if m := w.machine(id); written.Load() != 2 || readBack.Load() != 2 || w.Busy(id) || len(m.Tags) > 0 {
		t.Errorf("written %d times, read back %d times, tags %v", written.Load(), readBack.Load(), m.Tags)
	}
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileBareMetal})
	w.pass(15 * time.Minute)
	w.is(id, machines.StateDeployed, wire.StateActive)
}
