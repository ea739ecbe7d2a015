package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
)

// TestExtend: an extension keeps a machine until its company is asked, and is refused afterwards.
func TestExtend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.put(providers.LeaseRequest{Node: "n-1", TTLSeconds: 600, Act: providers.ActDestroy})
	w.busy["n-1"] = []string{"allocation"}
	w.pass(15 * time.Minute)
	w.wantState("after its end", "1", providers.LeaseDraining)
	_, err := w.SetLease(t.Context(), "platform", providers.LeaseRequest{Node: "n-1", AddSeconds: 60}, ada, maySpend)
	w.refused("an end in the past", wire.CodeIllegalMove, err)
	if l := w.put(providers.LeaseRequest{Node: "n-1", AddSeconds: 3600}); l.State != providers.LeaseLive || l.Act != providers.ActDestroy {
		t.Errorf("the lease is %+v", l)
	}
	w.pass(time.Minute)
	if !w.did("resume n-1") {
		t.Errorf("its node stays drained: %v", w.done)
	}
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Hurry: true})))
	w.company.set(func() { w.company.deaf = true })
	w.pass(time.Minute)
	_, err = w.SetLease(t.Context(), "platform", providers.LeaseRequest{Node: "n-1", AddSeconds: 36000}, ada, maySpend)
	w.refused("after the company was asked", wire.CodeIllegalMove, err)
	_, err = w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActStop})
	w.refused("to stop what is being destroyed", wire.CodeIllegalMove, err)
}

// TestTakenBack: who stops a machine that is to be destroyed is told that, and who puts it under a lease again takes the destroy back,
// which the lease says.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Why: "ended by ada"})))
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActStop})
	w.refused("to stop what is to be destroyed", wire.CodeIllegalMove, err)
	l := w.put(providers.LeaseRequest{Node: "n-1", TTLSeconds: 3600, Act: providers.ActStop})
	if l.State != providers.LeaseLive || l.Act != providers.ActStop ||
		l.Why != "it was about to destroy the machine, and ada has taken that back" {
		t.Errorf("the lease is %+v", l)
	}
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActStop})))
}

func errOf(_ providers.Lease, err error) error { return err }

// TestDecided: a lease stays its owner's, and says who else has decided its end, until its owner does.
func TestDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.put(providers.LeaseRequest{Node: "n-1", TTLSeconds: 3600})
	want := func(what string, q providers.LeaseRequest, by store.Actor, why string) {
		t.Helper()
		q.Node = "n-1"
		l, err := w.SetLease(t.Context(), "platform", q, by, maySpend)
		w.must(err)
		if l.Owner != "ada" || l.Why != why {
			t.Errorf("%s: it is of %s: %q, want %q", what, l.Owner, l.Why, why)
		}
	}
	bob := store.Actor{Name: "account:bob"}
	want("set by another", providers.LeaseRequest{TTLSeconds: 600}, bob, "set by bob")
	want("of which only the act is changed", providers.LeaseRequest{Act: providers.ActDestroy}, ada, "set by bob")
	want("extended by its owner", providers.LeaseRequest{AddSeconds: 60}, ada, "")
	want("extended by another", providers.LeaseRequest{AddSeconds: 60}, bob, "set by bob")
	w.pass(14 * time.Minute)
	if l := w.lease("1"); l.State == providers.LeaseLive || l.Owner != "ada" || !strings.Contains(l.Why, "set by bob") {
		t.Errorf("after its end: %+v", l)
	}
	w.put(providers.LeaseRequest{Node: "n-1", TTLSeconds: 3600})
	want("ended by another", providers.LeaseRequest{End: true}, bob, "ended by account:bob")
}

// TestExtendWins: an extension that comes while the round is at work wins, and nothing is asked of the company.
func TestExtendWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Hurry: true})))
	l := w.lease("1")
	w.put(providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 3600})
	if err := w.try(t.Context(), l, sight{now: w.clock()}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if w.company.asked("destroy 1") != 0 {
		t.Error("the company was asked all the same")
	}
}

// TestEndings: an end is the same end when it is asked for twice, stop becomes destroy, and keep leaves the machine alone.
func TestEndings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.add("2")
	w.busy["n-1"] = []string{"task"}
	stop := Ending{Account: "acme", Instance: "1", Act: providers.ActStop, Why: "first"}
	for range 2 {
		w.must(errOf(w.End(t.Context(), stop)))
	}
	if l := w.lease("1"); l.Version != 1 || l.State != providers.LeaseDraining {
		t.Errorf("the same end twice: %+v", l)
	}
	w.company.set(func() { w.company.deaf = true })
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Hurry: true})))
	w.pass(time.Minute)
	if w.company.asked("stop 1") == 0 {
		t.Error("it was not stopped")
	}
	w.company.set(func() { w.company.deaf = false })
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy})))
	w.pass(5 * time.Minute)
	w.wantState("that is destroyed after all", "1", providers.LeaseEnded)
	if w.company.machines["1"] != nil {
		t.Error("it is still there")
	}

	w.put(providers.LeaseRequest{Node: "node-2", TTLSeconds: 60, Act: providers.ActKeep})
	w.pass(2 * time.Hour)
	w.wantState("that is kept", "2", providers.LeaseLive)
	for range 2 {
		w.put(providers.LeaseRequest{Provider: "acme", Instance: "2", End: true})
	}
	w.wantState("whose lease is given up", "2", providers.LeaseEnded)
	if w.company.machines["2"] == nil || w.did("drain n-2") {
		t.Error("what is kept was touched")
	}
}

// TestRented: a machine of a rental is destroyed at its end. Whoever puts it under a lease after the rental has ended has it as his own.
func TestRented(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Rental: "aaaaaaaaaaaaaaaa", Tenant: "research"})))
	if l := w.lease("1"); l.Act != providers.ActDestroy || l.Rental == "" || l.Tenant != "research" {
		t.Errorf("the lease is %+v", l)
	}
	w.put(providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 3600})
	if l := w.lease("1"); l.State != providers.LeaseLive || l.Rental != "" {
		t.Errorf("the lease is %+v", l)
	}
}

// TestSetRefusals: what makes no sense is refused, with what to do instead.
func TestSetRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	const huge = int(^uint(0) >> 1)
	for _, c := range []struct {
		what, code string
		q          providers.LeaseRequest
	}{
		{"nothing", wire.CodeBadRequest, providers.LeaseRequest{TTLSeconds: 60}},
		{"an account alone", wire.CodeBadRequest, providers.LeaseRequest{Provider: "acme", TTLSeconds: 60}},
		{"both", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", Provider: "acme", Instance: "1", TTLSeconds: 60}},
		{"two ends", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: 60, AddSeconds: 60}},
		{"an end that goes on", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: 60, End: true}},
		{"a second", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: 1}},
		{"less than nothing", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: -huge}},
		{"for ever", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: huge}},
		{"longer for ever", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", AddSeconds: huge}},
		{"another act", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: 60, Act: "explode"}},
		{"idle for a minute", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", TTLSeconds: 60, IdleSeconds: new(60)}},
		{"no lease to extend", wire.CodeBadRequest, providers.LeaseRequest{Node: "node-1", AddSeconds: 60}},
		{"no such node", wire.CodeNotFound, providers.LeaseRequest{Node: "node-7", TTLSeconds: 60}},
		{"no such account", wire.CodeNotFound, providers.LeaseRequest{Provider: "nobody", Instance: "1", TTLSeconds: 60}},
		{"no such instance", wire.CodeNotFound, providers.LeaseRequest{Provider: "acme", Instance: "7", TTLSeconds: 60}},
	} {
		_, err := w.SetLease(t.Context(), "platform", c.q, ada, maySpend)
		w.refused(c.what, c.code, err)
	}
	for _, q := range []providers.LeaseRequest{{Node: "node-1", TTLSeconds: 60}, {Provider: "acme", Instance: "1", TTLSeconds: 60}} {
		_, err := w.SetLease(t.Context(), "other", q, store.Actor{}, maySpend)
		w.refused("another tenant's", wire.CodeNotFound, err)
	}
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: int(Longest / time.Second)})
	_, err := w.SetLease(t.Context(), "platform", providers.LeaseRequest{Node: "node-1", AddSeconds: 3600}, ada, maySpend)
	w.refused("too far away", wire.CodeBadRequest, err)

	lying := *w.nodes["n-1"]
	lying.ID, lying.Name, lying.Tenant = "n-2", "node-2", "other"
	w.nodes["n-2"] = &lying
	_, err = w.SetLease(t.Context(), "other", providers.LeaseRequest{Node: "node-2", TTLSeconds: 60}, store.Actor{}, maySpend)
	w.refused("a node that says it is another tenant's machine", wire.CodeNotFound, err)

	_, err = w.End(t.Context(), Ending{Account: "nobody", Instance: "1"})
	w.refused("the end of nothing", wire.CodeNotFound, err)
}

// TestLambda: a company that cannot stop machines is never asked to.
func TestLambda(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Lambda)
	w.add("1")
	_, err := w.SetLease(t.Context(), "platform", providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 60,
		Act: providers.ActStop}, ada, maySpend)
	w.refused("to stop", wire.CodeBadRequest, err)
	_, err = w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActStop})
	w.refused("to stop now", wire.CodeBadRequest, err)
	if l := w.put(providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 60}); l.Act != providers.ActKeep {
		t.Errorf("it is to %s", l.Act)
	}
}

// TestUnseen: a machine cannot be put under a lease before anybody has seen it.
func TestUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	_, err := w.SetLease(t.Context(), "platform", providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 60}, ada, maySpend)
	w.refused("before the first list", wire.CodeUnavailable, err)
}

// TestLeases: a list has what its filter picks, and what ends first before the rest.
func TestLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	for _, id := range []string{"1", "2", "3"} {
		w.add(id)
	}
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 7200, IdleSeconds: new(3600)})
	w.put(providers.LeaseRequest{Node: "node-2", TTLSeconds: 3600})
	w.put(providers.LeaseRequest{Node: "node-3", End: true, Act: providers.ActKeep})
	list, err := w.Leases(t.Context(), providers.LeaseFilter{})
	w.must(err)
	if len(list.Leases) != 2 || list.Leases[0].Instance != "2" || list.Leases[1].Node != "node-1" || *list.Leases[1].IdleSeconds != 3600 {
		t.Errorf("the list is %+v", list.Leases)
	}
	for f, want := range map[providers.LeaseFilter]int{{All: true}: 3, {Tenant: "platform", Provider: "acme"}: 2, {Tenant: "other"}: 0} {
		if list, err := w.Leases(t.Context(), f); err != nil || len(list.Leases) != want {
			t.Errorf("%+v: got %d leases and %v, want %d", f, len(list.Leases), err, want)
		}
	}
}

// TestMaySpend: what has a machine cost more than by the lease that it has is for those who may spend money. Who is refused changes
// nothing.
func TestMaySpend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	refuses := func() error { return wire.Refuse(wire.CodeForbidden, "it may not spend", "ask") }
	set := func(q providers.LeaseRequest) error {
		q.Node = "n-1"
		_, err := w.SetLease(t.Context(), "platform", q, ada, refuses)
		return err
	}
	idle := func(seconds int) *int { return &seconds }
	w.must(set(providers.LeaseRequest{TTLSeconds: 7200, Act: providers.ActDestroy, IdleSeconds: idle(1200)})) // it had no end
	for _, c := range []struct {
		what    string
		q       providers.LeaseRequest
		isSpent bool
	}{
		{"later", providers.LeaseRequest{TTLSeconds: 7201}, true},
		{"extended", providers.LeaseRequest{AddSeconds: 1}, true},
		{"stop for destroy", providers.LeaseRequest{Act: providers.ActStop}, true},
		{"keep for destroy", providers.LeaseRequest{TTLSeconds: 3600, Act: providers.ActKeep}, true},
		{"longer idle", providers.LeaseRequest{IdleSeconds: idle(1201)}, true},
		{"idle for ever", providers.LeaseRequest{IdleSeconds: idle(0)}, true},
		{"ended and kept", providers.LeaseRequest{End: true, Act: providers.ActKeep}, true},
		{"shorter idle", providers.LeaseRequest{IdleSeconds: idle(600)}, false},
		{"sooner", providers.LeaseRequest{TTLSeconds: 3600}, false},
		{"the same act", providers.LeaseRequest{Act: providers.ActDestroy}, false},
		{"ended and stopped", providers.LeaseRequest{End: true, Act: providers.ActStop}, false},
		{"ended and destroyed", providers.LeaseRequest{End: true, Act: providers.ActDestroy}, false},
		{"alive again", providers.LeaseRequest{TTLSeconds: 60}, true},
	} {
		before := w.lease("1")
		err := set(c.q)
		if !c.isSpent {
			w.must(err)
			continue
		}
		w.refused(c.what, wire.CodeForbidden, err)
		if after := w.lease("1"); after.Version != before.Version {
			t.Errorf("%s: it became %+v", c.what, after)
		}
	}
}
