package provider_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/provider"
)

// TestFindings: one that is open keeps its time, and one of an account that is gone is not opened.
func TestFindings(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "a", "b")
	find := func(account, instance, kind string, d time.Duration) provider.Finding {
		return provider.Finding{Account: account, Instance: instance, Kind: kind, Since: after(d)}
	}
	one, two, ofAll := find("a", "1", "billed_silent", 1), find("a", "1", "price_differs", 0), find("b", "", "provider_unknown", 0)
	one.Since = start
	must(t, r.SetFindings(t.Context(), []provider.Finding{two, one, ofAll, find("c", "1", "outbid", 0)}, nil))
	again := one
	again.Since = after(time.Hour)
	must(t, r.SetFindings(t.Context(), []provider.Finding{again}, []provider.Finding{two, find("b", "1", "provider_unknown", 0)},
		store.Event{At: start, Kind: "provider.settled"}))
	list, err := r.Findings(t.Context())
	must(t, err)
	wantSame(t, "open", list, []provider.Finding{one, ofAll})
	must(t, r.SetFindings(t.Context(), []provider.Finding{again}, []provider.Finding{one})) // it was over for a moment
	list, err = r.Findings(t.Context())
	must(t, err)
	wantSame(t, "opened anew", list, []provider.Finding{again, ofAll})
}

// TestBadHosts: a host is bad for a time, and what is said of it last counts.
func TestBadHosts(t *testing.T) {
	t.Parallel()
	r, s := open(t)
	must(t, r.BadHost(t.Context(), "vast_ai", "h1", "did not boot", start, after(time.Hour)))
	must(t, r.BadHost(t.Context(), "vast_ai", "h2", "did not boot", start, after(time.Minute)))
	must(t, r.BadHost(t.Context(), "runpod", "h1", "did not pass", start, after(time.Hour)))
	must(t, r.BadHost(t.Context(), "vast_ai", "h1", "did not pass", after(time.Second), after(2*time.Hour)))
	list, err := r.BadHosts(t.Context(), "vast_ai", after(time.Minute))
	must(t, err)
	want := provider.BadHost{Kind: "vast_ai", Host: "h1", Why: "did not pass", At: after(time.Second), Until: after(2 * time.Hour)}
	wantSame(t, "bad hosts", list, []provider.BadHost{want})
	must(t, r.BadHost(t.Context(), "vast_ai", "h3", "", after(time.Minute), after(time.Hour)))
	rows, err := s.Records().Query(t.Context(), engine.Do("SELECT count(*) FROM bad_hosts"))
	must(t, err)
	wantSame(t, "on record", rows, "[[3]]")
}

// TestCosts: the same again, and an earlier state of a row, change no sum.
func TestCosts(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	full := provider.CostRow{Account: "a", Instance: "1", Tenant: "platform", NodeID: "n", Seconds: 600, Billed: 500, Used: 200,
		Idle: 90, Silent: 40, Storage: 3}
	early := provider.CostRow{Account: "a", Instance: "1", Tenant: "other", Seconds: 60, Billed: 50, Used: 20, Idle: 9, Silent: 4}
	for range 2 {
		must(t, r.SaveCosts(t.Context(), 7, []provider.CostRow{full, {Account: "a", Instance: "0"}}))
	}
	must(t, r.SaveCosts(t.Context(), 7, []provider.CostRow{early}))
	must(t, r.SaveCosts(t.Context(), 8, []provider.CostRow{early}))
	must(t, r.SaveCosts(t.Context(), 9, []provider.CostRow{early}))
	full.Tenant = "other"
	list, err := r.Costs(t.Context(), 7, 8)
	must(t, err)
	wantSame(t, "costs", list, []provider.CostDay{{7, provider.CostRow{Account: "a", Instance: "0"}}, {7, full}, {8, early}})
	for _, want := range []int{2, 1, 0} {
		if n, err := r.DropCosts(t.Context(), 9, 2); err != nil || n != want {
			t.Errorf("%d went, %v: want %d", n, err, want)
		}
	}
	list, err = r.Costs(t.Context(), 0, 99)
	must(t, err)
	wantSame(t, "left", fmt.Sprint(list), fmt.Sprint([]provider.CostDay{{9, early}}))
}
