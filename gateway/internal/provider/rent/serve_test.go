package rent

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/label"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// TestServe: what an allocation waits for is rented once, follows its end, and is given back with it. Of a plan nothing is rented.
func TestServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	q := providers.Renting{ID: wire.NewTaskID(), Tenant: "platform", GPU: "H100", GPUs: 1, Count: 2, MaxPrice: new(2.0),
		TTLSeconds: 3600}
	plan := q
	plan.Plan = true
	const says = "2 machines with 1 x H100, rented from acme for $"
	if why, err := w.Serve(t.Context(), "ada", plan); err != nil || !strings.HasPrefix(why, says) || !strings.HasSuffix(why, " an hour") {
		t.Errorf("a plan: %q, %v", why, err)
	}
	w.must(w.records.SetTenantLimit(t.Context(), "platform", new(int64(1)), start, "ada"))
	_, err := w.Serve(t.Context(), "ada", plan)
	w.refused("a plan above the limit", wire.CodeOverQuota, err)
	w.must(w.records.SetTenantLimit(t.Context(), "platform", nil, start, "ada"))
	if all, err := w.records.Requests(t.Context(), rentals.RequestQuery{ID: q.ID}); err != nil || len(all) > 0 {
		t.Errorf("of a plan there is on record: %+v, %v", all, err)
	}
	for range 3 {
		if why, err := w.Serve(t.Context(), "ada", q); err != nil || why != "0 of 2 machines are rented and ready" {
			t.Errorf("got %q, %v", why, err)
		}
	}
	w.pass(5 * time.Minute)
	w.wantState("after five minutes", q.ID, providers.RentedDone, 2)
	if why, err := w.Serve(t.Context(), "ada", q); err != nil || !strings.Contains(why, "are rented") {
		t.Errorf("got %q, %v", why, err)
	}
	if got := w.nodes["n-1001"].Labels[label.RentedFor]; got != q.ID {
		t.Errorf("the label is %q", got)
	}
	w.mu.Lock()
	w.ends[q.ID] = w.now.Add(3 * time.Hour)
	ends := w.ends[q.ID]
	w.mu.Unlock()
	w.pass(time.Minute)
	if l, err := w.records.Lease(t.Context(), "acme", "1001"); err != nil || !l.EndsAt.Equal(ends.Add(afterAllocation)) {
		t.Errorf("the lease ends at %s, want %s (%v)", l.EndsAt, ends, err)
	}
	w.mu.Lock()
	w.over[q.ID] = true
	w.mu.Unlock()
	w.pass(10 * time.Minute)
	w.wantState("after the allocation", q.ID, providers.RentedDone, 0)
}

// TestServeOver: an allocation that ends while its machines are rented leaves none behind.
func TestServeOver(t *testing.T) {
	t.Parallel()
	for _, ticks := range []time.Duration{0, 1, 2, 3} {
		w := newWorld(t, cloud.Vast)
		w.company.next = []string{lost}
		q := providers.Renting{ID: wire.NewTaskID(), Tenant: "platform", GPU: "H100", Count: 2, MaxPrice: new(2.0), TTLSeconds: 3600}
		_, err := w.Serve(t.Context(), "ada", q)
		w.must(err)
		w.pass(ticks * tick)
		w.mu.Lock()
		w.over[q.ID] = true
		w.mu.Unlock()
		w.pass(10 * time.Minute)
		w.wantState("after the allocation", q.ID, providers.RentedFailed, 0)
		_, err = w.Serve(t.Context(), "ada", q)
		w.refused("a request that failed", wire.CodeNoCapacity, err)
	}
}

// TestServeRefusals: an allocation is told why nothing is rented for it.
func TestServeRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	good := providers.Renting{ID: wire.NewTaskID(), Tenant: "platform", GPU: "H100", MaxPrice: new(2.0), TTLSeconds: 3600}
	for what, c := range map[string]struct {
		code   string
		change func(*providers.Renting)
	}{
		"no account": {wire.CodeNoCapacity, func(q *providers.Renting) { q.Tenant = "other" }},
		"no offer":   {wire.CodeNoCapacity, func(q *providers.Renting) { q.GPU = "B300" }},
		"no price":   {wire.CodeBadRequest, func(q *providers.Renting) { q.MaxPrice = nil }},
	} {
		q := good
		c.change(&q)
		_, err := w.Serve(t.Context(), "ada", q)
		w.refused(what, c.code, err)
	}
	w.must(w.CanServe(t.Context(), "platform"))
	w.refused("a tenant without an account", wire.CodeNoCapacity, w.CanServe(t.Context(), "other"))
	r := w.rent(want(1))
	good.ID = r.ID
	_, err := w.Serve(t.Context(), "ada", good)
	w.refused("an id that is taken", wire.CodeAlreadyThere, err)
}
