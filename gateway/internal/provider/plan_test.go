package provider_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	rentals "muster/store/provider"
)

// TestNotJudged: machines that cannot be judged yet are counted by account and reason, for each tenant its own.
func TestNotJudged(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 1), machine("2", 1), machine("3", 1))
	h.pass(0)
	says := func(tenant string) (text string) {
		p, err := h.Plan(t.Context(), tenant)
		h.must(err)
		for _, u := range p.Unjudged {
			text += fmt.Sprintf("%d of %s: %s; ", u.Machines, u.Provider, u.Why)
		}
		return text
	}
	const two = "2 of vast: running for less than 15 minutes, and still to join; "
	if got := says(""); got != two {
		t.Errorf("got %s", got)
	}
	if lab, none := says("lab"), says("none"); lab != two || none != "" {
		t.Errorf("of lab %s, of nobody %s", lab, none)
	}
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear}
	h.pass(11 * time.Minute)
	if got := says(""); got != "3 of vast: no complete view of the account is of now; " {
		t.Errorf("without a view: %s", got)
	}
}

// TestGivenBack: what a machine costs while it is given back is in the sum of the plan, beside the findings, and once.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 2, func(i *cloud.Instance) { i.EndsAt = to(h.now.Add(time.Hour)) }), machine("2", 0, stopped))
	h.replace("gpu-1", func(n *api.NodeRow) { n.State, n.StateSince = wire.StateRetired, h.now })
	h.pass(0)
	p, err := h.Plan(t.Context(), "lab")
	h.must(err)
	want := providers.Unjudged{Provider: "vast", Instance: "1", Machines: 1, Why: "its node was just given back at $2 an hour", PerDay: 48}
	if found := h.plan(); found != "storage_billed 2, ends_soon 1" || math.Abs(p.PerDay-50.4) > 1e-9 || len(p.Unjudged) != 1 ||
		p.Unjudged[0] != want {
		t.Errorf("found %s at %g a day, beside %+v", found, p.PerDay, p.Unjudged)
	}
}

// TestForeign: a machine with the name of a rental that is not on record is another gateway's, whatever lease it has here. The plan counts
// it apart, and what it costs is not this fleet's. One whose node is here is this fleet's.
func TestForeign(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	named := func(name string) func(*cloud.Instance) { return func(i *cloud.Instance) { i.Name = name } }
	theirs := named("muster-theirs")
	soon := func(i *cloud.Instance) { i.EndsAt = to(h.now.Add(time.Hour)) }
	h.shows(machine("1", 2, theirs), machine("2", 1, named("training")), machine("3", 1, named("muster-ours")),
		machine("4", 2, theirs, soon), machine("5", 2, theirs, stopped), machine("6", 2, theirs),
		machine("7", 2, theirs, func(i *cloud.Instance) { i.State = cloud.Unknown }))
	h.must(h.records.PutRequest(t.Context(), rentals.Request{ID: "q", Account: "vast", Tenant: "lab", State: providers.RentedRenting,
		Want: "{}", Count: 1, CreatedAt: h.now}))
	h.must(h.records.Intend(t.Context(), rentals.Rental{ID: "ours", Request: "q", Number: 1, Account: "vast", Tenant: "lab", Price: 1,
		OfferJSON: "{}", CreatedAt: h.now}))
	h.must(h.records.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: "4", Tenant: "lab", Owner: "ada",
		State: providers.LeaseLive, Act: providers.ActKeep, EndsAt: h.now.Add(50 * time.Hour), CreatedAt: h.now}))
	h.nodes = append(h.nodes, node("gpu-6", "6"))
	h.pass(0)
	h.pass(time.Hour)
	list, err := h.Instances(t.Context(), "", "vast")
	h.must(err)
	text := ""
	for _, i := range list.Instances {
		text += fmt.Sprint(i.ID, " ", i.Foreign, i.Rental, ", ")
	}
	if text != "1 true, 2 false, 3 falseours, 4 true, 5 true, 6 false, 7 true, " {
		t.Errorf("foreign, or of a rental: %s", text)
	}
	p, err := h.Plan(t.Context(), "")
	h.must(err)
	want := providers.Unjudged{Provider: "vast", Machines: 4, Why: "rented by another gateway, or before this one was restored"}
	if found := h.plan(); found != "never_enrolled 2, never_enrolled 3" || p.PerDay != 48 || len(p.Foreign) != 1 || p.Foreign[0] != want ||
		len(p.Unjudged) != 0 {
		t.Errorf("found %s at %g a day, beside %+v, not judged %+v", found, p.PerDay, p.Foreign, p.Unjudged)
	}
	if got := h.says(providers.CostReportFilter{}); got != "vast 3 3 h 4 - - 2 0 2;  3 3 h 4 - - 2 0 2" {
		t.Errorf("cost: %s", got)
	}
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear}
	h.pass(11 * time.Minute)
	p, err = h.Plan(t.Context(), "lab")
	h.must(err)
	if len(p.Foreign) != 1 || p.Foreign[0] != want || p.Unjudged[0].Machines != 3 {
		t.Errorf("without a view: beside %+v, not judged %+v", p.Foreign, p.Unjudged)
	}
}
