package provider_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

// TestRequests: one is stored once, ends once, and queries select.
func TestRequests(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	q := provider.Request{ID: "q1", Account: "a", Tenant: "platform", Owner: "account:ada", State: "renting", Want: `{"gpu":"H100"}`, Count: 3,
		CreatedAt: start, Allocation: "al-1"}
	must(t, r.PutRequest(t.Context(), q))
	wantError(t, "the same id", r.PutRequest(t.Context(), q), store.ErrConflict)
	request(t, r, "q2", "a", "other", 1)
	request(t, r, "q3", "a", "platform", 1)
	must(t, r.EndRequest(t.Context(), "q3", "failed", "no offer", after(time.Hour), store.Event{At: start, Kind: "rental.failed"}))
	wantError(t, "an end again", r.EndRequest(t.Context(), "q3", "done", "", start), store.ErrConflict)
	wantError(t, "an end of none", r.EndRequest(t.Context(), "q4", "done", "", start), store.ErrConflict)

	selected := func(q provider.RequestQuery) (ids []string) {
		list, err := r.Requests(t.Context(), q)
		must(t, err)
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		return ids
	}
	for _, c := range []struct {
		q    provider.RequestQuery
		want string
	}{
		{provider.RequestQuery{}, "[q3 q2 q1]"}, {provider.RequestQuery{Live: true}, "[q2 q1]"}, {provider.RequestQuery{Limit: 2}, "[q3 q2]"},
		{provider.RequestQuery{Tenant: "platform"}, "[q3 q1]"}, {provider.RequestQuery{ID: "q1", Tenant: "other"}, "[]"},
	} {
		wantSame(t, fmt.Sprintf("%+v", c.q), selected(c.q), c.want)
	}
	list, err := r.Requests(t.Context(), provider.RequestQuery{ID: "q1"})
	must(t, err)
	wantSame(t, "what is stored", list, []provider.Request{q})
	list, err = r.Requests(t.Context(), provider.RequestQuery{ID: "q3"})
	must(t, err)
	wantSame(t, "what has ended", []any{list[0].State, list[0].Why, *list[0].DoneAt}, []any{"failed", "no offer", after(time.Hour)})
}

// TestDropRequests: old ones go with their rentals, unless one of these is live, or its machine is still there.
func TestDropRequests(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	for i := range 4 {
		id := fmt.Sprint("q", i)
		request(t, r, id, "a", "platform", 1)
		x := rental("r-"+id, 1, 5)
		x.Request = id
		must(t, r.Intend(t.Context(), x))
		if i > 0 {
			must(t, change(t, r, x.ID, func(x *provider.Rental) { x.State = "ended" }))
		}
		if i < 3 {
			must(t, r.EndRequest(t.Context(), id, "done", "", after(time.Duration(i)*time.Hour)))
		}
	}
	must(t, change(t, r, "r-q1", func(x *provider.Rental) { x.Instance = "7" }))
	view(t, r, "a", instance("7", "stopped", 5))
	if n, err := r.DropRequests(t.Context(), after(2*time.Hour), 5); err != nil || n != 0 {
		t.Errorf("%d went whose machine is still there, %v", n, err)
	}
	view(t, r, "a")
	view(t, r, "a")
	must(t, r.Gone(t.Context(), "a", "7", start))
	for _, want := range []int{1, 0} {
		if n, err := r.DropRequests(t.Context(), after(2*time.Hour), 5); err != nil || n != want {
			t.Errorf("%d went, %v: want %d", n, err, want)
		}
	}
	requests, err := r.Requests(t.Context(), provider.RequestQuery{})
	must(t, err)
	rentals, err := r.Rentals(t.Context(), provider.RentalQuery{})
	must(t, err)
	var left []string
	for i := range requests {
		left = append(left, requests[i].ID, rentals[i].ID)
	}
	wantSame(t, "left", left, "[q3 r-q0 q2 r-q2 q0 r-q3]")
}
