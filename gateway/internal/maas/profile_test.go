package maas_test

import (
	"context"
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
)

// TestTags: the tag of another profile, and one that MAAS sets itself, are findings, and nothing is changed.
func TestTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.sim.Add(maassim.Machine{Status: 4, Passed: true, Tags: []string{api.ProfileSliceVM}})
	w.pass(time.Minute)
	w.profile(w.machine(id).NodeID, api.ProfileBareMetal)
	w.pass(2 * time.Minute)
	if m := w.is(id, machines.StateReady, wire.StateCommissioned); m.Finding != "tag_conflict" || len(m.Tags) != 1 {
		t.Errorf("%+v", m)
	}
	plan, err := w.Plan(t.Context())
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Finding != "tag_conflict" || plan.Steps[0].Does != "" || plan.Steps[0].Next == "" {
		t.Errorf("%+v, %v", plan.Steps, err)
	}
	w.sim.Change(id, func(m *maassim.Machine) { m.Tags = nil })
	w.pass(time.Minute)
	w.is(id, machines.StateReady, wire.StateReady)
	w.sim.Change(id, func(m *maassim.Machine) { m.Tags = append(m.Tags, api.ProfileSliceVM) })
	w.pass(time.Minute)
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{id}}, "the tag of another profile")
}

// TestOtherProfile: when a node gets another profile, or none, the tag that muster wrote goes, and the new one comes. The node can be
// deployed at once and later. A tag that muster did not write stays, and is named.
func TestOtherProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	node := w.machine(id).NodeID
	has := func(words string, tags ...string) {
		t.Helper()
		if m := w.is(id, machines.StateReady, wire.StateReady); !slices.Equal(m.Tags, tags) || m.Finding != "" {
			t.Errorf("%s: %v, %s", words, m.Tags, m.Finding)
		}
	}
	has("assigned", api.ProfileBareMetal)
	w.profile(node, api.ProfileSliceVM)
	w.pass(2 * time.Minute)
	has("another one", api.ProfileSliceVM)
	w.profile(node, "")
	w.pass(2 * time.Minute)
	has("none")
	w.profile(node, api.ProfileSliceVM)
	w.pass(2 * time.Minute)
	w.profile(node, "")
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileBareMetal})
	w.pass(15 * time.Minute)
	if m := w.is(id, machines.StateDeployed, wire.StateActive); !slices.Equal(m.Tags, []string{api.ProfileBareMetal}) {
		t.Errorf("deployed: %v", m.Tags)
	}
	id, _ = w.ready()
	w.sim.Change(id, func(m *maassim.Machine) { m.Tags = append(m.Tags, api.ProfileSliceVM) })
	w.pass(time.Minute)
	m := w.is(id, machines.StateReady, wire.StateReady)
	if m.Finding != "tag_conflict" || !strings.Contains(m.Next, "the tag "+api.ProfileSliceVM) || len(m.Tags) != 2 {
		t.Errorf("by hand: %+v", m)
	}
	id = w.sim.Add(maassim.Machine{Status: 4, Passed: true, Tags: []string{api.ProfileSliceVM}})
	w.pass(time.Minute)
	w.profile(w.machine(id).NodeID, api.ProfileSliceVM)
	w.pass(2 * time.Minute)
	q := machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileBareMetal, DryRun: true}
	w.refused(q, "the tag "+api.ProfileSliceVM)
	w.harmless()
}

// TestProfileRefused: a profile that there is not, and one in whose place MAAS itself keeps the tag of another, are refused before the node
// loses the one that it has.
func TestProfileRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	var refused *wire.ErrorDetail
	_, err := w.Act(t.Context(), machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: "typo"}, ann)
	if !errors.As(err, &refused) || refused.Code != wire.CodeNotFound {
		t.Errorf("got %v", err)
	}
	w.sim.Define(api.ProfileBareMetal, "//node", id)
	w.pass(2 * time.Minute)
	w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Profile: api.ProfileSliceVM}, "MAAS itself sets the tag")
	w.pass(time.Minute)
	if m := w.is(id, machines.StateReady, wire.StateReady); m.Profile != api.ProfileBareMetal || m.Work != nil {
		t.Errorf("%+v", m)
	}
}

// TestErasesUnknown: a machine is erased as the profile says that it was installed with, also when its node is retired or has another one
// by now. Where nothing is known, it is erased.
func TestErasesUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Profiles = profilesWith(api.ProfileBareMetal)
	retire := func(_, node string) { w.move(node, fleet.Retire) }
	for name, c := range map[string]struct {
		profile string
		before  func(id, node string)
		acts    []string
		want    bool
	}{
		"a retired node":          {api.ProfileBareMetal, retire, []string{machines.ActRelease, machines.ActDecommission}, true},
		"a retired node, no need": {api.ProfileSliceVM, retire, []string{machines.ActRelease}, false},
		"another profile by now": {api.ProfileBareMetal, func(id, node string) {
			w.move(node, fleet.Drain)
			w.profile(w.machine(id).NodeID, api.ProfileSliceVM)
		}, []string{machines.ActRelease, machines.ActDecommission}, true},
		"failed": {api.ProfileBareMetal, func(id, node string) {
			retire(id, node)
			w.sim.Change(id, func(m *maassim.Machine) { m.Status = 13 })
		}, []string{machines.ActReset}, true},
		"nothing known": {api.ProfileBareMetal, func(id, node string) {
			retire(id, node)
			w.sql("UPDATE maas_machines SET ended = '' WHERE system_id = ?", id)
		}, []string{machines.ActRelease}, true},
	} {
		id, _ := w.ready()
		w.profile(w.machine(id).NodeID, c.profile)
		w.sim.Change(id, func(m *maassim.Machine) { m.Tags = []string{c.profile} })
		w.pass(time.Minute)
		w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
		w.pass(10 * time.Minute)
		c.before(id, w.is(id, machines.StateDeployed, wire.StateActive).Node)
		w.pass(time.Minute)
		for _, act := range c.acts {
			got, err := w.Act(t.Context(), machines.Act{Act: act, Machines: []string{id}, DryRun: true}, ann)
			if err != nil || len(got.Machines) != 1 || got.Machines[0].Work.Erase != c.want {
				t.Errorf("%s, %s: %+v, %v", name, act, got, err)
			}
		}
	}
	id, node := w.deployed()
	w.Profiles = func(context.Context) ([]api.Profile, error) { return nil, nil } // it is deleted
	retire(id, node)
	w.pass(time.Minute)
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}})
	w.pass(20 * time.Minute)
	if m, _ := w.sim.Machine(id); m.Status != 4 || m.Erased != "secure" {
		t.Errorf("given back: %d, erased %q", m.Status, m.Erased)
	}
	id = w.sim.Add(maassim.Machine{Status: 2})
	w.pass(time.Minute)
	got, err := w.Act(t.Context(), machines.Act{Act: machines.ActReset, Machines: []string{id}, DryRun: true}, ann)
	if err != nil || got.Machines[0].Work.Erase {
		t.Errorf("nothing is on it: %+v, %v", got, err)
	}
	w.harmless()
}

// TestErases: a machine that is given back is erased as its profile says, and a person may say otherwise.
func TestErases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says *bool
		want string
	}{{nil, "secure"}, {ptr(true), "secure"}, {ptr(false), ""}} {
		w := newWorld(t)
		id, _ := w.ready()
		w.bring(id, 6, wire.StateDrained, "muster")
		w.pass(30 * time.Second)
		w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}, Erase: c.says})
		w.pass(20 * time.Minute)
		w.is(id, machines.StateReady, wire.StateReady)
		if m, _ := w.sim.Machine(id); m.Erased != c.want {
			t.Errorf("it was erased %q, want %q", m.Erased, c.want)
		}
	}
}

// TestNotErased: what somebody released in MAAS by hand does not count as erased, until a person says that this is well.
func TestNotErased(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q      machines.Act
		erases bool
	}{
		{machines.Act{Act: machines.ActRelease}, true},
		{machines.Act{Act: machines.ActDecommission}, true},
		{machines.Act{Act: machines.ActDeploy, Reimage: true, Erase: ptr(true)}, true},
		{machines.Act{Act: machines.ActRelease, Erase: ptr(false)}, false},
	} {
		w := newWorld(t)
		id, node := w.deployed()
		w.move(node, fleet.Drain)
		c.q.Machines = []string{id}
		w.act(c.q)
		w.sim.Change(id, func(m *maassim.Machine) { m.Locked = true })
		w.pass(time.Minute)
		w.sim.Change(id, func(m *maassim.Machine) { m.Status, m.Locked, m.Owner, m.AgentName = 4, false, "", "" })
		w.pass(2 * time.Minute)
		m := w.is(id, machines.StateReady, wire.StateReady)
		if says := m.Ended != nil && strings.Contains(m.Ended.Why, "was not seen to erase its disks"); m.Work != nil || says != c.erases {
			t.Errorf("%+v: %+v", c.q, m.Ended)
		}
		if is := m.Finding == "last_work_failed"; is != c.erases {
			t.Errorf("%+v: found %q", c.q, m.Finding)
		}
		if w.sim.Count("release") != 0 {
			t.Error("it was released by muster")
		}
		if c.erases {
			w.act(machines.Act{Act: machines.ActReset, Machines: []string{id}})
			w.pass(time.Minute)
			if m := w.is(id, machines.StateReady, wire.StateReady); m.Finding != "" {
				t.Errorf("after a reset: %q, %+v", m.Finding, m.Ended)
			}
		}
		w.harmless()
	}
}

// TestErasedAtOnce: an erasure that has ended before the machine is read again counts.
func TestErasedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.deployed()
	w.move(node, fleet.Drain)
	w.act(machines.Act{Act: machines.ActRelease, Machines: []string{id}})
	released := false
	w.watching(func(op string) {
		if op == "read" && released {
			w.sim.Change(id, func(m *maassim.Machine) { m.Status, m.Owner, m.AgentName, m.Erased = 4, "", "", "secure" })
		}
		released = released || op == "release"
	})
	w.pass(time.Minute)
	if m := w.is(id, machines.StateReady, wire.StateReady); m.Finding != "" || m.Ended == nil || m.Ended.Why != "" {
		t.Errorf("%q, %+v", m.Finding, m.Ended)
	}
}
