package provider_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func wantSame(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func ptr[T any](v T) *T { return &v }

// open gives records with accounts of tenant platform, whose instances were seen: there are none.
func open(t testing.TB, accounts ...string) (provider.Records, *store.Store) {
	t.Helper()
	s := storetest.Open(t, func() time.Time { return start })
	r := provider.New(s.Records())
	for _, name := range accounts {
		must(t, r.AddAccount(t.Context(), account(name)))
		view(t, r, name)
	}
	return r, s
}

func account(name string) provider.Account {
	return provider.Account{Name: name, Kind: "vast_ai", Tenant: "platform", URL: "https://example.org", SSHKey: "key",
		CreatedBy: "account:ada", CreatedAt: start}
}

// view stores a complete view.
func view(t testing.TB, r provider.Records, account string, all ...provider.Instance) []string {
	t.Helper()
	missing, err := r.SaveView(t.Context(), account, start, all)
	must(t, err)
	return missing
}

func instance(id, state string, price int64) provider.Instance {
	return provider.Instance{ID: id, Name: "name-" + id, State: state, Running: &price, Storage: new(int64), Body: `{"ID":"` + id + `"}`}
}

// request stores one for some machines.
func request(t testing.TB, r provider.Records, id, account, tenant string, count int) {
	t.Helper()
	must(t, r.PutRequest(t.Context(), provider.Request{ID: id, Account: account, Tenant: tenant, Owner: "account:ada", Want: "{}",
		Count: count, CreatedAt: start}))
}

// rental is one of tenant platform, on account a, for the request q.
func rental(id string, number int, price int64) provider.Rental {
	return provider.Rental{ID: id, Request: "q", Number: number, Account: "a", Tenant: "platform", OfferJSON: "{}", Host: "h",
		Token: "t-" + id, Price: price, CreatedAt: start}
}

// stored is the rental on record.
func stored(t testing.TB, r provider.Records, id string) provider.Rental {
	t.Helper()
	list, err := r.Rentals(t.Context(), provider.RentalQuery{ID: id})
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("there are %d rentals %s", len(list), id)
	}
	return list[0]
}

// change writes a rental as it is on record, but for what set does.
func change(t testing.TB, r provider.Records, id string, set func(*provider.Rental)) error {
	t.Helper()
	x := stored(t, r, id)
	set(&x)
	return r.PutRental(t.Context(), x)
}

func lease(account, instance, rental string) provider.Lease {
	return provider.Lease{Account: account, Instance: instance, Tenant: "platform", Owner: "account:ada", State: "live", Act: "destroy",
		Rental: rental, EndsAt: after(time.Hour), CreatedAt: start}
}

// created gives a rental its instance and its lease.
func created(t testing.TB, r provider.Records, id, instance string) error {
	t.Helper()
	x := stored(t, r, id)
	x.State, x.Instance = "booting", instance
	return r.Created(t.Context(), x, lease(x.Account, instance, id))
}

// spent is what counts against a limit now, as money and machines whose price is not known.
func spent(t testing.TB, r provider.Records, of, name string) [2]int64 {
	t.Helper()
	all, err := r.Spent(t.Context())
	must(t, err)
	for _, s := range all {
		if s.Of == of && s.Name == name {
			return [2]int64{s.PerHour, s.Unpriced}
		}
	}
	return [2]int64{-1, -1}
}
