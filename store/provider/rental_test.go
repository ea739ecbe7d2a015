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
	"muster/store/storetest"
)

// TestRace: of many who rent at once, as many as the limit allows do, to the cent.
func TestRace(t *testing.T) {
	t.Parallel()
	for _, of := range []string{provider.OfAccount, provider.OfTenant} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			r, _ := open(t, "a")
			request(t, r, "q", "a", "platform", 50)
			const price, fits = 1_990_000, 7
			if of == provider.OfAccount {
				must(t, r.SetLimit(t.Context(), "a", ptr(int64(fits*price)), start, "account:ops"))
			} else {
				must(t, r.SetTenantLimit(t.Context(), "platform", ptr(int64(fits*price)), start, "account:ops"))
			}
			var all sync.WaitGroup
			var intended, refused atomic.Int32
			for i := range 50 {
				all.Go(func() {
					switch err := r.Intend(t.Context(), rental(fmt.Sprint("r-", i), i, price)); {
					case err == nil:
						intended.Add(1)
					case errors.Is(err, provider.ErrLimit):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			list, err := r.Rentals(t.Context(), provider.RentalQuery{Live: true})
			must(t, err)
			wantSame(t, "intended, refused, stored", []int{int(intended.Load()), int(refused.Load()), len(list)}, []int{fits, 50 - fits, fits})
			wantSame(t, "spent", spent(t, r, of, map[string]string{"account": "a", "tenant": "platform"}[of]), [2]int64{fits * price, 0})
		})
	}
}

// TestLimitToTheCent: what fits is intended, and a millionth of a dollar more is not.
func TestLimitToTheCent(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	request(t, r, "q", "a", "platform", 9)
	view(t, r, "a", instance("1", "running", 2_500_000))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(5_000_000)), start, "account:ops"))
	must(t, r.SetTenantLimit(t.Context(), "platform", ptr(int64(4_000_000)), start, "account:ops"))
	refused := func(x provider.Rental, words ...string) {
		t.Helper()
		err := r.Intend(t.Context(), x, store.Event{At: start, Kind: "rental.intended"})
		wantError(t, x.ID, err, provider.ErrLimit)
		for _, word := range words {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", x.ID, err, word)
			}
		}
	}
	refused(rental("r1", 1, 1_500_001), "tenant platform may cost $4 an hour", "costs $2.50, ", "$1.500001")
	must(t, r.Intend(t.Context(), rental("r1", 1, 1_500_000)))
	must(t, r.SetTenantLimit(t.Context(), "platform", nil, start, "account:ops"))
	refused(rental("r2", 2, 1_000_001), "account a may cost $5 an hour", "costs $4", "$1.000001")
	must(t, r.Intend(t.Context(), rental("r2", 2, 1_000_000)))
	refused(rental("r3", 3, 1))
	must(t, change(t, r, "r2", func(x *provider.Rental) { x.State = "failed" }))
	must(t, r.Intend(t.Context(), rental("r3", 3, 1)))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(0)), start, "account:ops"))
	refused(rental("r4", 4, 1), "may cost $0 an hour")
}

// TestLimitUnknown: where there is a limit, what is not known allows nothing.
func TestLimitUnknown(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "b")
	must(t, r.AddAccount(t.Context(), account("a")))
	request(t, r, "q", "a", "platform", 9)
	must(t, r.Intend(t.Context(), rental("r1", 1, 1)))
	much := ptr(int64(1_000_000_000))
	must(t, r.SetLimit(t.Context(), "b", much, start, "account:ops"))
	must(t, r.SetTenantLimit(t.Context(), "other", much, start, "account:ops"))
	must(t, r.Intend(t.Context(), rental("r2", 2, 1)))

	must(t, r.SetTenantLimit(t.Context(), "platform", much, start, "account:ops"))
	never := func() {
		t.Helper()
		err := r.Intend(t.Context(), rental("r3", 3, 1))
		wantError(t, "an account that was never seen", err, provider.ErrLimit)
		if err != nil && !strings.Contains(err.Error(), "account a is not known yet") {
			t.Error(err)
		}
	}
	never()
	must(t, r.SetTenantLimit(t.Context(), "platform", nil, start, "account:ops"))
	must(t, r.SetLimit(t.Context(), "a", much, start, "account:ops"))
	never()
	view(t, r, "a")
	must(t, r.Intend(t.Context(), rental("r3", 3, 1)))

	unpriced := instance("1", "running", 0)
	unpriced.Running = nil
	view(t, r, "a", unpriced)
	err := r.Intend(t.Context(), rental("r4", 4, 1))
	wantError(t, "a machine without a price", err, provider.ErrLimit)
	if err != nil && !strings.Contains(err.Error(), "the price of 1 of its machines is not known") {
		t.Error(err)
	}
	must(t, r.SetLimit(t.Context(), "a", nil, start, "account:ops"))
	must(t, r.Intend(t.Context(), rental("r4", 4, 1)))
}

// TestIntendConflicts: a rental is made once, for a request that wants it.
func TestIntendConflicts(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a", "b")
	request(t, r, "q", "a", "platform", 2)
	request(t, r, "over", "a", "platform", 2)
	must(t, r.EndRequest(t.Context(), "over", "done", "", start))
	must(t, r.Intend(t.Context(), rental("r1", 1, 5)))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(5)), start, "account:ops"))
	with := func(set func(*provider.Rental)) error {
		x := rental("r2", 2, 5)
		set(&x)
		return r.Intend(t.Context(), x)
	}
	for what, set := range map[string]func(*provider.Rental){
		"id":           func(x *provider.Rental) { x.ID = "r1" },
		"place":        func(x *provider.Rental) { x.Number = 1 },
		"over":         func(x *provider.Rental) { x.Request = "over" },
		"no request":   func(x *provider.Rental) { x.Request = "none" },
		"other tenant": func(x *provider.Rental) { x.Tenant = "other" },
		"account":      func(x *provider.Rental) { x.Account = "b" },
	} {
		wantError(t, what, with(set), store.ErrConflict)
	}
	if err := with(func(x *provider.Rental) { x.Price = 0 }); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("without a price: %v", err)
	}
	must(t, r.SetLimit(t.Context(), "a", nil, start, "account:ops"))
	must(t, with(func(*provider.Rental) {}))
	wantError(t, "a third", r.Intend(t.Context(), rental("r3", 3, 5)), store.ErrConflict)
	must(t, change(t, r, "r1", func(x *provider.Rental) { x.State = "failed" }))
	must(t, r.Intend(t.Context(), rental("r3", 1, 5)))
}

// TestPutRental: what may change is stored, by one caller at a time.
func TestPutRental(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	request(t, r, "q", "a", "platform", 2)
	x := rental("r", 1, 5)
	x.Why, x.AskedAt, x.State = "it is asked for", ptr(after(time.Second)), "ready"
	must(t, r.Intend(t.Context(), x))
	text := func(x provider.Rental) string {
		return fmt.Sprint(x.ID, x.Request, x.Number, x.Account, x.Tenant, x.State, x.OfferJSON, x.Host, x.Instance, x.Token, x.NodeID, x.Why,
			x.Price, x.CreatedAt, show(x.AskedAt), show(x.BootedAt), show(x.ReadyAt), show(x.EndedAt), x.Version)
	}
	x.State, x.Version = "intended", 1
	wantSame(t, "intended", text(stored(t, r, "r")), text(x))

	x.State, x.OfferJSON, x.Host, x.Instance, x.Token, x.NodeID, x.Why = "checking", "[]", "h2", "1", "t2", "n", ""
	x.AskedAt, x.BootedAt, x.ReadyAt, x.EndedAt = nil, ptr(after(time.Second)), ptr(after(time.Hour)), ptr(after(time.Minute))
	must(t, r.PutRental(t.Context(), x))
	wantError(t, "the same again", r.PutRental(t.Context(), x), store.ErrConflict)
	x.Version++
	wantSame(t, "changed", text(stored(t, r, "r")), text(x))

	must(t, change(t, r, "r", func(x *provider.Rental) {
		x.Price, x.Tenant, x.Account, x.Request, x.Number, x.CreatedAt = 1, "other", "b", "q2", 7, after(time.Hour)
	}))
	x.Version++
	wantSame(t, "what it is of", text(stored(t, r, "r")), text(x))

	must(t, r.Intend(t.Context(), rental("r2", 2, 5)))
	taken := change(t, r, "r2", func(x *provider.Rental) { x.Instance = "1" })
	wantError(t, "an instance of another", taken, store.ErrConflict)
	must(t, change(t, r, "r", func(x *provider.Rental) { x.State = "failed" }))
	must(t, change(t, r, "r", func(x *provider.Rental) { x.State = "ended" }))
	for _, state := range []string{"intended", "booting", "checking", "ready"} {
		wantError(t, "back to "+state, change(t, r, "r", func(x *provider.Rental) { x.State = state }), store.ErrConflict)
	}
}

// TestCreated: a rental gets its instance and its lease together, or neither.
func TestCreated(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	request(t, r, "q", "a", "platform", 9)
	for i := range 5 {
		must(t, r.Intend(t.Context(), rental(fmt.Sprint("r", i), i, 5)))
	}
	must(t, created(t, r, "r0", "10"))
	x, l := stored(t, r, "r0"), func(instance string) provider.Lease {
		l, err := r.Lease(t.Context(), "a", instance)
		must(t, err)
		return l
	}
	wantSame(t, "created", []any{x.State, x.Instance, x.Version, l("10").Rental, l("10").Version}, []any{"booting", "10", 2, "r0", 1})
	old := stored(t, r, "r1")
	must(t, change(t, r, "r1", func(x *provider.Rental) { x.Why = "it waits" }))
	old.Instance = "11"
	wantError(t, "one that was read before", r.Created(t.Context(), old, lease("a", "11", "r1")), store.ErrConflict)
	_, err := r.Lease(t.Context(), "a", "11")
	wantError(t, "its lease", err, store.ErrNotFound)

	person := lease("a", "12", "")
	person.EndsAt = after(7 * time.Hour)
	must(t, r.PutLease(t.Context(), person))
	must(t, created(t, r, "r2", "12"))
	wantSame(t, "a person's lease", []any{l("12").Rental, l("12").Version, l("12").EndsAt}, []any{"r2", 2, person.EndsAt})

	must(t, r.PutLease(t.Context(), lease("a", "13", "somebody's")))
	wantError(t, "another rental's lease", created(t, r, "r3", "13"), store.ErrConflict)
	over := lease("a", "14", "")
	over.State = "ended"
	must(t, r.PutLease(t.Context(), over))
	wantError(t, "a lease that has ended", created(t, r, "r4", "14"), store.ErrConflict)
	wantSame(t, "without an instance", []any{stored(t, r, "r3").Instance, stored(t, r, "r4").Version}, []any{"", 1})

	for want, q := range map[string]provider.RentalQuery{
		"r0":             {Instance: "10", Account: "a"},
		"r1":             {ID: "r1", Request: "q"},
		"r0 r1 r2 r3 r4": {Request: "q", Live: true},
		"":               {Account: "b"},
	} {
		list, err := r.Rentals(t.Context(), q)
		must(t, err)
		var ids []string
		for _, x := range list {
			ids = append(ids, x.ID)
		}
		wantSame(t, fmt.Sprintf("%+v", q), strings.Join(ids, " "), want)
	}
}

// TestAnswersLost: where the answer to each write is lost, each is done once.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	r := provider.New(storetest.OpenLost(t, func() time.Time { return start }).Records())
	must(t, r.AddAccount(t.Context(), account("a")))
	must(t, r.SetLimit(t.Context(), "a", ptr(int64(10)), start, "account:ops"))
	view(t, r, "a")
	request(t, r, "q", "a", "platform", 2)
	must(t, r.Intend(t.Context(), rental("r1", 1, 5)))
	wantError(t, "too much", r.Intend(t.Context(), rental("r2", 2, 6)), provider.ErrLimit)
	wantError(t, "the same again", r.Intend(t.Context(), rental("r1", 1, 5)), store.ErrConflict)
	must(t, created(t, r, "r1", "1"))
	must(t, change(t, r, "r1", func(x *provider.Rental) { x.State = "ready" }))
	wantSame(t, "writes", stored(t, r, "r1").Version, 3)
	view(t, r, "a", instance("2", "running", 1))
	view(t, r, "a")
	wantSame(t, "missing once", shown(t, r), `2 platform running 1 {"ID":"2"} 0s-0s 1`)
	wantSame(t, "missing", view(t, r, "a"), "[2]")
}

// BenchmarkIntend is one rental under both limits, beside 5,000 machines and 500 rentals of the account.
func BenchmarkIntend(b *testing.B) {
	r, _ := open(b, "a")
	request(b, r, "q", "a", "platform", 1<<40)
	for i := range 500 {
		must(b, r.Intend(b.Context(), rental(fmt.Sprint("old-", i), i, 5)))
	}
	view(b, r, "a", large()...)
	must(b, r.SetLimit(b.Context(), "a", ptr(int64(1)<<60), start, "account:ops"))
	must(b, r.SetTenantLimit(b.Context(), "platform", ptr(int64(1)<<60), start, "account:ops"))
	for i := 1000; b.Loop(); i++ {
		must(b, r.Intend(b.Context(), rental(fmt.Sprint("r-", i), i, 5)))
	}
}
