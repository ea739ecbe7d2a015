package provider_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

func rejoin(token string) provider.Rejoin {
	return provider.Rejoin{Account: "a", Instance: "1", Tenant: "platform", State: "asked", Token: token, NodeID: "n", AskedBy: "account:ada",
		AskedAt: start}
}

// newest is the rejoin of the instance 1.
func newest(t testing.TB, r provider.Records) provider.Rejoin {
	t.Helper()
	all, err := r.Rejoins(t.Context(), "a", "1")
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("there are %d", len(all))
	}
	return all[0]
}

// TestRejoins: a machine is asked once at a time, and what came of it stays until it is asked again or is gone.
func TestRejoins(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a")
	begin := func(token string) error {
		return r.BeginRejoin(t.Context(), rejoin(token), store.Event{At: start, Kind: "instance.rejoining"})
	}
	wantError(t, "what is not there", begin("t0"), store.ErrConflict)
	view(t, r, "a", instance("1", "running", 1), instance("2", "running", 1))
	var all sync.WaitGroup
	var begun atomic.Int32
	for i := range 10 {
		all.Go(func() {
			if begin(fmt.Sprint("t-", i)) == nil {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	wantSame(t, "begun by ten at once", begun.Load(), 1)
	x := newest(t, r)
	want := rejoin(x.Token)
	wantSame(t, "it", x, want)
	wantError(t, "the end of another one", r.PutRejoin(t.Context(), rejoin("t-none")), store.ErrConflict)
	x.Why = "it is looked for"
	must(t, r.PutRejoin(t.Context(), x))
	x.State, x.NodeID, x.Why, x.EndedAt = "failed", "n-2", "w", ptr(after(time.Hour))
	must(t, r.PutRejoin(t.Context(), x, store.Event{At: start, Kind: "instance.not_rejoined"}))
	got := newest(t, r)
	if !got.EndedAt.Equal(*x.EndedAt) {
		t.Errorf("it ended at %v", got.EndedAt)
	}
	got.EndedAt = x.EndedAt
	wantSame(t, "one that has ended", got, x)
	wantError(t, "its end again", r.PutRejoin(t.Context(), x), store.ErrConflict)

	l := lease("a", "1", "")
	l.State = "draining"
	must(t, r.PutLease(t.Context(), l))
	wantError(t, "one whose lease is over", begin("t2"), store.ErrConflict)
	l.State, l.Version = "live", 1
	must(t, r.PutLease(t.Context(), l))
	must(t, begin("t2"))
	must(t, r.Restored(t.Context(), after(time.Hour)))
	if got := newest(t, r); got.State != "failed" || got.Why == "" || got.EndedAt == nil {
		t.Errorf("after a restore: %+v", got)
	}
	must(t, begin("t3"))
	for range 2 {
		view(t, r, "a", instance("2", "running", 1))
	}
	must(t, r.Gone(t.Context(), "a", "1", start))
	n, err := r.DropGone(t.Context(), after(time.Hour), 5)
	must(t, err)
	left, err := r.Rejoins(t.Context(), "a", "")
	must(t, err)
	wantSame(t, "dropped and left", []int{n, len(left)}, []int{1, 0})
	events, err := s.Events(t.Context(), store.EventQuery{Kind: "instance.rejoining"})
	must(t, err)
	wantSame(t, "events", len(events), 3)
}

// TestForgetAccount: an account whose company cannot be asked goes with all that has not ended, and each end is an event. Nothing of it
// counts any more, and nothing is destroyed for it should the account come back.
func TestForgetAccount(t *testing.T) {
	t.Parallel()
	r, s := open(t, "a", "b")
	must(t, s.SetSecret(t.Context(), provider.SecretName("a"), []byte("key")))
	request(t, r, "q", "a", "platform", 3)
	for i, id := range []string{"r1", "r2", "r3"} {
		must(t, r.Intend(t.Context(), rental(id, i, 5)))
	}
	must(t, created(t, r, "r1", "1"))
	must(t, change(t, r, "r1", func(x *provider.Rental) { x.State, x.AskedAt = "ready", &start }))
	must(t, created(t, r, "r2", "2"))
	must(t, change(t, r, "r2", func(x *provider.Rental) { x.AskedAt = &start }))
	must(t, change(t, r, "r3", func(x *provider.Rental) { x.AskedAt = &start }))
	view(t, r, "a", instance("1", "running", 5), instance("2", "starting", 5), instance("9", "running", 5))
	must(t, r.BeginRejoin(t.Context(), rejoin("t")))
	must(t, r.PutLease(t.Context(), lease("b", "1", "")))

	const why = "given up: account removed"
	forget := func(name string, noKey bool) error {
		return r.ForgetAccount(t.Context(), name, why, after(time.Hour), noKey, store.Event{At: start, Kind: "provider.removed"})
	}
	wantError(t, "no account", forget("c", true), store.ErrNotFound)
	wantError(t, "one that works", forget("a", false), store.ErrConflict)
	must(t, r.Failed(t.Context(), "a", start, "HTTP 401"))
	must(t, forget("a", false))
	wantError(t, "again", forget("a", false), store.ErrNotFound)
	must(t, forget("b", true))

	leases, err := r.Leases(t.Context(), provider.LeaseQuery{Ended: true})
	must(t, err)
	wantSame(t, "leases", len(leases), 3)
	for _, l := range leases {
		wantSame(t, "the end of the lease of "+l.Instance, []any{l.State, l.Act, l.Why, l.EndedAt.Equal(after(time.Hour))},
			[]any{"ended", "keep", why, true})
	}
	for id, want := range map[string]string{"r1": "ended true", "r2": "failed true", "r3": "failed false"} {
		x := stored(t, r, id)
		wantSame(t, id, []any{fmt.Sprint(x.State, " ", x.AskedAt != nil), x.Why, x.EndedAt.Equal(after(time.Hour))}, []any{want, why, true})
	}
	requests, err := r.Requests(t.Context(), provider.RequestQuery{})
	must(t, err)
	wantSame(t, "the request", []string{requests[0].State, requests[0].Why}, []string{"failed", why})
	wantSame(t, "what counts", spent(t, r, provider.OfTenant, "platform"), [2]int64{-1, -1})
	rejoins, err := r.Rejoins(t.Context(), "a", "")
	must(t, err)
	accounts, err := r.Accounts(t.Context())
	must(t, err)
	wantSame(t, "left", []int{len(rejoins), len(accounts)}, []int{0, 0})
	_, err = s.Secret(t.Context(), provider.SecretName("a"))
	wantError(t, "the key", err, store.ErrNotFound)
	for kind, want := range map[string]int{"lease.ended": 3, "rental.ended": 1, "rental.failed": 2, "provider.removed": 2} {
		events, err := s.Events(t.Context(), store.EventQuery{Kind: kind})
		must(t, err)
		wantSame(t, kind, len(events), want)
		for _, e := range events {
			if kind != "provider.removed" && (e.Detail["why"] != why || e.Detail["provider"] == "" || e.Tenant != "platform") {
				t.Errorf("%s is %+v", kind, e)
			}
		}
	}
}
