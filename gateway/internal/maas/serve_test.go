package maas_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas"
	"muster/store"
)

// served asks for machines for the allocation al.
func (w *world) served(count int, dryRun bool) []string {
	w.t.Helper()
	got, err := w.Serve(w.t.Context(), maas.Wanted{Allocation: "al", Tenant: "platform", Count: count, DryRun: dryRun,
		Fits: func(machines.Machine) bool { return true }}, store.Actor{Name: "bob"})
	if err != nil {
		w.t.Error(err)
	}
	return got
}

// TestServeReplaced: where one of several deployments fails, the machine that is deployed stays, and another one comes in the place of the
// other.
func TestServeReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serve := func() []string { return w.served(2, false) }
	good, _ := w.ready()
	bad, node := w.ready()
	w.silence(bad, true)
	if got := serve(); len(got) != 2 || !slices.Contains(got, node) {
		t.Fatalf("it has %v", got)
	}
	other, _ := w.ready()
	for range 4 * 60 {
		w.pass(30 * time.Second)
		serve()
		if w.machine(good).Work != nil && w.machine(good).Work.Act == machines.ActRelease {
			t.Fatal("what is deployed is given back")
		}
	}
	w.is(good, machines.StateDeployed, wire.StateActive)
	w.is(other, machines.StateDeployed, wire.StateActive)
	if got := serve(); len(got) != 2 || slices.Contains(got, node) {
		t.Errorf("it has %v", got)
	}
	if c := w.sim.Counts(); c["deploy"] != 3 {
		t.Errorf("%v", c)
	}
	w.harmless()
}

// TestServeSeveral: an allocation that needs several machines gets all or none, and gives back what it has where one cannot be had. A dry
// run says so, and does nothing.
func TestServeSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for range 2 {
		id, _ := w.ready()
		ids = append(ids, id)
	}
	serve := func(count int) []string { return w.served(count, false) }
	for count, want := range map[int]int{1: 1, 2: 2, 3: 0} {
		if got := w.served(count, true); len(got) != want || w.machine(ids[0]).Work != nil || w.machine(ids[1]).Work != nil {
			t.Errorf("a dry run of %d: %v", count, got)
		}
	}
	if got := serve(3); len(got) > 0 || w.machine(ids[0]).Work != nil {
		t.Errorf("of three: %v", got)
	}
	w.silence(ids[1], true)
	got := serve(2)
	if len(got) != 2 || !slices.Equal(serve(2), got) {
		t.Fatalf("of two: %v", got)
	}
	if says := maas.Says(nil, "", context.Canceled); !strings.Contains(says, "canceled") {
		t.Error(says)
	}
	if says := maas.Says(got, "$4.00", nil); !strings.Contains(says, got[1]) || !strings.Contains(says, "installs for it for $4.00 an hour,") {
		t.Error(says)
	}
	if says := maas.Says(got[:1], "", nil); says != "the machine "+got[0]+", which MAAS installs for it, and the approval of its slots: "+
		"muster slot ls --node "+got[0] {
		t.Error(says)
	}
	w.pass(30 * time.Minute)
	w.is(ids[0], machines.StateDeployed, wire.StateActive)
	w.pass(90 * time.Minute) // the other one is given up
	if got := w.served(2, true); len(got) > 0 || w.machine(ids[0]).Work != nil {
		t.Errorf("a dry run of a third: %v", got)
	}
	if got := serve(2); len(got) > 0 {
		t.Errorf("a third: %v", got)
	}
	w.pass(15 * time.Minute)
	w.is(ids[0], machines.StateReady, wire.StateReady)
	if told := w.Told(); len(told) != 1 || told[0].Condition != machines.ToldWarning ||
		!strings.Contains(told[0].Next, "muster maas reset "+ids[1]) ||
		told[0].Tenant != "platform" {
		t.Errorf("%+v", told)
	}
	w.harmless()
}
