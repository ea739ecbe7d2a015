package rent

import (
	"testing"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
)

// TestForgotten: what was rented of an account that went because its key was dead is given up on record, and is left alone should the
// account come back: the machine that was in use, the one that was coming up, and the one whose order was not answered.
func TestForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	first := w.rent(want(1))
	w.pass(10 * time.Minute)
	w.wantState("before", first.ID, providers.RentedDone, 1)
	w.company.set(func() { w.company.next, w.company.lag = []string{"", lost}, 30*time.Minute })
	second := w.rent(want(2))
	w.pass(tick)
	operator := store.Actor{Name: "operator"}
	w.company.set(func() {
		w.company.fails["list"] = &cloud.Error{Kind: cloud.KeyRefused, Status: 401, Text: "Invalid user key"}
	})
	w.must(w.market.Forget(t.Context(), "acme", operator))
	w.pass(time.Hour)
	for id, state := range map[string]string{first.ID: providers.RentedDone, second.ID: providers.RentedFailed} {
		got := w.wantState("when it is forgotten", id, state, 3)
		for _, m := range got.Machines {
			if m.Why != "given up: account removed" || m.EndedAt == nil {
				t.Errorf("%+v", m)
			}
		}
	}
	w.company.set(func() { delete(w.company.fails, "list"); w.company.lag = 0 })
	_, err := w.market.Add(t.Context(), providers.Request{Kind: cloud.Vast, Name: "acme", Tenant: "platform", Key: "new"}, operator)
	w.must(err)
	w.restart()
	w.pass(4 * time.Hour)
	w.step(100 * 24 * time.Hour) // records of before are dropped
	w.pass(4 * time.Hour)
	if there := w.company.there(); len(there) != 3 || len(w.company.ended) != 0 {
		t.Errorf("%d machines are there, and %v were to end", len(there), w.company.ended)
	}
}

// TestKept: a machine whose lease was ended so that it is kept is kept, however long ago that was.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	r := w.rent(want(1))
	w.pass(10 * time.Minute)
	_, err := w.config.Leases.SetLease(t.Context(), "", providers.LeaseRequest{Provider: "acme", Instance: "1001", Act: providers.ActKeep,
		End: true}, ada, maySpend)
	w.must(err)
	w.pass(time.Hour)
	w.step(91 * 24 * time.Hour)
	w.pass(4 * time.Hour)
	if len(w.company.there()) != 1 || len(w.company.ended) != 0 {
		t.Errorf("the machine of %s is to end: %v", r.ID, w.company.ended)
	}
}
