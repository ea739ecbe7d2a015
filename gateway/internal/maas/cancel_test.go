package maas_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
	"muster/store"
)

func (w *world) cancel(id string) {
	w.t.Helper()
	w.act(machines.Act{Act: machines.ActCancel, Machines: []string{id}})
}

// canceled is a machine with which nothing goes on any more, and whose last work was canceled: nothing is wrong with it.
func (w *world) canceled(id, state, node string) {
	w.t.Helper()
	m := w.is(id, state, node)
	if m.Work != nil || m.Ended == nil || !m.Ended.Canceled || m.Ended.Why != "ann canceled it" || m.Finding != "" {
		w.t.Errorf("%+v, ended %+v, work %+v", m, m.Ended, m.Work)
	}
}

// TestCancel: what has not reached MAAS ends at once, also while MAAS is away, and nobody is asked for anything. Again, it does nothing.
func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	w.refused(machines.Act{Act: machines.ActCancel, Machines: []string{id}}, "nothing goes on with it")
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "or end it: muster maas cancel "+id)
	w.sim.Fail("*", maassim.RegionDown, -1)
	if err := w.Round(t.Context()); err == nil {
		t.Error("MAAS is away, and was seen")
	}
	w.cancel(id)
	w.canceled(id, machines.StateReady, wire.StateReady)
	w.cancel(id)
	w.sim.Heal()
	w.pass(5 * time.Minute)
	w.canceled(id, machines.StateReady, wire.StateReady)
	if n := w.sim.Count("allocate"); n != 0 {
		t.Errorf("it was acquired %d times", n)
	}
	if kinds := w.kinds(); !strings.Contains(kinds, "maas.deploy ok, maas.cancel ok") || strings.Count(kinds, "maas.cancel") != 1 {
		t.Errorf("events: %s", kinds)
	}
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	w.pass(10 * time.Minute)
	w.is(id, machines.StateDeployed, wire.StateActive)
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}, Force: true})
	w.cancel(id)
	w.canceled(id, machines.StateDeployed, wire.StateActive)
	w.pass(5 * time.Minute)
	w.canceled(id, machines.StateDeployed, wire.StateActive)
}

// TestCancelDeployment: one that MAAS has begun is aborted and released, and the machine can be had again.
func TestCancelDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	w.silence(id, true)
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	w.pass(2 * time.Minute)
	w.cancel(id)
	if m := w.machine(id); m.Work == nil || m.Work.Why != "ann canceled it" || m.Finding != "" {
		t.Errorf("%+v, work %+v", m, m.Work)
	}
	w.cancel(id)
	w.pass(10 * time.Minute)
	w.canceled(id, machines.StateReady, wire.StateReady)
	if w.sim.Count("release") != 1 {
		t.Errorf("asked of MAAS: %v", w.sim.Counts())
	}
	w.harmless()
}

// TestCancelOthers: a commissioning is aborted. What MAAS erases goes on, and the refusal says so.
func TestCancelOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{})
	w.pass(30 * time.Second)
	w.act(machines.Act{Act: machines.ActCommission, Machines: []string{id}})
	w.pass(30 * time.Second)
	w.is(id, machines.StateCommissioning, "")
	w.cancel(id)
	w.pass(time.Minute)
	w.canceled(id, machines.StateNew, "")

	id, node := w.deployed()
	w.move(node, "drain")
	erase := true
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}, Erase: &erase})
	w.pass(30 * time.Second)
	w.refused(machines.Act{Act: machines.ActCancel, Machines: []string{id}}, "which cannot be taken back")
	w.pass(time.Hour)
	w.is(id, machines.StateReady, wire.StateReady)
}

// kinds are the kinds of all events about machines, the oldest first, each with its outcome.
func (w *world) kinds() string {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), store.EventQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		if strings.HasPrefix(e.Kind, "maas.") {
			kinds = append(kinds, e.Kind+" "+e.Outcome)
		}
	}
	slices.Reverse(kinds)
	return strings.Join(kinds, ", ")
}

// TestRefusalsAdvise: what a refusal advises is taken, and what is gone with its node is not worked at.
func TestRefusalsAdvise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.deployed()
	w.refused(machines.Act{Act: machines.ActReset, Machines: []string{id}}, "muster node drain "+node+", then muster maas release "+id)
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}},
		"node "+node+" works: drain it first (muster node drain "+node+", then muster maas release "+id+")")
	w.sim.Change(id, func(m *maassim.Machine) { m.Owner = "bob" })
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "bob has the machine in MAAS")
	gone := w.sim.Add(maassim.Machine{})
	w.pass(30 * time.Second)
	w.sim.Remove(gone)
	w.pass(30 * time.Second)
	w.refused(machines.Act{Act: machines.ActDecommission, Machines: []string{gone}}, "it is no node")
	theirs, _ := w.ready()
	w.sim.Change(theirs, func(m *maassim.Machine) { m.Status, m.Owner = 10, "bob" })
	w.pass(30 * time.Second)
	if next := w.machine(theirs).Next; next != "have them release it, or end its node here: muster maas decommission "+theirs {
		t.Error(next)
	}
}
