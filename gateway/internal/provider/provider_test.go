package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// TestPlan: a machine that dies quietly is found with its cost and its command, keeps the time since when, and is settled when it is heard.
func TestPlan(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"), node("gpu-2", "C.2"))
	if _, err := h.Plan(t.Context(), ""); code(err) != wire.CodeUnavailable {
		t.Errorf("before the first round: %v", err)
	}
	h.shows(machine("1", 2), machine("2", 1), machine("3", 4, stopped))
	h.pass(0)
	if got := h.plan(); got != "storage_billed 3" {
		t.Fatal(got)
	}
	since := h.now.Add(time.Minute)
	h.replace("gpu-1", silent)
	h.pass(time.Minute)
	h.pass(time.Hour)
	h.open()
	h.pass(time.Minute)
	p, err := h.Plan(t.Context(), "lab")
	h.must(err)
	if len(p.Findings) != 2 || len(p.Providers) != 1 || p.PerDay < 50.39 || p.PerDay > 50.41 {
		t.Fatalf("got %+v", p)
	}
	f := p.Findings[0]
	if f.Kind != providers.FoundBilledSilent || f.Node != "gpu-1" || f.NodeID != "gpu-1" || f.Provider != "vast" || f.Instance != "1" ||
		*f.PerDay != 48 ||
		f.Next != "muster provider onboard vast/1" || !f.Since.Equal(since) || f.Severity != api.SeveritySevere {
		t.Errorf("got %+v", f)
	}
	if p, err = h.Plan(t.Context(), "other"); err != nil || len(p.Findings)+len(p.Providers) != 0 || p.PerDay != 0 {
		t.Errorf("another tenant sees %+v, %v", p, err)
	}
	h.replace("gpu-1", heard)
	h.pass(time.Minute)
	if got := h.plan(); got != "storage_billed 3" {
		t.Error(got)
	}
	if began, ended := h.events("provider.finding"), h.events("provider.settled"); began != "storage_billed 3, billed_silent 1" ||
		ended != "billed_silent 1" {
		t.Errorf("began %s; ended %s", began, ended)
	}
	all, err := h.store.Events(t.Context(), store.EventQuery{Kind: "provider.finding"})
	h.must(err)
	if e := all[0]; e.NodeName != "gpu-1" || e.Tenant != "lab" || e.Detail["cost_per_day"] != "48.00" ||
		!strings.HasPrefix(e.Detail["text"], "gpu-1") {
		t.Errorf("got the event %+v", e)
	}
}

// TestMachineOnce: the sum of a plan has each machine once, however much is wrong with it.
func TestMachineOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 1, stopped))
	h.replace("gpu-1", silent)
	h.pass(0)
	p, err := h.Plan(t.Context(), "")
	h.must(err)
	if got := h.plan(); got != "down_at_provider 1" || p.PerDay < 2.39 || p.PerDay > 2.41 {
		t.Errorf("%s cost %g a day", got, p.PerDay)
	}
}

// TestUnknown: while the company does not answer, nothing new is found and nothing is settled that only it could tell. That it does not
// answer is found.
func TestUnknown(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"), node("gpu-2", "2"))
	h.shows(machine("1", 2), machine("2", 1))
	h.replace("gpu-1", silent)
	h.pass(0)
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear, Status: 503, Text: "<html>"}
	h.shows()
	h.pass(time.Minute)
	if got := h.plan(); got != "billed_silent 1" {
		t.Errorf("after a failure: %s", got)
	}
	h.pass(10 * time.Minute)
	h.replace("gpu-2", silent)
	h.pass(time.Minute)
	if got := h.plan(); got != "billed_silent 1, provider_unknown" {
		t.Errorf("after a while: %s", got)
	}
	h.replace("gpu-1", heard)
	h.pass(time.Minute)
	if got := h.plan(); got != "provider_unknown" {
		t.Errorf("after it is heard: %s", got)
	}
	h.open()
	h.pass(time.Minute)
	if got := h.plan(); got != "provider_unknown" {
		t.Errorf("after a start: %s", got)
	}
	p, err := h.Plan(t.Context(), "")
	h.must(err)
	if f := p.Findings[0]; !strings.Contains(f.Text, "503") || f.PerDay != nil || f.Next != "muster provider sync vast" ||
		p.Providers[0].Known {
		t.Errorf("got %+v", f)
	}
	if _, err := h.SyncProvider(t.Context(), "vast"); code(err) != wire.CodeProviderFailed {
		t.Errorf("a sync says %v", err)
	}
	h.cloud.fails = nil
	h.shows(machine("1", 2), machine("2", 1))
	h.pass(time.Minute)
	if got := h.plan(); got != "billed_silent 2" {
		t.Errorf("when it answers: %s", got)
	}
}

// TestStart: an account that was not asked yet is nothing to tell; one that is not asked for long is.
func TestStart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Round(t.Context())
	if got := h.plan(); got != "" {
		t.Errorf("just added: %s", got)
	}
	h.now = h.now.Add(3 * time.Minute)
	h.Round(t.Context())
	if got := h.plan(); got != "provider_unknown" {
		t.Errorf("never asked: %s", got)
	}
	h.pass(0)
	h.now = h.now.Add(time.Hour)
	h.open()
	h.Round(t.Context())
	if got := h.plan(); got != "" {
		t.Errorf("just started: %s", got)
	}
	h.ready = false
	h.nodes = nil
	h.shows(machine("1", 1))
	h.pass(20 * time.Minute)
	if got := h.plan(); got != "" {
		t.Errorf("before the fleet is read: %s", got)
	}
}

// TestRemoved: what was found on an account goes with it.
func TestRemoved(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "9"))
	h.shows(machine("1", 1, stopped))
	h.pass(time.Minute)
	if got := h.plan(); got != "storage_billed 1, gone_at_provider 9" {
		t.Error(got)
	}
	h.must(h.RemoveProvider(t.Context(), "vast", providers.RemoveFilter{}, operator))
	h.Round(t.Context())
	if got := h.plan(); got != "" {
		t.Error(got)
	}
	if rows, err := h.records.Findings(t.Context()); err != nil || len(rows) != 0 {
		t.Errorf("on record: %+v, %v", rows, err)
	}
}

// TestWriteFails: what could not be written is found again, and told once.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.shows(machine("1", 1, stopped))
	h.must(h.Market().Sync(t.Context(), "vast"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.Round(gone)
	if rows, _ := h.records.Findings(t.Context()); len(rows) != 0 {
		t.Fatalf("written without a database: %+v", rows)
	}
	h.Round(t.Context())
	h.Round(t.Context())
	if got := h.events("provider.finding"); got != "storage_billed 1" || h.plan() != "storage_billed 1" {
		t.Errorf("got %s, and the plan %s", got, h.plan())
	}
	h.must(h.store.Close())
	h.Round(t.Context())
	if !strings.Contains(h.log.String(), "not held against") {
		t.Error("the log does not say it")
	}
}

// TestTold: few findings are told one by one, many of one kind as one.
func TestTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if got := h.Told(); got != nil {
		t.Errorf("before the first round: %+v", got)
	}
	for n := range 20 {
		h.cloud.all = append(h.cloud.all, machine(fmt.Sprint(n), 1, stopped))
	}
	h.pass(0)
	if got := h.Told(); len(got) != 20 || got[0].Instance == "" {
		t.Errorf("got %d, such as %+v", len(got), got[0])
	}
	since := h.now
	h.cloud.all = append(h.cloud.all, machine("x", 1, stopped, func(i *cloud.Instance) { i.Price = nil }))
	h.pass(time.Hour)
	got := h.Told()
	if len(got) != 1 || got[0].Instance != "" || !got[0].Since.Equal(since) || got[0].Kind != providers.FoundStorage ||
		got[0].Tenant != "lab" ||
		!strings.HasPrefix(got[0].Text, "21 machines of vast, such as vast/") || got[0].Severity == "" ||
		!strings.HasSuffix(got[0].Text, "; all of them cost $48.00 a day; what 1 of them cost is not known") ||
		got[0].Next != "muster provider plan" {
		t.Errorf("got %+v", got)
	}
}

// TestPrices: a node gets what its company charges now where nobody set a price, less while it is stopped, and follows that. A price that a
// person set is told of, not changed.
func TestPrices(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("own", "1"), node("set", "2"), node("other", "3"), node("off", "4"), node("gone", "5"), node("zero", "6"))
	h.replace("set", func(n *api.NodeRow) { n.PricePerHour = to(0.5) })
	h.replace("other", func(n *api.NodeRow) { n.Provider = cloud.RunPod })
	h.replace("gone", func(n *api.NodeRow) { n.State = wire.StateRetired })
	h.shows(machine("1", 1.25), machine("2", 2), machine("3", 3), machine("4", 4, stopped), machine("5", 5), machine("6", 0))
	h.pass(0)
	h.pass(10 * time.Second)
	want := map[string]string{"own": "1.25 ", "set": "2 ", "off": "0.1 "} // the store has the person's before it
	if got := h.prices(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := h.plan(); strings.Contains(got, "price_differs") {
		t.Errorf("before the price can show: %s", got)
	}
	h.replace("own", func(n *api.NodeRow) { n.PricePerHour = to(1.25) })
	h.pass(time.Minute)
	if got := h.plan(); !strings.Contains(got, "price_differs 2") || strings.Contains(got, "price_differs 1") {
		t.Errorf("a person's price: %s", got)
	}
	h.shows(machine("1", 1.5), machine("2", 0.5), machine("3", 3), machine("4", 4, stopped), machine("5", 5))
	h.pass(time.Minute)
	if got := h.prices(); got["own"] != "1.25 1.5 " || strings.Contains(h.plan(), "price_differs") {
		t.Errorf("after a change: %v, %s", got, h.plan())
	}
	h.pass(11 * time.Minute) // it is tried again, and is no change
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.shows(machine("1", 7))
	h.must(h.Market().Sync(t.Context(), "vast"))
	h.Round(gone)
	h.Round(t.Context())
	if got := h.prices()["own"]; got != "1.25 1.5 7 " {
		t.Errorf("after a failure: %s", got)
	}
	h.open()
	h.pass(time.Minute)
	if n, err := h.store.Node(t.Context(), "", "own"); err != nil || n.Labels["price_per_hour"] != "7" || h.prices()["own"] != "1.25 1.5 7 " {
		t.Errorf("after a start: %v, %v", n.Labels, err)
	}
}

// TestInstances: instances stand beside their nodes and leases, and a tenant sees its own alone.
func TestInstances(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"), node("old", "2"))
	h.replace("old", func(n *api.NodeRow) { n.State = wire.StateRetired })
	h.shows(machine("1", 2, func(i *cloud.Instance) {
		i.Name, i.Why, i.Host, i.Region, i.GPU, i.Storage = "muster-x", "fine", "m7", "EU", "H100", to(cloud.Dollar/4)
		i.SSH = &cloud.Address{Host: "ssh4.vast.ai", Port: 2222, User: "root"}
	}), machine("2", 1, func(i *cloud.Instance) { i.SSH = &cloud.Address{Host: "h", Port: 22, User: "root"} }))
	h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: "1", Tenant: "lab", Owner: "ada",
		State: providers.LeaseLive,
		Act:   providers.ActDestroy, EndsAt: h.now.Add(time.Hour), CreatedAt: h.now, Rental: "x", Idle: to(time.Hour)}))
	h.pass(time.Minute)
	list, err := h.Instances(t.Context(), "lab", "vast")
	h.must(err)
	if len(list.Instances) != 2 || !list.Known || !list.SyncedAt.Equal(h.now) {
		t.Fatalf("got %+v", list)
	}
	one := list.Instances[0]
	lease := one.Lease
	one.Lease = nil
	want := providers.Instance{RejoinCosts: cloud.RejoinCosts(cloud.Vast), Provider: "vast", Kind: cloud.Vast, ID: "1", Name: "muster-x",
		Tenant: "lab", State: cloud.Running,
		RawState: "running", Why: "fine", Host: "m7", Region: "EU", GPU: "H100", GPUs: 2, SSH: "root@ssh4.vast.ai:2222",
		SeenAt: h.now, Node: "gpu-1", NodeID: "gpu-1",
		Status: wire.StatusOnline, Rental: "x", PerHour: one.PerHour, Storage: one.Storage}
	if one != want || *one.PerHour != 2 || *one.Storage != 0.25 {
		t.Errorf("got %+v, want %+v", one, want)
	}
	if lease == nil || lease.Owner != "ada" || lease.Node != "gpu-1" || *lease.IdleSeconds != 3600 ||
		!lease.EndsAt.Equal(h.now.Add(59*time.Minute)) {
		t.Errorf("got the lease %+v", lease)
	}
	two, err := h.Instance(t.Context(), "", "vast", "2")
	if err != nil || two.Status != wire.StateRetired || two.SSH != "root@h:22" || two.Lease != nil || two.Rental != "" {
		t.Errorf("got %+v, %v", two, err)
	}
	for name, ask := range map[string]func() error{
		"another tenant": func() error { _, err := h.Instances(t.Context(), "other", "vast"); return err },
		"no account":     func() error { _, err := h.Instances(t.Context(), "", "x"); return err },
		"no instance":    func() error { _, err := h.Instance(t.Context(), "", "vast", "3"); return err },
	} {
		if got := code(ask()); got != wire.CodeNotFound {
			t.Errorf("%s: %s", name, got)
		}
	}
	h.ready = false
	if _, err := h.Instances(t.Context(), "", "vast"); code(err) != wire.CodeUnavailable {
		t.Errorf("before the fleet is read: %v", err)
	}
}

// TestSpending: limits and what is charged, of accounts and tenants.
func TestSpending(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.shows(machine("1", 2), machine("2", 1.5), machine("3", 1, stopped))
	h.pass(time.Minute)
	one, err := h.SetProviderLimit(t.Context(), "vast", providers.SpendingLimit{PerHour: to(5.0)}, operator)
	if err != nil || one.Of != "account vast" || *one.PerHour != 5 || one.Now != 3.6 {
		t.Errorf("got %+v, %v", one, err)
	}
	one, err = h.SetTenantLimit(t.Context(), "lab", providers.SpendingLimit{PerHour: to(4.0)}, operator)
	if err != nil || one.Of != "tenant lab" || *one.PerHour != 4 || one.Now != 3.6 {
		t.Errorf("got %+v, %v", one, err)
	}
	h.shows(machine("1", 2), machine("2", 1.5, func(i *cloud.Instance) { i.State = cloud.Ending }), machine("3", 1, stopped),
		machine("4", 1, func(i *cloud.Instance) { i.State, i.Running = cloud.Starting, to(7*cloud.Dollar) }))
	h.pass(time.Minute)
	list, err := h.Spending(t.Context())
	h.must(err)
	ls, err := h.Providers(t.Context(), "")
	h.must(err)
	p, err := h.Plan(t.Context(), "")
	h.must(err)
	synced, err := h.SyncProvider(t.Context(), "vast")
	h.must(err)
	const sum = 10.6 // one that ends is charged still, and one that starts counts as one that runs
	if got := []float64{list.Spending[0].Now, *ls.Providers[0].PerHour, *p.Providers[0].PerHour, *synced.PerHour}; !slices.Equal(got,
		[]float64{sum, sum, sum, sum}) {
		t.Errorf("limits, accounts, plan and a look show %v, want %g", got, sum)
	}
	list, err = h.Spending(t.Context())
	if err != nil || len(list.Spending) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	for name, set := range map[string]func() error{
		wire.CodeNotFound: func() error {
			_, err := h.SetProviderLimit(t.Context(), "x", providers.SpendingLimit{}, operator)
			return err
		},
		wire.CodeBadRequest: func() error {
			_, err := h.SetTenantLimit(t.Context(), "lab", providers.SpendingLimit{PerHour: to(-1.0)}, operator)
			return err
		},
	} {
		if got := code(set()); got != name {
			t.Errorf("got %s, want %s", got, name)
		}
	}
	if _, err := h.SetTenantLimit(t.Context(), "labb", providers.SpendingLimit{PerHour: to(4.0)}, operator); code(err) != wire.CodeNotFound {
		t.Errorf("the limit of a tenant that is not there: %v", err)
	}
	if _, err := h.SetTenantLimit(t.Context(), "labb", providers.SpendingLimit{}, operator); err != nil {
		t.Errorf("no limit for a tenant that is not there: %v", err)
	}
	if _, err := h.SetTenantLimit(t.Context(), "a b", providers.SpendingLimit{}, operator); code(err) != wire.CodeBadRequest {
		t.Errorf("any tenant: %v", err)
	}
	all, err := h.Providers(t.Context(), "")
	if text, _ := json.Marshal(all); err != nil || len(all.Providers) != 1 || strings.Contains(string(text), "k-secret") {
		t.Errorf("got %s, %v", text, err)
	}
}

// TestRun: a view is held against the fleet soon after it was taken, and the silence of a node soon after it began.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kit.Store(t, nil)
		company := &fake{all: []cloud.Instance{machine("1", 1, stopped)}}
		row := node("gpu-2", "2")
		p, err := provider.Open(t.Context(), provider.Config{
			Config: market.Config{Store: s, Records: rentals.New(s.Records()),
				Dial: func(string, market.Dial) (market.Cloud, error) { return company, nil }},
			Ready: func() bool { return true }, Nodes: func() []*api.NodeRow { return []*api.NodeRow{row} },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		if _, err := p.AddProvider(ctx, providers.Request{Kind: cloud.Vast, Key: "k-secret"}, operator); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		plan, err := p.Plan(ctx, "")
		if err != nil || len(plan.Findings) == 0 || plan.Findings[0].Kind != providers.FoundStorage {
			t.Errorf("got %+v, %v", plan, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestPrune: leases that ended long ago are dropped, but not that of a machine which is there.
func TestPrune(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 2))
	h.pass(0)
	ended := h.now
	h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: "1", State: providers.LeaseEnded, EndedAt: &ended}))
	for i := range store.Piece { // more than go at once
		h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: fmt.Sprint("old-", i), State: providers.LeaseEnded,
			EndedAt: &ended}))
	}
	for _, left := range []int{store.Piece + 1, 1} {
		h.pass(46 * 24 * time.Hour)
		if got, err := h.records.Leases(t.Context(), rentals.LeaseQuery{Ended: true}); err != nil || len(got) != left {
			t.Errorf("%d are left, %v, want %d", len(got), err, left)
		}
	}
}
