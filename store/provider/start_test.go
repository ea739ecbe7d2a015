package provider_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

// TestStart: a machine that was asked to start counts as one that runs, also while views show it as it was, but not for ever.
func TestStart(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a")
	one, two := instance("1", "stopped", 3), instance("2", "stopped", 2)
	viewAt(t, r, 0, one, two)
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(4)), start, "account:ops"))
	wantError(t, "what is not there", r.Start(t.Context(), "a", "9", start), store.ErrNotFound)
	must(t, r.Start(t.Context(), "a", "1", start, store.Event{At: start, Kind: "instance.starting"}))
	costs := func(what string, want int64) {
		t.Helper()
		wantSame(t, what, spent(t, r, provider.OfAccount, "a"), [2]int64{want, 0})
	}
	costs("when it was asked to", 3)
	must(t, r.Start(t.Context(), "a", "1", start)) // the same again counts once
	if err := r.Start(t.Context(), "a", "2", start); !errors.Is(err, provider.ErrLimit) || !strings.Contains(err.Error(), "costs $0.000003") {
		t.Errorf("beyond the limit: %v", err)
	}
	request(t, r, "q", "a", "platform", 1)
	wantError(t, "an order beyond it", r.Intend(t.Context(), rental("r", 1, 2)), provider.ErrLimit)
	viewAt(t, r, 5*time.Minute, one, two)
	costs("while a view shows it as it was", 3)
	viewAt(t, r, 20*time.Minute, one, two)
	costs("when it did not come to pass", 0)
	must(t, r.Start(t.Context(), "a", "1", after(20*time.Minute)))
	must(t, r.NotStarted(t.Context(), "a", "1", store.Event{At: start, Kind: "instance.not_started"}))
	costs("when the company said no", 0)
	must(t, r.Start(t.Context(), "a", "1", after(20*time.Minute)))
	one.State = "running"
	viewAt(t, r, 21*time.Minute, one, two)
	costs("when it runs", 3)
	one.State = "stopped"
	viewAt(t, r, 22*time.Minute, one, two)
	costs("when it was stopped again", 0)
	two.Running = nil
	viewAt(t, r, 23*time.Minute, one, two)
	if err := r.Start(t.Context(), "a", "2", start); !errors.Is(err, provider.ErrLimit) || !strings.Contains(err.Error(), "what 2 costs") {
		t.Errorf("whose price is not known: %v", err)
	}
	costs("after what was refused", 0)
	events, err := s.Events(t.Context(), store.EventQuery{})
	must(t, err)
	wantSame(t, "events", len(events), 2)
}

// TestStartDisk: a stopped machine costs its disk, and a start adds the rest.
func TestStartDisk(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	one, two := instance("1", "stopped", 5), instance("2", "stopped", 5)
	one.Storage, two.Price = ptr(int64(2)), ptr(int64(1))
	viewAt(t, r, 0, one, two)
	wantSame(t, "while both are stopped", spent(t, r, provider.OfAccount, "a"), [2]int64{3, 0})
	wantSame(t, "of the tenant", spent(t, r, provider.OfTenant, "platform"), [2]int64{3, 0})
	must(t, r.SetTenantLimit(t.Context(), "platform", ptr(int64(5)), start, "account:ops"))
	if err := r.Start(t.Context(), "a", "1", start); !errors.Is(err, provider.ErrLimit) ||
		!strings.Contains(err.Error(), "costs $0.000003, and $0.000003 would") {
		t.Errorf("by a millionth: %v", err)
	}
	request(t, r, "q", "a", "platform", 1)
	wantError(t, "an order beside the disks", r.Intend(t.Context(), rental("r", 1, 3)), provider.ErrLimit)
	must(t, r.SetTenantLimit(t.Context(), "platform", ptr(int64(6)), start, "account:ops"))
	must(t, r.Start(t.Context(), "a", "1", start))
	wantSame(t, "when one was asked to", spent(t, r, provider.OfAccount, "a"), [2]int64{6, 0})
	must(t, r.NotStarted(t.Context(), "a", "1"))
	wantSame(t, "when the company said no", spent(t, r, provider.OfAccount, "a"), [2]int64{3, 0})
}

// TestStartRace: of many that are started at once, as many as the limit allows are.
func TestStartRace(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	var all []provider.Instance
	for i := range 9 {
		all = append(all, instance(fmt.Sprint(i), "stopped", 3))
	}
	view(t, r, "a", all...)
	must(t, r.SetTenantLimit(t.Context(), "platform", ptr(int64(10)), start, "account:ops"))
	var started atomic.Int32
	var many sync.WaitGroup
	for i := range 9 {
		many.Go(func() {
			for {
				err := r.Start(t.Context(), "a", fmt.Sprint(i), start)
				if err == nil {
					started.Add(1)
				}
				if !errors.Is(err, store.ErrConflict) {
					return
				}
			}
		})
	}
	many.Wait()
	wantSame(t, "started", started.Load(), 3)
}

// TestRestored: after a restore no machine ends because of a lease of before, and nothing is rented that may be there already.
func TestRestored(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a")
	for _, id := range []string{"q", "other"} {
		must(t, r.PutRequest(t.Context(), provider.Request{ID: id, Account: "a", Tenant: "platform", State: "renting", Want: "{}", Count: 3,
			CreatedAt: start, Allocation: id}))
	}
	for i, id := range []string{"r1", "r2", "r3"} {
		must(t, r.Intend(t.Context(), rental(id, i, 1)))
	}
	must(t, created(t, r, "r1", "1"))
	must(t, created(t, r, "r2", "2"))
	must(t, change(t, r, "r2", func(x *provider.Rental) { x.State = "failed" }))
	end := func(id, state string, d time.Duration) {
		l, err := r.Lease(t.Context(), "a", id)
		if errors.Is(err, store.ErrNotFound) {
			l = lease("a", id, "")
		}
		l.State, l.EndsAt, l.Why, l.Warned = state, after(d), "", true
		if state == "ending" {
			l.AskedAt, l.DrainedAt, l.TryAt, l.Tries, l.Drained = &start, &start, ptr(after(time.Hour)), 7, true
		}
		must(t, r.PutLease(t.Context(), l))
	}
	end("1", "live", -time.Hour)
	end("2", "ending", -time.Hour)
	end("3", "live", 48*time.Hour)
	end("4", "ended", -time.Hour)
	end("5", "draining", 48*time.Hour)
	at := after(time.Hour)
	for range 2 {
		must(t, r.Restored(t.Context(), at))
	}
	list, err := r.Leases(t.Context(), provider.LeaseQuery{Ended: true})
	must(t, err)
	var text []string
	for _, l := range list {
		text = append(text, fmt.Sprint(l.Instance, " ", l.State, " ", l.EndsAt.Sub(at), " ", l.Tries, " ", l.Warned, " ", l.Drained,
			l.AskedAt, l.DrainedAt, l.TryAt))
	}
	wantSame(t, "leases", strings.Join(text, "; "), "1 live 24h0m0s 0 false false <nil> <nil> <nil>; "+
		"2 live 24h0m0s 0 false true <nil> <nil> <nil>; 3 live 47h0m0s 0 true false <nil> <nil> <nil>; "+
		"4 ended -2h0m0s 0 true false <nil> <nil> <nil>; 5 live 47h0m0s 0 false false <nil> <nil> <nil>")
	before := provider.Lease{Account: "a", Instance: "1", Version: 2}
	wantError(t, "one that was read before", r.PutLease(t.Context(), before), store.ErrConflict)
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "lease.extended", Ascending: true})
	must(t, err)
	wantSame(t, "events", len(events), 3)
	for _, e := range events {
		if e.Detail["provider"] != "a" || e.Detail["why"] == "" || e.Tenant != "platform" || e.Actor != "gateway" || !e.At.Equal(at) ||
			e.Detail["instance"] == "1" && e.Detail["ends"] != at.Add(24*time.Hour).Format(time.RFC3339) {
			t.Errorf("the event is %+v", e)
		}
	}
	rows, err := r.Rentals(t.Context(), provider.RentalQuery{})
	must(t, err)
	text = nil
	for _, x := range rows {
		text = append(text, fmt.Sprint(x.ID, " ", x.State, " ", x.Instance, " ", show(x.ReadyAt)))
	}
	wantSame(t, "rentals", strings.Join(text, "; "), fmt.Sprint("r1 ready 1 ", at, "; r2 failed 2 none"))
	requests, err := r.Requests(t.Context(), provider.RequestQuery{})
	must(t, err)
	text = nil
	for _, q := range requests {
		text = append(text, fmt.Sprint(q.ID, " ", q.State, " ", show(q.DoneAt), " ", q.Allocation))
	}
	wantSame(t, "requests", strings.Join(text, "; "), fmt.Sprint("other failed ", at, " other; q failed ", at, " "))
}
