package provider_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/store"
	"muster/store/provider"
)

// TestLimits: they are set, read and removed, and what is spent stands beside them.
func TestLimits(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a", "b")
	must(t, r.SetLimit(t.Context(), "b", ptr(int64(7)), start, "account:ops", store.Event{At: start, Kind: "spending.limited"}))
	must(t, r.SetLimit(t.Context(), "b", ptr(int64(8)), after(time.Hour), "account:ada"))
	must(t, r.SetTenantLimit(t.Context(), "t", ptr(int64(9)), start, "account:ops"))
	must(t, r.SetTenantLimit(t.Context(), "u", ptr(int64(9)), start, "account:ops"))
	must(t, r.SetTenantLimit(t.Context(), "u", nil, start, "account:ops"))
	list, err := r.Limits(t.Context())
	must(t, err)
	var text []string
	for _, l := range list {
		text = append(text, fmt.Sprint(l.Of, " ", l.Name, " ", *l.PerHour, " ", l.SetAt.Sub(start), " ", l.SetBy))
	}
	wantSame(t, "limits", strings.Join(text, "; "), "account b 8 1h0m0s account:ada; tenant t 9 0s account:ops")

	view(t, r, "a", instance("1", "running", 3), instance("2", "stopped", 5))
	all, err := r.Spent(t.Context())
	must(t, err)
	text = nil
	for _, s := range all {
		text = append(text, fmt.Sprint(s.Of, " ", s.Name, " ", s.PerHour, " ", s.Unpriced, " ", show(s.Limit)))
	}
	wantSame(t, "spent", strings.Join(text, "; "), "account a 3 0 none; account b 0 0 8; tenant platform 3 0 none; tenant t 0 0 9")
	must(t, r.SetLimit(t.Context(), "b", nil, start, "account:ops"))
	list, err = r.Limits(t.Context())
	must(t, err)
	wantSame(t, "limits left", len(list), 1)
}

// TestWhatCounts: each machine counts once, with the price that is known of it.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	seen := func(state string, price, running *int64) provider.Instance {
		return provider.Instance{ID: "1", Name: "x", State: state, Price: price, Running: running, Body: "{}"}
	}
	named := func(i provider.Instance) provider.Instance {
		i.Name = provider.NamePrefix + "r"
		return i
	}
	disk := func(i provider.Instance) provider.Instance {
		i.Storage = ptr(int64(1))
		return i
	}
	two, three := ptr(int64(2)), ptr(int64(3))
	const rents = 100
	for _, c := range []struct {
		what  string
		view  []provider.Instance
		rent  string // "", or the state of a rental; with an instance unless it is intended
		lease string // its state, "": none
		want  [2]int64
	}{
		{what: "nothing"},
		{what: "one that runs, by its running price", view: []provider.Instance{seen("running", two, three)}, want: [2]int64{3, 0}},
		{what: "by what is charged", view: []provider.Instance{seen("running", two, nil)}, want: [2]int64{2, 0}},
		{what: "one that starts", view: []provider.Instance{seen("starting", two, nil)}, want: [2]int64{2, 0}},
		{what: "broken", view: []provider.Instance{seen("broken", nil, three)}, want: [2]int64{3, 0}},
		{what: "unknown", view: []provider.Instance{seen("unknown", nil, nil)}, want: [2]int64{0, 1}},
		{what: "a word of later", view: []provider.Instance{seen("paused", nil, nil)}, want: [2]int64{0, 1}},
		{what: "stopped", view: []provider.Instance{seen("stopped", two, three)}, want: [2]int64{2, 0}},
		{what: "stopped, by its disk", view: []provider.Instance{disk(seen("stopped", nil, three))}, want: [2]int64{1, 0}},
		{what: "stopped, without a price", view: []provider.Instance{seen("stopped", nil, three)}, want: [2]int64{0, 1}},
		{what: "ending, by what is charged still", view: []provider.Instance{seen("ending", two, three)}, want: [2]int64{2, 0}},
		{what: "ending, by its running price", view: []provider.Instance{seen("ending", nil, three)}, want: [2]int64{3, 0}},
		{what: "ending, without a price", view: []provider.Instance{seen("ending", nil, nil)}, want: [2]int64{0, 1}},
		{what: "an intent", rent: "intended", want: [2]int64{rents, 0}},
		{what: "an intent whose instance is seen", rent: "intended", view: []provider.Instance{named(seen("starting", nil, three))},
			want: [2]int64{3, 0}},
		{what: "an intent whose instance has no price", rent: "intended", view: []provider.Instance{named(seen("running", nil, nil))},
			want: [2]int64{rents, 0}},
		{what: "an intent whose failed instance ends", rent: "intended", view: []provider.Instance{named(seen("ending", nil, two))},
			want: [2]int64{rents + 2, 0}},
		{what: "one that no view shows yet", rent: "booting", lease: "live", want: [2]int64{rents, 0}},
		{what: "one that no view shows yet, beside one that was made before", rent: "booting", lease: "live",
			view: []provider.Instance{{ID: "2", Name: provider.NamePrefix + "r", State: "running", Running: three}}, want: [2]int64{rents + 3, 0}},
		{what: "one that is seen", rent: "ready", lease: "live", view: []provider.Instance{seen("running", nil, three)}, want: [2]int64{3, 0}},
		{what: "one that starts, and is charged for its disk", rent: "booting", lease: "live",
			view: []provider.Instance{seen("starting", two, nil)}, want: [2]int64{rents, 0}},
		{what: "one without a price", rent: "ready", lease: "live", view: []provider.Instance{seen("running", nil, nil)},
			want: [2]int64{rents, 0}},
		{what: "one that is stopped", rent: "ready", lease: "live", view: []provider.Instance{seen("stopped", two, nil)},
			want: [2]int64{2, 0}},
		{what: "failed, and not destroyed", rent: "failed", lease: "draining", want: [2]int64{rents, 0}},
		{what: "failed, seen, and not destroyed", rent: "failed", lease: "ending", view: []provider.Instance{seen("running", nil, three)},
			want: [2]int64{3, 0}},
		{what: "failed and destroyed", rent: "failed", lease: "ended"},
		{what: "ended and destroyed", rent: "ended", lease: "ended"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			r, _ := open(t, "a", "b")
			request(t, r, "q", "a", "platform", 1)
			if c.rent != "" {
				must(t, r.Intend(t.Context(), rental("r", 1, rents)))
			}
			if c.lease != "" {
				must(t, created(t, r, "r", "1"))
				must(t, change(t, r, "r", func(x *provider.Rental) { x.State = c.rent }))
				l, err := r.Lease(t.Context(), "a", "1")
				must(t, err)
				l.State = c.lease
				must(t, r.PutLease(t.Context(), l))
			}
			view(t, r, "a", c.view...)
			wantSame(t, "of the account", spent(t, r, provider.OfAccount, "a"), c.want)
			wantSame(t, "of the other account", spent(t, r, provider.OfAccount, "b"), [2]int64{})
			if c.want != [2]int64{} {
				wantSame(t, "of the tenant", spent(t, r, provider.OfTenant, "platform"), c.want)
			}
			view(t, r, "a")
			view(t, r, "a")
			wantSame(t, "while views miss it", spent(t, r, provider.OfAccount, "a"), c.want)
			if len(c.view) > 0 && c.view[0].ID == "1" && c.rent != "intended" {
				must(t, r.Gone(t.Context(), "a", "1", start))
				wantSame(t, "when it is gone", spent(t, r, provider.OfAccount, "a"), [2]int64{})
			}
		})
	}
}

// TestTenantOfRental: what is rented for a tenant counts for it, and not for that of the account.
func TestTenantOfRental(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a")
	request(t, r, "q", "a", "research", 2)
	for i, id := range []string{"r1", "r2"} {
		x := rental(id, i, 10)
		x.Tenant = "research"
		must(t, r.Intend(t.Context(), x))
	}
	one, two := instance("1", "running", 10), instance("2", "running", 10)
	one.Name = provider.NamePrefix + "r1"
	foreign := instance("3", "running", 10)
	foreign.Name = provider.NamePrefix + "r9"
	view(t, r, "a", one, two, foreign)
	wantSame(t, "by name", shown(t, r), `1 research running 10 {"ID":"1"} 0s-0s 0; 2 platform running 10 {"ID":"2"} 0s-0s 0; `+
		`3 platform running 10 {"ID":"3"} 0s-0s 0`)
	must(t, created(t, r, "r2", "2"))
	same := func(what string) {
		t.Helper()
		wantSame(t, what+" by research", spent(t, r, provider.OfTenant, "research"), [2]int64{20, 0})
		wantSame(t, what+" by platform", spent(t, r, provider.OfTenant, "platform"), [2]int64{10, 0})
	}
	same("spent when one was created")
	must(t, created(t, r, "r1", "1"))
	two.State = "broken"
	one.Name = "renamed by a person"
	view(t, r, "a", one, two, foreign)
	same("spent when both have changed")
}
