package provider_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

// TestLease: all of a lease is stored and changed, by one caller at a time.
func TestLease(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	l := provider.Lease{Account: "a", Instance: "1", Tenant: "platform", Owner: "account:ada", State: "live", Act: "stop", NodeID: "n-1",
		Rental: "r", EndsAt: after(time.Hour), CreatedAt: start, Idle: ptr(90 * time.Second)}
	same := func(what string) {
		t.Helper()
		l.Version++
		got, err := r.Lease(t.Context(), "a", "1")
		must(t, err)
		show := func(l provider.Lease) string {
			return fmt.Sprint(l.Account, l.Instance, l.Tenant, l.Owner, l.State, l.Act, l.Why, l.NodeID, l.Rental, l.EndsAt, l.CreatedAt,
				show(l.Idle), l.Tries, show(l.TryAt), show(l.EndedAt), show(l.DrainedAt), show(l.AskedAt), l.Drained, l.Warned, l.Version)
		}
		wantSame(t, what, show(got), show(l))
	}
	must(t, r.PutLease(t.Context(), l, store.Event{At: start, Kind: "lease.set"}))
	same("a new lease")
	again := l
	again.Version = 0
	wantError(t, "a second new one", r.PutLease(t.Context(), again), store.ErrConflict)

	l.Tenant, l.Owner, l.State, l.Act, l.Why, l.NodeID, l.Rental = "t", "o", "ending", "destroy", "w", "n-2", "r2"
	l.Idle, l.Tries, l.TryAt, l.EndedAt = nil, 3, ptr(after(2*time.Hour)), ptr(after(3*time.Hour))
	l.EndsAt, l.DrainedAt, l.AskedAt, l.Drained, l.Warned = after(time.Second), ptr(after(4*time.Hour)), ptr(after(5*time.Hour)), true, true
	must(t, r.PutLease(t.Context(), l))
	same("a changed one")
	again = l
	again.Version--
	wantError(t, "one that was read before", r.PutLease(t.Context(), again), store.ErrConflict)
	_, err := r.Lease(t.Context(), "a", "2")
	wantError(t, "of another instance", err, store.ErrNotFound)
}

// show is a value that may be missing.
func show[T any](v *T) string {
	if v == nil {
		return "none"
	}
	return fmt.Sprint(*v)
}

// TestLeases: queries select, and ended ones go after their time.
func TestLeases(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a", "b")
	for i, account := range []string{"a", "a", "b", "b"} {
		l := lease(account, fmt.Sprint(i), "")
		if i == 0 {
			l.EndedAt = &start
		}
		if i%2 == 1 {
			l.Tenant, l.State, l.EndedAt = "other", "ended", ptr(after(time.Duration(i)*time.Hour))
		}
		must(t, r.PutLease(t.Context(), l))
	}
	selected := func(q provider.LeaseQuery) (text string) {
		list, err := r.Leases(t.Context(), q)
		must(t, err)
		for _, l := range list {
			text += l.Instance
		}
		return text
	}
	for want, q := range map[string]provider.LeaseQuery{
		"02": {}, "0123": {Ended: true}, "0": {Account: "a"}, "": {Tenant: "other"}, "13": {Tenant: "other", Ended: true},
		"3": {Account: "b", Tenant: "other", Ended: true},
	} {
		wantSame(t, fmt.Sprintf("%+v", q), selected(q), want)
	}
	for _, want := range []int{1, 0} {
		if n, err := r.DropLeases(t.Context(), after(3*time.Hour), 5); err != nil || n != want {
			t.Errorf("%d went, %v: want %d", n, err, want)
		}
	}
	wantSame(t, "left", selected(provider.LeaseQuery{Ended: true}), "023")
	view(t, r, "b", instance("3", "running", 1))
	n, err := r.DropLeases(t.Context(), after(4*time.Hour), 5)
	must(t, err)
	wantSame(t, "dropped of what is there", n, 0)
	view(t, r, "b")
	view(t, r, "b")
	must(t, r.Gone(t.Context(), "b", "3", start))
	n, err = r.DropLeases(t.Context(), after(4*time.Hour), 5)
	must(t, err)
	wantSame(t, "dropped of what is gone", n, 1)
}
