package rent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// TestStrays: a machine that turns up after it was given up is given back, and so is one that was destroyed and is still there. What
// another gateway or a person has made is left alone.
func TestStrays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.lag = 30 * time.Minute
	w.company.next = []string{lost}
	w.company.set(func() {
		w.company.add(cloud.Order{Name: "muster-" + wire.NewTaskID(), Offer: cloud.Offer{Price: cloud.Dollar}})
		w.company.add(cloud.Order{Name: "training", Offer: cloud.Offer{Price: cloud.Dollar}})
	})
	r := w.rent(want(1))
	w.pass(20 * time.Minute)
	got := w.wantState("when nothing turns up", r.ID, providers.RentedDone, 4)
	w.pass(30 * time.Minute)
	w.wantState("when it turns up", r.ID, providers.RentedDone, 3)
	if got = w.show(r.ID); got.Machines[0].Instance == "" || got.Machines[0].Spent == nil {
		t.Errorf("what it cost is not told: %+v", got.Machines)
	}
	kept := got.Machines[1].Instance
	_, err := w.config.Leases.End(t.Context(), lease.Ending{Account: "acme", Instance: kept, Act: providers.ActDestroy})
	w.must(err)
	w.pass(10 * time.Minute)
	w.wantState("when it is destroyed", r.ID, providers.RentedDone, 2)
	w.company.set(func() {
		id := w.company.add(cloud.Order{Name: "muster-" + got.Machines[1].ID, Offer: cloud.Offer{Price: cloud.Dollar}})
		w.company.machines[kept] = w.company.machines[id]
		w.company.machines[kept].ID, w.company.machines[kept].madeAt = kept, start
		delete(w.company.machines, id)
	})
	w.pass(15 * time.Minute)
	w.wantState("when it was not destroyed after all", r.ID, providers.RentedDone, 2)
	for _, id := range w.company.ended {
		if id == "1001" || id == "1002" {
			t.Error("a foreign machine was touched")
		}
	}
}

// TestFits: a name alone makes no machine a rental's.
func TestFits(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { return new(start.Add(d)) }
	for _, c := range []struct {
		what         string
		asked        *time.Time
		host, onHost string
		first        time.Duration
		started      *time.Time
		want         bool
	}{
		{"it is as on record", at(0), "a", "a", time.Minute, at(time.Second), true},
		{"the company tells no host", at(0), "a", "", time.Minute, nil, true},
		{"the offer told no host", at(0), "", "a", time.Minute, nil, true},
		{"another host", at(0), "a", "b", time.Minute, nil, false},
		{"nobody was asked", nil, "a", "a", time.Minute, nil, false},
		{"clocks differ", at(0), "a", "a", -slack, at(-slack), true},
		{"seen before", at(0), "a", "a", -slack - 1, nil, false},
		{"started before", at(0), "a", "a", time.Minute, at(-slack - 1), false},
	} {
		i := &market.Seen{Instance: cloud.Instance{Host: c.onHost, StartedAt: c.started}, FirstAt: start.Add(c.first)}
		if got := fits(rentals.Rental{AskedAt: c.asked, Host: c.host}, i); got != c.want {
			t.Errorf("%s: got %v", c.what, got)
		}
	}
}

// TestNamesakes: a machine with a rental's name that does not fit its record is neither given back nor taken for the rental's.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.next = []string{"", unheard}
	r := w.rent(want(2))
	w.company.onCreate = func(o cloud.Order) { // somebody gives his own machine the order's name
		o.Offer.Host = "host-of-somebody"
		w.company.set(func() { w.company.add(o) })
	}
	w.pass(time.Hour)
	got := w.show(r.ID)
	if got.State != providers.RentedDone || got.Ready != 2 || len(w.company.ended) > 0 {
		t.Errorf("%+v, and %v were ended", got, w.company.ended)
	}
	for _, m := range got.Machines {
		for _, there := range w.company.there() {
			if there.ID == m.Instance && there.Host == "host-of-somebody" {
				t.Errorf("%s is taken for a rental's", m.Instance)
			}
		}
	}
}

// TestCrashBetween: a gateway that stops after a rental has failed, and before its lease is ended, ends the lease when it is back.
func TestCrashBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	r := w.rent(want(1))
	w.pass(time.Minute)
	found, err := w.records.Rentals(t.Context(), rentals.RentalQuery{Request: r.ID})
	w.must(err)
	w.must(w.end(t.Context(), found[0], providers.RentalFailed, "for this test"))
	w.restart()
	w.pass(10 * time.Minute)
	w.wantState("when it is back", r.ID, providers.RentedDone, 1)
	if w.company.there()[0].ID == "1001" {
		t.Error("the machine of the failed rental is there")
	}
}

// TestGiveUp: a request that a person gives up leaves what is ready, and nothing else.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.bad["host-1"] = "never"
	w.company.next = []string{"", "", lost}
	r := w.rent(want(3))
	w.pass(3 * time.Minute)
	for range 2 {
		got, err := w.GiveUp(t.Context(), "platform", r.ID, ada)
		if err != nil || got.State != providers.RentedFailed || got.Why != "given up by account:ada" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	w.pass(10 * time.Minute)
	if got := w.wantState("in the end", r.ID, providers.RentedFailed, 2); got.Ready != 2 {
		t.Errorf("it is so: %+v", got)
	}
	_, err := w.GiveUp(t.Context(), "other", r.ID, ada)
	w.refused("another tenant's", wire.CodeNotFound, err)
}

// TestAct: a person stops, starts and destroys one machine. A start keeps to the limits, and does not bring back what is being ended.
func TestAct(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.set(func() {
		for _, id := range []string{"1", "2"} {
			price := 2 * cloud.Dollar
			w.company.machines[id] = &machine{Instance: cloud.Instance{ID: id, State: cloud.Stopped, Running: &price,
				Storage: new(cloud.Money)}}
		}
	})
	w.pass(time.Minute)
	act := func(id, act string) error { return w.Act(t.Context(), "acme", id, act, ada) }
	w.refused("what is not there", wire.CodeNotFound, act("7", providers.ActStart))
	w.must(w.records.SetTenantLimit(t.Context(), "platform", new(int64(4*cloud.Dollar-1)), start, "ada"))
	w.company.set(func() { w.company.late = true })
	w.must(act("1", providers.ActStart))
	w.pass(tick)
	w.refused("while lists show what was before", wire.CodeOverQuota, act("2", providers.ActStart))
	w.company.set(func() { w.company.machines["1"].State, w.company.late = cloud.Running, false })
	w.pass(tick)
	w.must(act("1", providers.ActStart)) // it runs
	w.refused("by a millionth", wire.CodeOverQuota, act("2", providers.ActStart))
	w.must(w.records.SetTenantLimit(t.Context(), "platform", new(int64(4*cloud.Dollar)), start, "ada"))
	w.company.set(func() { w.company.fails["start"] = &cloud.Error{Kind: cloud.NoOffer, Text: "its GPU is rented"} })
	w.refused("whose GPU is gone", wire.CodeNoCapacity, act("2", providers.ActStart))
	w.company.set(func() { w.company.fails["start"] = &cloud.Error{Kind: cloud.Unclear, Text: "unexpected EOF"} })
	w.refused("of which nobody knows", wire.CodeProviderFailed, act("2", providers.ActStart))
	if now, err := w.records.Spent(t.Context()); err != nil || now[0].PerHour != int64(4*cloud.Dollar) {
		t.Errorf("it does not count: %+v, %v", now, err)
	}
	if n, failed := w.events("instance.starting"), w.events("instance.not_started"); n != 3 || failed != 1 {
		t.Errorf("%d starts and %d refusals are on record", n, failed)
	}
	w.company.set(func() { w.company.fails["start"], w.company.machines["2"].Running = nil, nil })
	w.pass(tick)
	w.pass(12 * time.Minute)
	w.refused("whose price is not known", wire.CodeOverQuota, act("2", providers.ActStart))
	w.company.set(func() { w.company.machines["2"].Running = new(2 * cloud.Dollar) })
	w.pass(tick)
	w.must(act("2", providers.ActStart))
	w.company.deaf = true
	w.must(act("2", providers.ActDestroy))
	w.refused("what is being destroyed", wire.CodeIllegalMove, act("2", providers.ActStart))
	w.company.deaf = false
	w.pass(10 * time.Minute)
	if all := w.company.there(); len(all) != 1 || all[0].ID != "1" || all[0].State != cloud.Running {
		t.Errorf("the machines are %+v", all)
	}
}

// TestStartWithoutEnd: what muster has rented is not started without a lease. One that is set has it start, as its rental's, and its node
// takes work again.
func TestStartWithoutEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.rent(want(1))
	w.pass(10 * time.Minute)
	w.must(w.Act(t.Context(), "acme", "1001", providers.ActStop, ada))
	w.pass(5 * time.Minute)
	before, err := w.records.Lease(t.Context(), "acme", "1001")
	w.must(err)
	n, _ := w.node("n-1001")
	if before.State != providers.LeaseEnded || before.Rental == "" || n.State != wire.StateDrained ||
		w.company.there()[0].State != cloud.Stopped {
		t.Fatalf("it is not stopped: %+v, node %s", before, n.State)
	}
	refusal := w.refused("without a lease", wire.CodeIllegalMove, w.Act(t.Context(), "acme", "1001", providers.ActStart, ada))
	if refusal.Hint != "muster lease set acme/1001 8h, then start it" || w.company.there()[0].State != cloud.Stopped {
		t.Errorf("the hint is %q", refusal.Hint)
	}
	_, err = w.config.Leases.SetLease(t.Context(), "platform",
		providers.LeaseRequest{Provider: "acme", Instance: "1001", TTLSeconds: 3600}, ada, maySpend)
	w.must(err)
	w.must(w.Act(t.Context(), "acme", "1001", providers.ActStart, ada))
	w.pass(5 * time.Minute)
	l, err := w.records.Lease(store.Fresh(t.Context()), "acme", "1001")
	w.must(err)
	n, _ = w.node("n-1001")
	if l.State != providers.LeaseLive || l.Rental != before.Rental || l.Drained || n.State != wire.StateActive ||
		w.company.there()[0].State != cloud.Running {
		t.Errorf("under a new lease: %+v, node %s", l, n.State)
	}
	w.pass(90 * time.Minute)
	if l, err = w.records.Lease(store.Fresh(t.Context()), "acme", "1001"); err != nil || l.State != providers.LeaseEnded {
		t.Errorf("after its end: %+v, %v", l, err)
	}
}

// TestRestored: what a request makes that was made before a restore is there already. It is not made twice, and stays.
func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	q := want(2)
	q.ID = wire.NewTaskID()
	w.company.set(func() {
		w.company.add(cloud.Order{Name: "muster-" + named(q.ID, place{number: 1}), Offer: cloud.Offer{GPU: "NVIDIA H100", GPUs: 1,
			Price: cloud.Dollar}})
	})
	w.step(time.Minute)
	w.restart()
	w.rent(q)
	w.Round(t.Context())
	if w.company.orderCount() != 0 {
		t.Error("it has ordered before it has looked")
	}
	w.pass(2 * time.Hour)
	got := w.wantState("after the restore", q.ID, providers.RentedDone, 2)
	if got.Machines[0].Instance != "1001" || got.Machines[0].State != providers.RentalReady || w.company.orderCount() != 1 {
		t.Errorf("got %+v after %d orders", got.Machines, w.company.orderCount())
	}
}

// TestRestoredNamesakes: after a restore, a machine is not taken for a request's by its name alone: anybody who sees it can give it to
// another one. Then the request gets other machines, and those with its name are left alone.
func TestRestoredNamesakes(t *testing.T) {
	t.Parallel()
	fit := cloud.Offer{GPU: "H100", GPUs: 1, Price: cloud.Dollar}
	for what, has := range map[string][]cloud.Offer{
		"two of one name": {fit, fit},
		"another model":   {{GPU: "RTX 3060", GPUs: 1, Price: cloud.Dollar}},
		"too few GPUs":    {{GPU: "H100", Price: cloud.Dollar}},
	} {
		w := newWorld(t, cloud.Vast)
		q := want(1)
		q.ID = wire.NewTaskID()
		w.company.set(func() {
			for _, o := range has {
				w.company.add(cloud.Order{Name: "muster-" + named(q.ID, place{number: 1}), Offer: o})
			}
		})
		w.step(time.Minute)
		w.restart()
		w.rent(q)
		w.pass(time.Hour)
		got := w.wantState(what, q.ID, providers.RentedDone, len(has)+1)
		if got.Machines[0].State != providers.RentalFailed || !strings.Contains(got.Machines[0].Why, "touched") || got.Ready != 1 ||
			len(w.company.ended) != 0 {
			t.Errorf("%s: got %+v, ended %v", what, got.Machines, w.company.ended)
		}
	}
}

// TestPrune: requests that were over long ago are dropped.
func TestPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.next = []string{refusing}
	r := w.rent(want(1))
	w.pass(time.Minute)
	w.step(91 * 24 * time.Hour)
	w.pass(time.Minute)
	_, err := w.Rented(t.Context(), "platform", r.ID)
	w.refused("what was dropped", wire.CodeNotFound, err)
}

// TestRun: a service looks again and again whether all nodes are known, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		s := Open(Config{Leases: lease.Open(lease.Config{World: lease.World{Ready: func() bool { asked++; return false }}})})
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		<-time.After(time.Minute)
		stop()
		if err := <-done; err != nil || asked < 3 {
			t.Errorf("got %v, and it looked %d times", err, asked)
		}
		if s.Away(start, start.Add(time.Hour)) != 0 || s.Elapsed() <= 0 || s.Now().IsZero() {
			t.Error("the clocks are not complete")
		}
	})
}

// TestClosed: a database that does not answer is complained of, and nothing is done.
func TestClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.rent(want(1))
	w.must(w.store.Close())
	w.Round(t.Context())
	if _, err := w.Rentals(t.Context(), "platform"); err == nil || w.company.orderCount() != 0 {
		t.Errorf("got %v after %d orders", err, w.company.orderCount())
	}
	if _, _, err := w.Rent(t.Context(), want(1), ada); errors.As(err, new(*wire.ErrorDetail)) || err == nil {
		t.Errorf("got %v", err)
	}
}
