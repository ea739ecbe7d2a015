package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/store"
	rentals "muster/store/provider"
)

// says is a report: each group with its machines, hours, and money as rented/used/idle/silent/storage/unmeasured.
func (h *house) says(f providers.CostReportFilter) string {
	h.t.Helper()
	r, err := h.Costs(h.t.Context(), f)
	h.must(err)
	var words []string
	for _, row := range append(r.Rows, r.Total) {
		words = append(words, sayRow(row))
	}
	return strings.Join(words, "; ")
}

func sayRow(r providers.CostRow) string {
	text := fmt.Sprintf("%s %d %.4g h", r.Group, r.Machines, r.Hours)
	for _, m := range []*float64{r.Rented, r.Used, r.Idle, r.Silent, r.Storage, r.Unmeasured} {
		if m == nil {
			text += " -"
		} else {
			text += fmt.Sprintf(" %.4g", *m)
		}
	}
	if r.Estimate != (r.Rented != nil) {
		text += " no estimate"
	}
	if r.Unpriced > 0 {
		text += fmt.Sprintf(" %d unpriced", r.Unpriced)
	}
	return text
}

// TestMeter: what was charged while a machine ran, was silent and was stopped. A price counts from when it is seen, and what is not known
// is not zero.
func TestMeter(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 2))
	h.pass(0)
	h.pass(time.Hour)
	h.replace("gpu-1", silent)
	h.pass(30 * time.Minute)
	h.shows(machine("1", 2, stopped))
	h.pass(time.Hour)
	want := "vast 1 2.5 h 3.1 - - 1 0.1 2"
	if got := h.says(providers.CostReportFilter{}); got != want+"; "+strings.TrimPrefix(want, "vast") {
		t.Errorf("got %s, want %s", got, want)
	}
	h.shows(machine("1", 2), machine("2", 4, func(i *cloud.Instance) { i.StartedAt = to(h.now.Add(30 * time.Minute)) }),
		machine("3", 0, func(i *cloud.Instance) { i.Price = nil }), machine("4", 9))
	h.replace("gpu-1", heard)
	h.pass(time.Hour) // 2 is there for half of it, and nobody knows since when 3 and 4 are
	h.pass(time.Hour)
	rows, err := h.records.Costs(t.Context(), 0, 1<<40)
	h.must(err)
	text := ""
	for _, r := range rows {
		text += fmt.Sprintf("%s %s %d %d %d %d\n", r.Instance, r.NodeID, r.Seconds, r.Billed, r.Silent, r.Storage)
	}
	if text != "1 gpu-1 16200 7100000 1000000 100000\n2  5400 6000000 6000000 0\n3  0 0 0 0\n4  3600 9000000 9000000 0\n" {
		t.Errorf("got\n%s", text)
	}
	if got := h.says(providers.CostReportFilter{By: "tenant"}); got !=
		"lab 4 7 h 22.1 - - 16 0.1 6 1 unpriced;  4 7 h 22.1 - - 16 0.1 6 1 unpriced" {
		t.Errorf("got %s", got)
	}
}

// TestShortLife: a machine counts from its order, where the company does not tell its start, and as one that runs from when its node was
// heard, though the company showed it for the last time before that.
func TestShortLife(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.pass(0)
	h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: "1", Tenant: "lab", Owner: "ada", Rental: "r",
		State: providers.LeaseLive, Act: providers.ActDestroy, EndsAt: h.now.Add(time.Hour), CreatedAt: h.now.Add(9 * time.Second)}))
	loading := machine("1", 0.36, func(i *cloud.Instance) { i.State, i.Running = cloud.Starting, to(36*cloud.Dollar) })
	h.shows(loading, machine("2", 1))
	h.pass(19 * time.Second) // ten of it at the price of the disk, a tenth of a cent
	heard := node("gpu-1", "1")
	heard.LastSeen, heard.State = to(h.now.Add(5*time.Second)), wire.StateRetired
	h.nodes = []*api.NodeRow{heard}
	h.pass(30 * time.Second) // a cent a second
	h.pass(10 * time.Second) // it was not heard since, so it starts again
	rows, err := h.records.Costs(t.Context(), 0, 1<<40)
	h.must(err)
	if len(rows) != 2 || rows[0].Seconds != 50 || rows[0].Billed != 302_000 || rows[1].Seconds != 40 {
		t.Errorf("got %+v", rows)
	}
}

// TestBroken: a broken machine that is charged in full is silent, or not measured, and no storage.
func TestBroken(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("heard", "1"))
	broken := func(i *cloud.Instance) { i.State, i.Running = cloud.Broken, to(3*cloud.Dollar) }
	h.shows(machine("1", 3, broken), machine("2", 3, broken), machine("3", 0.1, broken))
	h.pass(0)
	h.pass(time.Hour)
	if got := h.says(providers.CostReportFilter{}); got != "vast 3 3 h 6.1 - - 3 0.1 3;  3 3 h 6.1 - - 3 0.1 3" {
		t.Errorf("got %s", got)
	}
}

// TestGap: time counts in which the company did not answer or the gateway did not run, on the days that it belongs to, and no time twice.
func TestGap(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 1))
	h.pass(0) // at noon
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear}
	h.pass(time.Hour)
	h.cloud.fails = nil
	h.pass(time.Hour)
	h.open()
	h.Round(t.Context()) // the view is one that was counted
	h.pass(34 * time.Hour)
	h.open()
	h.pass(time.Minute)
	rows, err := h.records.Costs(t.Context(), 0, 1<<40)
	h.must(err)
	text := ""
	for _, r := range rows {
		text += fmt.Sprintf("%s %d %d, ", time.Unix(r.Day*86400, 0).UTC().Format(time.DateOnly), r.Seconds, r.Billed)
	}
	if text != "2026-11-29 43200 12000000, 2026-11-30 86400 24000000, 2026-12-01 60 16666, " {
		t.Errorf("got %s", text)
	}
	h.now = h.now.Add(-5 * time.Hour) // the clock is set back
	h.pass(0)
	h.now = h.now.Add(30 * 24 * time.Hour) // more than anybody can say
	h.pass(0)
	after, err := h.records.Costs(t.Context(), 0, 1<<40)
	h.must(err)
	var sum int64
	for _, r := range after {
		sum += r.Seconds
	}
	if sum != 129660+7*24*3600 {
		t.Errorf("%d seconds in all", sum)
	}
}

// TestMeterFails: what could not be written is written later, once.
func TestMeterFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for n := range store.Piece + 10 {
		h.cloud.all = append(h.cloud.all, machine(fmt.Sprint(n), 1))
	}
	h.pass(0)
	h.now = h.now.Add(time.Hour)
	h.must(h.Market().Sync(t.Context(), "vast"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.Round(gone)
	h.Round(t.Context())
	h.Round(t.Context())
	if got := h.says(providers.CostReportFilter{}); got != "vast 510 510 h 510 - - 510 0 0;  510 510 h 510 - - 510 0 0" {
		t.Errorf("got %s", got)
	}
}

// TestTwoAccounts: a machine that two accounts show is charged once.
func TestTwoAccounts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, err := h.AddProvider(t.Context(), providers.Request{Kind: cloud.Vast, Name: "zwei", Key: "k-secret-2"}, operator)
	h.must(err)
	h.shows(machine("1", 1))
	for range 2 {
		h.now = h.now.Add(time.Hour)
		for _, name := range []string{"vast", "zwei"} {
			_, err := h.SyncProvider(t.Context(), name)
			h.must(err)
		}
	}
	if got := h.says(providers.CostReportFilter{}); got != "vast 1 1 h 1 - - 1 0 0;  1 1 h 1 - - 1 0 0" {
		t.Errorf("got %s", got)
	}
}

// TestReport: machines of companies and own ones, each once; what a company charges goes before the label; by provider, tenant and label,
// and only what is asked for.
func TestReport(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("a", "1"), node("b", "2"), node("own", ""), node("free", ""), node("old", "9"))
	h.replace("a", func(n *api.NodeRow) { n.Labels = map[string]string{"team": "red"} })
	h.replace("b", func(n *api.NodeRow) { n.Labels = map[string]string{"team": "blue"}; n.Tenant = "other" })
	h.replace("own", func(n *api.NodeRow) { n.Labels = map[string]string{"team": "red"}; n.Provider = "rack" })
	h.replace("free", func(n *api.NodeRow) { n.Provider = "rack" })
	h.replace("old", func(n *api.NodeRow) { n.State = wire.StateRetired; n.Provider = "gone.example" })
	h.shows(machine("1", 2), machine("2", 1), machine("3", 0.5))
	h.replace("a", working(4, 1))
	h.pass(0)
	for range 60 {
		h.pass(10 * time.Minute)
	}
	cost := func(all, measured, idle float64) *api.NodeCost {
		return &api.NodeCost{WatchedSeconds: 36000, Cost: &all, MeasuredCost: &measured, IdleCost: &idle}
	}
	h.costs["2026-11-29"] = map[string]*api.NodeCost{"a": cost(100, 100, 25), "own": cost(8, 7, 2), "free": {WatchedSeconds: 3600}}
	h.costs["2026-11-28"] = map[string]*api.NodeCost{"a": cost(3, 3, 1), "old": {WatchedSeconds: 7200, Cost: to(6.0), MeasuredCost: to(0.0)}}
	since := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		f    providers.CostReportFilter
		want string
	}{
		"by provider": {providers.CostReportFilter{}, "gone.example 1 2 h 6 - - - - 6; rack 2 11 h 8 5 2 - - 1 1 unpriced; " +
			"vast 3 40 h 38 17 6 5 0 10; " +
			" 6 53 h 52 22 8 5 0 17 1 unpriced"},
		"by tenant": {providers.CostReportFilter{By: "tenant"}, "lab 5 43 h 42 22 8 5 0 7 1 unpriced; other 1 10 h 10 - - 0 0 10; " +
			" 6 53 h 52 22 8 5 0 17 1 unpriced"},
		"by label": {providers.CostReportFilter{By: "team"}, " 3 13 h 11 - - 5 0 6 1 unpriced; blue 1 10 h 10 - - 0 0 10; " +
			"red 2 30 h 31 22 8 0 0 1;  6 53 h 52 22 8 5 0 17 1 unpriced"},
		"of a tenant": {providers.CostReportFilter{Tenant: "other"}, "vast 1 10 h 10 - - 0 0 10;  1 10 h 10 - - 0 0 10"},
		"of a selector": {providers.CostReportFilter{Selector: "team=red"},
			"rack 1 10 h 8 5 2 - - 1; vast 1 20 h 23 17 6 0 0 0;  2 30 h 31 22 8 0 0 1"},
		"of a day": {providers.CostReportFilter{Until: since.Add(24 * time.Hour)},
			"gone.example 1 2 h 6 - - - - 6; vast_ai 1 10 h 3 2 1 - - 0;  2 12 h 9 2 1 - - 6"},
		"of nobody": {providers.CostReportFilter{Tenant: "none"}, " 0 0 h - - - - - -"},
	} {
		c.f.Since = since
		if got := h.says(c.f); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
	if r, err := h.Costs(t.Context(), providers.CostReportFilter{Since: h.now.Add(-time.Minute)}); err != nil ||
		!r.Since.Equal(h.now.Truncate(24*time.Hour)) {
		t.Errorf("days are whole: it is from %s, %v", r.Since, err)
	}
	for name, f := range map[string]providers.CostReportFilter{
		"by": {By: "a b"}, "selector": {Selector: "=="}, "time": {Since: h.now.Add(time.Hour)},
	} {
		if _, err := h.Costs(t.Context(), f); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	h.ready = false
	if _, err := h.Costs(t.Context(), providers.CostReportFilter{}); code(err) != wire.CodeUnavailable {
		t.Errorf("before the fleet is read: %v", err)
	}
}

// TestJustJoined: a node that the last view did not know yet is one machine with its instance, which has a price.
func TestJustJoined(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.shows(machine("1", 2))
	h.pass(0)
	h.pass(30 * time.Minute)
	h.nodes = []*api.NodeRow{node("gpu-1", "C.1")}
	h.costs[h.now.Format(time.DateOnly)] = map[string]*api.NodeCost{"gpu-1": {WatchedSeconds: 36}}
	if got := h.says(providers.CostReportFilter{}); got != "vast 1 0.5 h 1 - - 1 0 0;  1 0.5 h 1 - - 1 0 0" {
		t.Errorf("got %s", got)
	}
	if got := h.says(providers.CostReportFilter{Selector: "team=red"}); got != " 0 0 h - - - - - -" {
		t.Errorf("of others: %s", got)
	}
}

// TestJoinedLater: what was charged before a machine joined is its node's too.
func TestJoinedLater(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.now = h.now.Add(11*time.Hour + 30*time.Minute)
	h.shows(machine("1", 2))
	h.pass(0)
	h.pass(30 * time.Minute)
	h.nodes = []*api.NodeRow{node("gpu-1", "1")}
	h.replace("gpu-1", func(n *api.NodeRow) { n.Labels = map[string]string{"team": "red"} })
	h.pass(time.Hour)
	if got := h.says(providers.CostReportFilter{By: "team"}); got != "red 1 1.5 h 3 - - 1 0 2;  1 1.5 h 3 - - 1 0 2" {
		t.Errorf("got %s", got)
	}
}

// TestManyInstances measures a sync of 5,000 instances beyond the company's own time, and a round over them.
func TestManyInstances(t *testing.T) {
	h := newHouse(t)
	const many = 5000
	for n := range many {
		id := fmt.Sprint(40_000_000 + n)
		h.nodes = append(h.nodes, node("node-"+id, id))
		h.cloud.all = append(h.cloud.all, machine(id, 2, func(i *cloud.Instance) {
			i.Name, i.Host, i.Region, i.GPU, i.Why = "muster-4sl5ucv6e2vnxq7a", "m"+id, "Sweden, SE", "RTX 4090", "success, running image"
			i.Running, i.Storage, i.SSH = to(2*cloud.Dollar), to(cloud.Dollar/100), &cloud.Address{Host: "ssh4.vast.ai", Port: 12345, User: "root"}
		}))
	}
	for _, step := range []string{"first", "same again", "all nodes fall silent", "silent still"} {
		if step == "all nodes fall silent" {
			for i := range h.nodes {
				row := *h.nodes[i]
				silent(&row)
				h.nodes[i] = &row
			}
		}
		h.now = h.now.Add(45 * time.Second)
		began := time.Now()
		h.must(h.Market().Sync(t.Context(), "vast"))
		synced := time.Since(began)
		began = time.Now()
		h.Round(t.Context())
		t.Logf("%s: sync %s, round %s", step, synced.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
	p, err := h.Plan(t.Context(), "")
	h.must(err)
	if len(p.Findings) != many || p.PerDay < 48*many-1 || p.PerDay > 48*many+1 || len(h.Told()) != 1 {
		t.Errorf("%d findings at %g a day", len(p.Findings), p.PerDay)
	}
}
