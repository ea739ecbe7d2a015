package rent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	rentals "muster/store/provider"
)

// TestReplaced: a machine that does not come up, does not pass or breaks is given back, its host is remembered, and another one takes its
// place. After three of them it is given up, and what failed and what it cost is said.
func TestReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.bad["host-0"], w.bad["host-1"] = "never", "fails"
	r := w.rent(want(2))
	w.pass(5 * time.Minute)
	w.wantState("while one boots", r.ID, providers.RentedRenting, 2)
	w.pass(27 * time.Minute)
	w.pass(10 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 2)
	if got.Ready != 2 || len(got.Machines) != 4 || got.Spent == nil || *got.Spent < 0.5 {
		t.Errorf("it is so: %+v", got)
	}
	anyPrice := want(2)
	anyPrice.MaxPrice = nil
	offers, err := w.Offers(t.Context(), "platform", anyPrice)
	w.must(err)
	for i, known := range []string{"bad: it did not come up within 30m0s", "bad: it did not pass acceptance: a GPU is slow",
		"1 of its machines passed"} {
		if o := offers.Offers[i]; o.Known != known || o.Chosen != (i >= 2 && i < 4) {
			t.Errorf("offer %d is %+v, want %q", i, o, known)
		}
	}
}

// TestGivenUp: no more than three machines take the place of one.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	for _, o := range w.company.offers {
		w.bad[o.Host] = "fails"
	}
	r := w.rent(want(1))
	w.pass(40 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedFailed, 0)
	if len(got.Machines) != 1+replacements || !strings.Contains(got.Why, "0 of 1 are ready; what failed has cost about $0.") ||
		*got.Spent <= 0 {
		t.Errorf("it is so: %+v", got)
	}
}

// TestWasted: what nobody has seen is not said to have cost nothing.
func TestWasted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	failed := rentals.Rental{State: providers.RentalFailed, Account: "acme", OfferJSON: "{}", CreatedAt: w.clock()}
	none, got := failed, "about $0.00"
	lost := failed
	lost.Instance = "77"
	for _, all := range [][]rentals.Rental{{none}, {none, lost}} {
		if text, err := w.wasted(t.Context(), all); err != nil || text != got {
			t.Errorf("%q %v, want %q", text, err, got)
		}
		got = "about $0.00, and of 1 it is not known"
	}
}

// TestSpent: what a machine has cost is what the meter says, and grows no more when it is gone.
func TestSpent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	r := w.rent(want(1))
	if r.Spent != nil {
		t.Errorf("before it is there it has cost %v", *r.Spent)
	}
	w.pass(15 * time.Minute)
	w.company.set(func() { clear(w.company.machines) })
	w.pass(5 * time.Minute)
	before := w.show(r.ID).Spent
	w.pass(40 * time.Minute)
	got := w.show(r.ID).Spent
	report, err := w.records.Costs(t.Context(), start.Unix()/86400, start.Unix()/86400)
	w.must(err)
	if before == nil || got == nil || *before != *got || *got < 0.2 || *got > 0.3 || len(report) != 1 ||
		cloud.Money(report[0].Billed).Dollars() != *got {
		t.Errorf("it has cost %v, and %v later; the meter says %+v", before, got, report)
	}
}

// TestNoOffers: a machine that cannot be replaced is waited for, and given up after half an hour.
func TestNoOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.company.offers = w.company.offers[:2]
	w.bad["host-0"] = "fails"
	w.company.next = []string{noOffer}
	r := w.rent(want(2))
	w.company.set(func() { w.company.offers = w.company.offers[:1] })
	w.pass(10 * time.Minute)
	waits := w.wantState("while it waits", r.ID, providers.RentedRenting, 1)
	if !strings.Contains(waits.Why, "acme offers 0 machines with H100 for at most $2.50") {
		t.Errorf("it waits for %q", waits.Why)
	}
	w.company.set(func() { w.company.fails["offers"] = &cloud.Error{Kind: cloud.Unclear, Text: "bad gateway"} })
	w.pass(25 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedFailed, 1)
	if !strings.Contains(got.Why, "1 of 2 are ready") || !strings.Contains(got.Why, "bad gateway") {
		t.Errorf("it failed because %q", got.Why)
	}
}

// TestPersonEnds: a machine whose lease a person ends before it is ready has none in its place.
func TestPersonEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	r := w.rent(want(1))
	w.pass(time.Minute)
	_, err := w.config.Leases.End(t.Context(), lease.Ending{Account: "acme", Instance: "1001", Why: "ended by ada"})
	w.must(err)
	w.pass(10 * time.Minute)
	if got := w.wantState("in the end", r.ID, providers.RentedFailed, 0); !strings.Contains(got.Why, "ended by ada") ||
		w.company.orderCount() != 1 {
		t.Errorf("it is so: %+v", got)
	}
}

// TestBroken: a machine of which the company says that it failed is not waited for.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.bad["host-0"] = "never"
	r := w.rent(want(1))
	w.pass(time.Minute)
	w.company.set(func() {
		w.company.machines["1001"].State, w.company.machines["1001"].Why = cloud.Broken, "manifest unknown"
	})
	w.pass(10 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
	if len(got.Machines) != 2 || !strings.Contains(got.Machines[0].Why, "manifest unknown") {
		t.Errorf("it is so: %+v", got)
	}
}

// TestVanishes: a machine that is gone before it is ready has another one in its place.
func TestVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.boot = 20 * time.Minute
	r := w.rent(want(1))
	w.pass(5 * time.Minute)
	w.company.set(func() { delete(w.company.machines, "1001") })
	w.pass(35 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
	if len(got.Machines) != 2 || !strings.Contains(got.Machines[0].Why, "muster did not ask for that") {
		t.Errorf("it is so: %+v", got)
	}
}

// TestAcceptance: a node that cannot be asked has half an hour; one that need not be asked has none to wait.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.fail["accept"] = errors.New("its agent is too old")
	r := w.rent(want(1))
	w.pass(34 * time.Minute)
	w.wantState("while it is asked", r.ID, providers.RentedRenting, 1)
	if got := w.show(r.ID); got.Machines[0].State != providers.RentalFailed && got.Machines[0].State != providers.RentalChecking {
		t.Errorf("it is %s", got.Machines[0].State)
	}
	w.fail = map[string]error{}
	w.pass(10 * time.Minute)
	got := w.wantState("in the end", r.ID, providers.RentedDone, 1)
	if !strings.Contains(got.Machines[0].Why, "its agent is too old") {
		t.Errorf("it is so: %+v", got)
	}
	w.fail["accept"] = errors.New("nobody asks")
	q := want(1)
	q.NoAccept = true
	if r := w.rent(q); w.company.orderCount() == 2 {
		w.pass(5 * time.Minute)
		w.wantState("without acceptance", r.ID, providers.RentedDone, 2)
	}
}
