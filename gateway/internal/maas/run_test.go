package maas_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/maas/region"
	"muster/store"
)

// TestLongErasure: an erasure may take longer than a deployment, and one that fails is told.
func TestLongErasure(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		w := newWorld(t)
		w.sim = maassim.New(maassim.Config{Now: w.clock.Now, OnBoot: w.boot, Between: w.watch, Erase: 2 * time.Hour})
		w.server.Config.Handler = w.sim
		w.restart()
		id, node := w.deployed()
		w.move(node, fleet.Drain)
		w.sim.Change(id, func(m *maassim.Machine) { m.Fails = fails })
		w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Reimage: true, Erase: ptr(true)})
		w.pass(110 * time.Minute)
		w.is(id, machines.StateReleasing, wire.StateDeploying)
		w.pass(30 * time.Minute)
		if !fails {
			w.is(id, machines.StateDeployed, wire.StateActive)
		} else if m := w.is(id, machines.StateFailed, wire.StateCommissioned); m.Finding != "release_failed" ||
			m.Error != "MAAS could not release it" {
			t.Errorf("%+v", m)
		}
		w.harmless()
	}
}

// TestServe: an allocation that no node fits gets a machine that is ready, once.
func TestServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.ready()
	any := func(machines.Machine) bool { return true }
	serve := func(tenant, allocation string, fits func(machines.Machine) bool, want string) {
		t.Helper()
		got, err := w.Serve(t.Context(), maas.Wanted{Allocation: allocation, Tenant: tenant, Count: 1, Fits: fits}, store.Actor{Name: "bob"})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	serve("rival", "al-1", any, "")
	serve("platform", "al-1", func(machines.Machine) bool { return false }, "")
	serve("platform", "al-1", any, node)
	serve("platform", "al-1", any, node)
	serve("platform", "al-2", any, "")
	w.pass(10 * time.Minute)
	w.is(id, machines.StateDeployed, wire.StateActive)
	if w.sim.Count("deploy") != 1 {
		t.Error("it was deployed twice")
	}
	serve("platform", "al-1", any, node)
	giveBack := func(allocation string, want bool) {
		t.Helper()
		before := w.sim.Count("release")
		w.over = allocation
		w.pass(time.Minute)
		if begun := w.sim.Count("release") > before; begun != want {
			t.Errorf("%s: %t", allocation, begun)
		}
	}
	m := w.machine(id)
	w.sql("INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES ('al-3', ?, 'u', '', 's', 't', 'held')", m.NodeID)
	giveBack("al-2", false)
	giveBack("al-1", false)
	w.sql("UPDATE holds SET freed_at = 1")
	w.over = ""
	w.sim.Change(id, func(m *maassim.Machine) { m.Locked = true })
	w.pass(30 * time.Second)
	w.over = "al-1"
	if err := w.Round(t.Context()); err == nil {
		t.Error("nobody is told that it is locked")
	}
	w.is(id, machines.StateDeployed, wire.StateActive)
	w.over = ""
	w.sim.Change(id, func(m *maassim.Machine) { m.Locked = false })
	w.pass(30 * time.Second)
	giveBack("al-1", true)
	giveBack("al-1", false)
	w.pass(10 * time.Minute)
	w.is(id, machines.StateReady, wire.StateReady)
	giveBack("al-1", false)
	w.harmless()
}

// TestServeFailed: an allocation whose deployments fail gets a second machine after a while, and no third one. A reset lets allocations
// have the machines again.
func TestServeFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var nodes []string
	for range 3 {
		id, node := w.ready()
		w.silence(id, true)
		nodes = append(nodes, node)
	}
	serve := func(allocation, what string, want bool) (node string) {
		t.Helper()
		nodes, err := w.Serve(t.Context(), maas.Wanted{Allocation: allocation, Tenant: "platform", Count: 1,
			Fits: func(machines.Machine) bool { return true }}, store.Actor{Name: "bob"})
		if err != nil || (len(nodes) > 0) != want {
			t.Errorf("%s: got %q, %v", what, nodes, err)
		}
		return strings.Join(nodes, " ")
	}
	ended := func(node string) {
		t.Helper()
		for range 200 {
			if w.pass(30 * time.Second); w.machine(node).Work == nil {
				return
			}
		}
		t.Fatal("it does not end")
	}
	later := func(count int, words string) {
		t.Helper()
		got := w.Later(t.Context(), maas.Wanted{Allocation: "al", Tenant: "platform", Count: count,
			Fits: func(machines.Machine) bool { return count > 0 }})
		if words == "" && got != "" || !strings.Contains(got, words) {
			t.Errorf("got %q, want %q", got, words)
		}
	}
	first := serve("al", "first", true)
	later(1, "a machine of MAAS that is ready: "+first+" (deploy goes on), ")
	later(0, "")
	ended(first)
	if m := w.machine(first); m.Finding != "last_work_failed" {
		t.Errorf("%+v", m)
	}
	serve("al", "at once", false)
	at := w.machine(first).Ended.At
	later(1, "the deployment of "+w.machine(first).Hostname+" failed at "+at.Format(time.RFC3339)+", and another one begins at "+
		at.Add(30*time.Minute).Format(time.RFC3339))
	w.pass(29 * time.Minute)
	serve("al", "after 29 minutes", false)
	w.pass(2 * time.Minute)
	second := serve("al", "after 31 minutes", true)
	if second == first || serve("al", "while it goes on", true) != second {
		t.Error("it is the same machine")
	}
	ended(second)
	w.pass(2 * time.Hour)
	serve("al", "the third", false)
	later(1, "a person: 2 deployments in MAAS failed for it, the last of "+w.machine(second).Hostname)
	w.refused(machines.Act{Act: machines.ActReset, Machines: []string{nodes[2]}}, "did not fail")
	w.act(machines.Act{Act: machines.ActReset, Machines: []string{first}})
	w.pass(30 * time.Second)
	if m := w.is(first, machines.StateReady, wire.StateReady); m.Finding != "" || m.Error != "" {
		t.Errorf("%+v", m)
	}
	if got := serve("other", "after a reset", true); got != first {
		t.Errorf("got %q", got)
	}
	w.harmless()
}

// TestIntent: what is asked of MAAS is on record before, so that a gateway which ends at that moment goes on with it, and the answer that
// it
// did not get is found in MAAS.
func TestIntent(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"allocate", "deploy"} {
		w := newWorld(t)
		id, _ := w.ready()
		w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
		ctx, end := context.WithCancel(t.Context())
		w.watching(func(now string) {
			if now != op {
				return
			}
			m, err := w.Machine(t.Context(), id)
			if step := map[string]string{"allocate": "acquire", "deploy": "deploy"}[op]; err != nil || m.Work == nil || m.Work.Step != step {
				t.Errorf("%s: it is not on record: %+v, %v", op, m.Work, err)
			}
			end()
		})
		_ = w.Round(ctx)
		w.watching(nil)
		if ctx.Err() == nil {
			t.Fatalf("%s was not asked", op)
		}
		w.restart()
		w.pass(15 * time.Minute)
		w.is(id, machines.StateDeployed, wire.StateActive)
		if c := w.sim.Counts(); c["allocate"] != 1 || c["deploy"] != 1 {
			t.Errorf("%s: counts %v", op, c)
		}
		w.harmless()
	}
}

// TestRun: the loop goes round, at once when something is asked, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	ctx, end := context.WithCancel(t.Context())
	began := make(chan struct{}, 100)
	w.watching(func(op string) {
		if op == "deploy" {
			began <- struct{}{}
		}
	})
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	<-began
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNames: a machine whose name is taken, or is no name, gets another one. A node that was made before the gateway ended is found again.
func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.fleet.Create(t.Context(), api.CreateNodeRequest{Name: "box"}, ann); err != nil {
		t.Fatal(err)
	}
	taken := w.sim.Add(maassim.Machine{Status: 4, Hostname: "box"})
	odd := w.sim.Add(maassim.Machine{Status: 4, Hostname: "-odd-"})
	made := w.sim.Add(maassim.Machine{Status: 4, Hostname: "made"})
	orphan, err := w.fleet.Commission(t.Context(), "earlier", "platform", maas.Provider, made, ann)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	for id, want := range map[string]string{taken: "box-" + taken, odd: "maas-" + odd, made: orphan.Name} {
		if m := w.machine(id); m.Node != want {
			t.Errorf("got %q, want %q", m.Node, want)
		}
	}
	if _, err := w.fleet.Apply(t.Context(), "", "earlier", fleet.Retire, ann); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if m := w.machine(made); m.Node != "" {
		t.Errorf("a node that a person retired came back: %+v", m)
	}
}

// BenchmarkRound goes round over 5,000 machines of which nothing changes. Most of its time is that of the simulator.
func BenchmarkRound(b *testing.B) {
	w := newWorld(b)
	for range 5000 {
		w.sim.Add(maassim.Machine{Status: 4, Passed: true})
	}
	if err := w.Round(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.Round(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList is what the simulator alone takes.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	for range 5000 {
		w.sim.Add(maassim.Machine{Status: 4, Passed: true})
	}
	c, err := region.New(region.Config{URL: w.server.URL, Key: w.sim.Key(), Now: w.clock.Now})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := c.Machines(b.Context(), region.Filter{}, func(region.Machine) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCould: a machine of the tenant with the profile and the tag of a model could serve it, also before any node has shown such GPUs.
func TestCould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	w.sim.Change(id, func(m *maassim.Machine) { m.Tags = append(m.Tags, "gpu-nvidia-h200") })
	w.pass(time.Minute)
	for _, c := range []struct {
		tenant, model string
		want          bool
	}{{"platform", "h200", true}, {"platform", "h100", false}, {"rival", "h200", false}} {
		got, err := w.Could(t.Context(), maas.Wanted{Tenant: c.tenant, Count: 1, Fits: maas.Fits(c.model)})
		if got != c.want || err != nil {
			t.Errorf("%s for %s: %t, %v", c.model, c.tenant, got, err)
		}
	}
}
