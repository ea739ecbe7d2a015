package maas_test

import (
	"errors"
	"slices"
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

func ptr[T any](v T) *T { return &v }

// TestLife follows a machine from its commissioning to its release with erase, and installs it anew.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{Hostname: "Box-1"})
	w.pass(30 * time.Second)
	if m := w.is(id, machines.StateNew, ""); m.Node != "" {
		t.Errorf("%+v", m)
	}
	w.act(machines.Act{Act: machines.ActCommission, Machines: []string{"Box-1"}})
	w.pass(10 * time.Minute)
	m := w.is(id, machines.StateReady, wire.StateCommissioned)
	if m.Node != "box-1" || m.Next == "" || m.Work != nil || m.StatusRaw != "ready" {
		t.Errorf("%+v", m)
	}
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{"box-1"}}, "its node has no profile")

	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{"box-1"}, Series: "ubuntu/noble", Profile: api.ProfileBareMetal})
	w.pass(30 * time.Second)
	if got, _ := w.sim.Machine(id); len(got.Tags) != 1 || got.Tags[0] != api.ProfileBareMetal {
		t.Errorf("tags %v", got.Tags)
	}
	if m = w.is(id, machines.StateDeploying, wire.StateDeploying); m.Work == nil || m.Work.Act != machines.ActDeploy || m.Deadline == nil ||
		m.Work.By != "ann" {
		t.Errorf("%+v", m)
	}
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "deploy goes on with it")
	w.pass(10 * time.Minute)
	if m = w.is(id, machines.StateDeployed, wire.StateActive); m.Work != nil || m.Finding != "" || m.Error != "" {
		t.Errorf("%+v", m)
	}
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "drain it first")
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Reimage: true}, "its node is active")
	w.move("box-1", fleet.Drain)
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{id}}, "--reimage")
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Reimage: true})
	w.pass(15 * time.Minute)
	w.is(id, machines.StateDeployed, wire.StateActive)
	w.move("box-1", fleet.Drain)
	w.sql("INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES ('al', ?, 'u', '', 's', 't', 'held')", m.NodeID)
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "an allocation has GPUs")
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Reimage: true}, "an allocation has a part of it")
	w.sql("UPDATE holds SET freed_at = 1")
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}, Erase: ptr(true)})
	w.pass(30 * time.Second)
	w.is(id, machines.StateReleasing, wire.StateCommissioned)
	w.pass(10 * time.Minute)
	w.is(id, machines.StateReady, wire.StateReady)
	if got, _ := w.sim.Machine(id); got.Erased != "secure" {
		t.Errorf("erased %q", got.Erased)
	}
	w.act(machines.Act{Act: machines.ActDecommission, Machines: []string{id}})
	w.pass(2 * time.Minute)
	if m = w.is(id, machines.StateReady, ""); m.Node != "" || len(m.Tags) != 0 {
		t.Errorf("%+v", m)
	}
	w.refused(machines.Act{Act: machines.ActDecommission, Machines: []string{id}}, "it is out already")
	w.act(machines.Act{Act: machines.ActCommission, Machines: []string{id}})
	w.pass(10 * time.Minute)
	w.is(id, machines.StateReady, wire.StateCommissioned)
	if c := w.sim.Counts(); c["deploy"] != 2 || c["allocate"] != 2 || c["release"] != 2 || c["commission"] != 2 {
		t.Errorf("counts %v", c)
	}
	w.harmless()
}

// TestNeverReports: a deployment that MAAS calls finished, and whose agent never comes, is taken back after the deadline, and so is one
// that
// hangs or fails. The reason stays.
func TestNeverReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world, id string)
		why    string
	}{
		"no agent": {func(w *world, id string) { w.silence(id, true) }, "its agent was not heard by 2026"},
		"it hangs": {func(w *world, id string) { w.sim.Change(id, func(m *maassim.Machine) { m.Hangs = true }) }, "not heard by 2026"},
		"its BMC": {func(w *world, id string) { w.sim.Change(id, func(m *maassim.Machine) { m.BMCAway = true }) },
			"Failed to power on the machine"},
		"no address": {func(w *world, _ string) { w.sim.Fail("deploy", maassim.NoAddresses, -1) }, "not heard by 2026"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, _ := w.ready()
			c.change(w, id)
			w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
			w.pass(50 * time.Minute)
			w.sim.Change(id, func(m *maassim.Machine) { m.Hangs, m.BMCAway = false, false })
			w.sim.Heal()
			w.pass(40 * time.Minute)
			m := w.machine(id)
			if m.Work != nil || !strings.Contains(m.Error, c.why) || m.Finding == "" {
				t.Errorf("%+v, work %+v", m, m.Work)
			}
			if m.State == machines.StateFailed { // its power control was away while it was released
				w.act(machines.Act{Act: machines.ActReset, Machines: []string{id}})
				w.pass(20 * time.Minute)
			}
			w.is(id, machines.StateReady, wire.StateReady)
			w.harmless()
		})
	}
}

// TestForeign: what somebody else has is shown, and never touched.
func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	taken := w.sim.Add(maassim.Machine{Status: 6, Owner: "bob", Power: "on"})
	id, _ := w.ready()
	w.sim.Change(id, func(m *maassim.Machine) { m.Status, m.Owner = 10, "bob" })
	w.pass(time.Minute)
	if m := w.is(taken, machines.StateInstalled, ""); m.Node != "" || m.Owner != "bob" {
		t.Errorf("%+v", m)
	}
	if m := w.is(id, machines.StateAllocated, wire.StateCommissioned); m.Finding != "foreign_owner" {
		t.Errorf("%+v", m)
	}
	for _, act := range []string{machines.ActDeploy, machines.ActRelease, machines.ActReset, machines.ActCommission} {
		w.refused(machines.Act{Act: act, Machines: []string{taken, id}}, "")
	}
	w.sim.Change(taken, func(m *maassim.Machine) { m.Seen, m.BMCAway = "error", true })
	w.pass(time.Minute)
	if told := w.Told(); len(told) != 1 || !strings.Contains(told[0].Subject, id) ||
		!strings.HasPrefix(told[0].Text, told[0].Subject+": ") {
		t.Errorf("people are told of %+v", told)
	}
	w.restart()
	unknown := []maas.Told{{Condition: machines.ToldSevere, Unknown: true}, {Condition: machines.ToldWarning, Unknown: true}}
	if told := w.Told(); !slices.Equal(told, unknown) {
		t.Errorf("before a view: %+v", told)
	}
	w.pass(time.Minute)
	if told := w.Told(); len(told) != 1 || told[0].Unknown {
		t.Errorf("people are told of %+v", told)
	}
	if c := w.sim.Counts(); c["release"]+c["deploy"]+c["allocate"]+c["commission"] != 0 {
		t.Errorf("counts %v", c)
	}
	w.harmless()
}

// TestElsewhere: what was acquired with our key and by no work on record is another gateway's, also after our own was given away, until a
// person says otherwise.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.sim.Add(maassim.Machine{Status: 6, Owner: "muster", AgentName: "muster-other", Passed: true, Power: "on"})
	id, node := w.deployed()
	if m := w.is(other, machines.StateInstalled, ""); m.Finding != "acquired_elsewhere" {
		t.Errorf("%+v", m)
	}
	w.move(node, fleet.Drain)
	w.restart() // the record outlives the gateway
	w.pass(30 * time.Second)
	if m := w.is(id, machines.StateDeployed, wire.StateDrained); m.Finding != "" {
		t.Errorf("%+v", m)
	}
	w.sim.Change(id, func(m *maassim.Machine) { m.AgentName = "muster-other" }) // between two views
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}})
	w.pass(30 * time.Second)
	if m := w.is(id, machines.StateDeployed, wire.StateDrained); m.Finding != "acquired_elsewhere" || m.Work != nil {
		t.Errorf("%+v", m)
	}
	for _, act := range []string{machines.ActRelease, machines.ActDecommission, machines.ActReset, machines.ActCommission,
		machines.ActDeploy} {
		w.refused(machines.Act{Act: act, Machines: []string{other, id}}, "not by this gateway (find out who has it")
	}
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{other, id}, Reimage: true, Force: true},
		"not by this gateway (find out who has it")
	if w.sim.Count("release") != 0 {
		t.Error("it was released")
	}
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{other, id}, Force: true})
	w.pass(10 * time.Minute)
	w.is(other, machines.StateReady, wire.StateCommissioned)
	w.is(id, machines.StateReady, wire.StateReady)
	w.harmless()
}

// TestWhole: an act is refused before its first step where MAAS refuses a later one, and the node stays as it is.
func TestWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.deployed()
	w.move(node, fleet.Drain)
	w.refused(machines.Act{Act: machines.ActCommission, Machines: []string{id}}, "which cannot be commissioned")
	for words, change := range map[string]func(m *maassim.Machine){
		"locked in MAAS": func(m *maassim.Machine) { m.Locked = true },
		"bob has":        func(m *maassim.Machine) { m.Owner, m.Locked = "bob", false },
	} {
		w.sim.Change(id, change)
		w.pass(30 * time.Second)
		w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, words)
		w.sim.Change(id, func(m *maassim.Machine) { m.Owner, m.Locked = "muster", false })
		w.pass(30 * time.Second)
		w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}})
		w.sim.Change(id, change) // between the view and the work
		w.pass(30 * time.Second)
		w.is(id, machines.StateDeployed, wire.StateDrained)
		w.sim.Change(id, func(m *maassim.Machine) { m.Owner, m.Locked = "bob", false })
		w.pass(30 * time.Second) // ends the work
		w.sim.Change(id, func(m *maassim.Machine) { m.Owner = "muster" })
		w.pass(30 * time.Second)
		if m := w.is(id, machines.StateDeployed, wire.StateDrained); m.Work != nil {
			t.Errorf("%+v", m.Work)
		}
	}
	w.harmless()
}

// TestUnsure: after a restart while MAAS is away, nobody is called another owner.
func TestUnsure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.deployed()
	w.sim.Fail("*", maassim.RegionDown, -1)
	w.restart()
	if err := w.Round(t.Context()); err == nil {
		t.Fatal("MAAS is not away")
	}
	if m := w.machine(id); m.Finding != "" || m.Owner != "muster" {
		t.Errorf("%+v", m)
	}
	if plan, err := w.Plan(t.Context()); err != nil || len(plan.Steps) != 0 {
		t.Errorf("%+v, %v", plan.Steps, err)
	}
}

// TestGone: a machine that vanishes keeps its node, one that comes back under another system id gets none beside it, and both are told.
func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{Status: 4, Passed: true, UUID: "u-1", Hostname: "a"})
	w.pass(time.Minute)
	w.sim.Remove(id)
	w.pass(time.Minute)
	if m := w.is(id, machines.StateGone, wire.StateCommissioned); m.Finding != "gone" {
		t.Errorf("%+v", m)
	}
	again := w.sim.Add(maassim.Machine{Status: 4, Passed: true, UUID: "u-1", Hostname: "a"})
	w.pass(time.Minute)
	if m := w.machine(id); m.Finding != "system_id_changed" {
		t.Errorf("%+v", m)
	}
	if m := w.machine(again); m.Node != "" {
		t.Errorf("it has a second node: %+v", m)
	}
	w.act(machines.Act{Act: machines.ActDecommission, Machines: []string{id}})
	w.pass(time.Minute)
	if m := w.machine(again); m.Node != "a" {
		t.Errorf("%+v", m)
	}
}

// code is that of a refusal.
func code(err error) string {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// TestAway: while MAAS is away, refuses the key or sends pages, the view stays with its age, and nothing is begun.
func TestAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	for _, fault := range []maassim.Fault{maassim.RegionDown, maassim.PageInstead, maassim.LostBefore, maassim.HalfAfter} {
		w.sim.Fail("*", fault, -1)
		w.clock.Forward(30 * time.Second)
		if err := w.Round(t.Context()); err == nil {
			t.Errorf("%v: no error", fault)
		}
		state := w.State()
		if state.Known || state.FailedAt == nil || state.Error == "" || state.SyncedAt == nil {
			t.Errorf("%v: %+v", fault, state)
		}
		if m := w.machine(id); m.State != machines.StateReady || !m.SeenAt.Equal(*state.SyncedAt) {
			t.Errorf("%+v", m)
		}
		if _, err := w.Act(t.Context(), machines.Act{Act: machines.ActDeploy, Machines: []string{id}}, ann); err == nil {
			t.Error("it acts on an old view")
		}
		if _, err := w.Service.Machine(t.Context(), "nobody"); code(err) != wire.CodeUnavailable {
			t.Errorf("an old view says of a machine that it lacks: %v", err)
		}
		w.sim.Heal()
		w.pass(30 * time.Second)
		if state := w.State(); !state.Known || state.FailedAt != nil || state.Version == "" {
			t.Errorf("%+v", state)
		}
		if _, err := w.Service.Machine(t.Context(), "nobody"); code(err) != wire.CodeNotFound {
			t.Errorf("a view of now says of a machine that it lacks: %v", err)
		}
	}
	w.clock.Forward(2 * time.Minute)
	if w.State().Known {
		t.Error("a view of two minutes ago is one of now")
	}
	w.sim.Revoke("muster", true)
	if err := w.Round(t.Context()); err == nil || w.State().Known {
		t.Errorf("a key that was revoked: %v", err)
	}
}

// TestNoAdmin: a key that cannot do what is needed is said to be the trouble.
func TestNoAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, err := region.New(region.Config{URL: w.server.URL, Key: w.sim.AddUser("carl", false), Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Config
	c.Region = client
	s, err := maas.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Round(t.Context()); err == nil || !strings.Contains(s.State().Error, "carl, who is no admin") || s.State().Known {
		t.Errorf("%v, %+v", err, s.State())
	}
}

// TestActRefuses what cannot be meant.
func TestActRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, node := w.ready()
	w.sim.Add(maassim.Machine{Status: 4, Passed: true, Hostname: "same"})
	w.sim.Add(maassim.Machine{Status: 4, Passed: true, Hostname: "same"})
	w.pass(time.Minute)
	for _, q := range []machines.Act{{Act: "explode", Machines: []string{a}}, {Act: machines.ActDeploy}} {
		if _, err := w.Act(t.Context(), q, ann); err == nil {
			t.Errorf("%+v: no error", q)
		}
	}
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{"nobody"}}, "MAAS has no machine nobody")
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{a}}, "it is ready already")
	w.refused(machines.Act{Act: machines.ActReset, Machines: []string{a}}, "did not fail")
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{a}, Tenant: "rival"}, "no machine of tenant rival")
	got, err := w.Act(t.Context(), machines.Act{Act: machines.ActDeploy, Machines: []string{node}, DryRun: true}, ann)
	if err != nil || len(got.Machines) != 1 || got.Machines[0].Next != "deploy: its node: deploy" {
		t.Errorf("%+v, %v", got, err)
	}
	if m := w.machine(a); m.Work != nil {
		t.Errorf("a dry run began: %+v", m.Work)
	}
	off, err := maas.Open(t.Context(), maas.Config{Store: w.store})
	if err != nil || off.State().Enabled || off.Run(t.Context()) != nil {
		t.Errorf("MAAS is off: %v, %+v", err, off.State())
	}
	if _, err := off.Act(t.Context(), machines.Act{Act: machines.ActDeploy, Machines: []string{a}}, ann); err == nil {
		t.Error("it acts where MAAS is off")
	}
}

// TestForce: a person can have a machine back that works and is held, and nobody else.
func TestForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.deployed()
	w.sql("INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES ('al', ?, 'u', '', 's', 't', 'held')",
		w.machine(id).NodeID)
	for _, act := range []string{machines.ActRelease, machines.ActDecommission} {
		w.refused(machines.Act{Act: act, Machines: []string{node}}, "an allocation has GPUs")
	}
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{node}, Reimage: true, Force: true}, "its node is active")
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{node}, Force: true})
	w.pass(10 * time.Minute)
	w.is(id, machines.StateReady, wire.StateReady)
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{node}}, "an allocation has a part of it")
	w.harmless()
}

// TestTakenFromMuster: what people do in MAAS to a machine that works is told, and nothing is done about it.
func TestTakenFromMuster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.deployed()
	before := w.sim.Counts()
	for _, c := range []struct {
		change  func(m *maassim.Machine)
		finding string
	}{
		{func(m *maassim.Machine) { m.Locked = true }, ""},
		{func(m *maassim.Machine) { m.Locked, m.Owner = false, "bob" }, "foreign_owner"},
		{func(m *maassim.Machine) { m.Owner, m.Seen, m.BMCAway = "muster", "error", true }, "power_error"},
		{func(m *maassim.Machine) { m.BMCAway, m.Status, m.Owner, m.AgentName, m.Seen = false, 4, "", "", "on" }, "reports_but_ready"},
	} {
		w.sim.Change(id, c.change)
		w.sql("UPDATE liveness SET last_seen = ?", w.clock.Now().Add(time.Minute).UnixMilli())
		w.pass(30 * time.Second)
		if m := w.machine(id); m.Finding != c.finding || m.NodeState != wire.StateActive {
			t.Errorf("want %q: %+v", c.finding, m)
		}
	}
	w.clock.Forward(10 * time.Minute)
	w.pass(30 * time.Second)
	if m := w.machine(node); m.NodeState != wire.StateActive || m.Heard != store.StatusStale || m.Finding != "installed_no_more" {
		t.Errorf("%+v", m)
	}
	w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}}, "drain it first")
	w.move(node, fleet.Drain)
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}})
	w.pass(2 * time.Minute)
	w.is(id, machines.StateReady, wire.StateReady)
	after := w.sim.Counts()
	for _, op := range []string{"allocate", "deploy", "release", "abort", "commission"} {
		if before[op] != after[op] {
			t.Errorf("%s was asked", op)
		}
	}
	w.harmless()
}
