package maas_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
	"muster/store"
)

// restored is a gateway that starts again: another one has a machine, and one has the tag of another profile.
func restored(t *testing.T) (w *world, other, tagged string) {
	t.Helper()
	w = newWorld(t)
	tagged, _ = w.ready()
	w.sim.Change(tagged, func(m *maassim.Machine) { m.Tags = append(m.Tags, api.ProfileSliceVM) })
	other = w.sim.Add(maassim.Machine{Status: 6, Owner: "muster", AgentName: "muster-other", Passed: true, Power: "on"})
	w.pass(time.Minute)
	w.judged(other, tagged)
	w.restart()
	return w, other, tagged
}

// judged checks that what the last complete view tells stands against an act.
func (w *world) judged(other, tagged string) {
	w.t.Helper()
	for _, dry := range []bool{true, false} {
		w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{other}, DryRun: dry}, "not by this gateway")
		w.refused(machines.Act{Act: machines.ActDecommission, Machines: []string{other}, DryRun: dry}, "not by this gateway")
		w.refused(machines.Act{Act: machines.ActDeploy, Machines: []string{tagged}, DryRun: dry}, "the tag of another profile")
	}
}

// TestRestoredView: what was seen before the gateway's start is shown, and no act is judged by it.
func TestRestoredView(t *testing.T) {
	t.Parallel()
	w, other, tagged := restored(t)
	unseen := func(words string) {
		t.Helper()
		if s := w.State(); s.Known || !s.Restored || s.SyncedAt == nil {
			t.Errorf("%+v", s)
		}
		for _, act := range []string{machines.ActRelease, machines.ActDeploy, machines.ActReset, machines.ActDecommission,
			machines.ActCommission} {
			for _, q := range []machines.Act{{DryRun: true}, {}, {Force: true}} {
				q.Act, q.Machines = act, []string{other, tagged}
				_, err := w.Act(t.Context(), q, ann)
				if code(err) != wire.CodeUnavailable || !strings.Contains(err.Error(), words) {
					t.Errorf("%s: %v", act, err)
				}
			}
		}
		any := func(machines.Machine) bool { return true }
		got, err := w.Serve(t.Context(), maas.Wanted{Allocation: "al", Tenant: "platform", Count: 1, Fits: any}, store.Actor{Name: "bob"})
		if err != nil || len(got) > 0 {
			t.Errorf("an allocation gets %q, %v", got, err)
		}
	}
	unseen("not seen since the gateway's start: MAAS has not answered yet")
	w.sim.Fail("*", maassim.RackAway, -1)
	if err := w.Round(t.Context()); err == nil {
		t.Error("MAAS is not away")
	}
	unseen("HTTP 503")
	if m := w.machine(other); m.State != machines.StateInstalled {
		t.Errorf("%+v", m)
	}
	w.sim.Heal()
	w.pass(30 * time.Second)
	if s := w.State(); !s.Known || s.Restored {
		t.Errorf("%+v", s)
	}
	w.judged(other, tagged)
	if c := w.sim.Counts(); c["release"]+c["allocate"]+c["commission"] != 0 {
		t.Errorf("counts %v", c)
	}
	w.harmless()
}

// TestFirstLook: who asks while MAAS is looked at for the first time waits for that, and is judged by it.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	w, other, tagged := restored(t)
	asked, answers := make(chan bool, 1), make(chan bool)
	w.watching(func(op string) {
		if op == "list" {
			asked <- true
			<-answers
		}
	})
	looked := make(chan error)
	go func() { looked <- w.Round(t.Context()) }()
	<-asked
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q := machines.Act{Act: machines.ActRelease, Machines: []string{other}}
	if _, err := w.Act(short, q, ann); code(err) != wire.CodeUnavailable {
		t.Errorf("it does not wait for ever: %v", err)
	}
	judged := make(chan bool)
	go func() {
		w.judged(other, tagged)
		close(judged)
	}()
	w.watching(nil)
	answers <- true
	if err := <-looked; err != nil {
		t.Error(err)
	}
	<-judged
	if w.sim.Count("release") != 0 {
		t.Error("it was released")
	}
}

// TestOldView: while MAAS is not seen, what the last complete view told of machines stays, and nothing is said to be done because of it.
func TestOldView(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		oldView(t, restarts)
	}
}

func oldView(t *testing.T, restarts bool) {
	t.Helper()
	w, other, tagged := restored(t)
	w.sim.Change(tagged, func(m *maassim.Machine) { m.Tags = []string{api.ProfileBareMetal} })
	w.pass(time.Minute)
	w.silence(tagged, true)
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{tagged}})
	w.pass(time.Minute)
	unseen := func(finding string) {
		t.Helper()
		if err := w.Round(t.Context()); err == nil {
			t.Fatal("MAAS is not away")
		}
		if m := w.machine(other); m.Finding != finding {
			t.Errorf("it is shown as %+v", m)
		}
		if m := w.machine(tagged); m.Work == nil || m.Next != "deploy: waits for: MAAS, which is not seen now" {
			t.Errorf("next %q of %+v", m.Next, m)
		}
		plan, err := w.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan.Steps {
			if step.Does != "" && step.Does != "deploy: waits for: MAAS, which is not seen now" {
				t.Errorf("%+v", step)
			}
		}
		if is := w.planned(other, "acquired_elsewhere").Finding; is != finding {
			t.Errorf("it is planned as %q", is)
		}
	}
	if restarts {
		w.sim.Fail("*", maassim.RegionDown, -1)
		w.restart()
		unseen("") // whose a machine is, is not known yet
		return
	}
	w.sim.Revoke("muster", true)
	unseen("acquired_elsewhere")
}
