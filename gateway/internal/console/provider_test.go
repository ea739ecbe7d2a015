package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/store"
)

// rented is an account that is seen and one that is not, with machines in every state.
func (h *house) rented() {
	h.t.Helper()
	h.enrolled("hgx-1", "research", nil)
	at := func(hours float64) *time.Time { t := h.now.Add(time.Duration(hours * float64(time.Hour))); return &t }
	price, day, limit, some := 2.19, 52.56, 20.0, 5
	h.desk.plan = providers.Plan{PerDay: day, Providers: []providers.Account{
		{Name: "vast", Kind: "vast_ai", Tenant: "research", SyncedAt: at(-.01), Instances: &some, PerHour: &price, Limit: &limit, Known: true},
		{Name: "lab", Kind: "runpod", SyncedAt: at(-2), FailedAt: at(-1), Error: "HTTP 503: busy"}, {Name: "new", Kind: "lambda"}},
		Findings: []providers.Finding{
			{Kind: providers.FoundBilledSilent, Severity: api.SeveritySevere, Provider: "vast", Instance: "39467543", Node: "hgx-1",
				NodeID: "id-hgx-1",
				Since:  *at(-2), Text: "it runs for 2.19 an hour, and its node is stale since 08:00", PerDay: &day,
				Next: "muster provider onboard vast/39467543"},
			{Kind: providers.FoundStorage, Severity: api.SeverityNote, Provider: "vast", Instance: "2", Since: *at(-30),
				Text: "it is stopped, and its disk is charged", Next: "muster provider destroy vast/2"},
			{Kind: providers.FoundUnknown, Severity: api.SeverityWarn, Provider: "lab", Since: *at(-1), Text: "lab: not seen since 08:00",
				Next: "muster provider sync lab"}},
		Unjudged: []providers.Unjudged{{Provider: "vast", Machines: 2, Why: "starting for less than 30 minutes"},
			{Provider: "vast", Instance: "9", Machines: 1, Why: "it is being destroyed", PerDay: 48}}}
	lease := providers.Lease{Provider: "vast", Instance: "39467543", Node: "hgx-1", Owner: "ada", State: providers.LeaseLive, EndsAt: *at(3),
		Act: providers.ActDestroy}
	over := providers.Lease{Provider: "vast", Instance: "2", Owner: "ada", State: providers.LeaseEnding, EndsAt: *at(-.3),
		Act: providers.ActStop,
		Why: "HTTP 503: busy"}
	h.desk.leases = providers.LeaseList{Leases: []providers.Lease{over, lease}}
	h.desk.cost = providers.CostReport{Rows: []providers.CostRow{{Group: "vast", Machines: 5, Rented: new(40.5), Used: new(20.25),
		Idle: new(10.125), Silent: new(6.5), Storage: new(1.25), Unmeasured: new(2.375), Unpriced: 1}, {Group: "lab", Machines: 1}}}
	h.desk.machines = map[string]providers.InstanceList{"vast": {Known: true, SyncedAt: at(-.01), Instances: []providers.Instance{
		{Provider: "vast", ID: "39467543", Name: "muster-x", State: "running", RawState: "running", GPU: "H100 SXM", GPUs: 8,
			Region:  "DE, Frankfurt",
			PerHour: &price, Node: "hgx-1", NodeID: "id-hgx-1", Status: wire.StatusStale, Lease: &lease},
		{Provider: "vast", ID: "2", State: "stopped", RawState: "exited", GPU: "RTX 4090", GPUs: 1, Lease: &over},
		{Provider: "vast", ID: "3", State: "broken", RawState: "offline", Why: "its host is gone", GPU: "RTX 4090", GPUs: 1},
		{Provider: "vast", ID: "4", State: "unknown", RawState: "frobnicated", Foreign: true},
		{Provider: "vast", ID: "5", State: "starting", RawState: "loading", GPU: "H200", GPUs: 8, PerHour: &price}}}}
}

// TestProvidersPage: findings stand with their cost and their command, accounts with the age of what is shown, machines with both states.
func TestProvidersPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lacks(t, "empty", b.get("/ui/providers"), "There is no account", "muster provider add", `aria-current="page">Providers</a>`)
	h.rented()
	got := b.get("/ui/providers")
	lacks(t, "providers", got, "<b>52.56</b> a day", "and 2 whose cost is not known", "■</span> billed silent", "◌</span> storage billed",
		"<code>muster provider onboard vast/39467543</code>", `href="/ui/nodes/id-hgx-1"`, "vast_ai: 2.19 an hour, at most 20.00",
		"not seen since", "Not judged yet: 2 of vast (starting for less than 30 minutes); <code>vast/9</code> (it is being destroyed).",
		"HTTP 503: busy", "not seen yet", "●</span> running", "▲</span> stopped", "■</span> broken", "◌</span> unknown", "◐</span> starting",
		`title="offline: its host is gone"`, "■</span> stale", "8 × H100 SXM", "of another gateway", "◐</span> ending", ">destroy</td>", "in 3 h",
		"/ui/assets/refresh.js", "1 without a price", "<b>40.50</b>", ">20.25<", ">10.12<", ">6.50<", ">1.25<",
		`data-label="Unmeasured" class="num">2.38<`, "<b>–</b>",
		`Leases <span class="count">2</span>`, `Machines <span class="count">5</span>`)
	got = b.get("/ui/providers?account=lab")
	lacks(t, "one account", got, "provider unknown", "No machine was seen.", "All accounts", `data-label="Provider">lab<`)
	if strings.Contains(got.body, "billed silent") || strings.Contains(got.body, "Not judged") ||
		!strings.HasSuffix(h.desk.asked[len(h.desk.asked)-3], "leases?provider=lab") {
		t.Errorf("one account shows others, or asked %q", h.desk.asked)
	}
	many := h.desk.machines["vast"]
	for range 500 {
		many.Instances = append(many.Instances, providers.Instance{Provider: "vast", ID: "n"})
	}
	h.desk.machines["vast"] = many
	lacks(t, "many", b.get("/ui/providers"), "and 5 more: <code>muster provider instances</code>")
	h.desk.plan.Findings = nil
	h.desk.leases, h.desk.cost = providers.LeaseList{}, providers.CostReport{}
	lacks(t, "well", b.get("/ui/providers"), "Nothing is found, as far as the accounts were seen", "No machine has an end.",
		"Nothing was charged, as far as it is known.")
	h.desk.fault = wire.Refuse(wire.CodeUnavailable, "the gateway still reads the fleet", "again in a moment")
	if got := b.get("/ui/providers"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "still reads the fleet") {
		t.Errorf("without an answer: %d", got.status)
	}
	_, token := h.account(store.Account{Name: "none", Scopes: []string{api.ScopeNodesRead}})
	if got := h.browser(token).get("/ui/fleet"); strings.Contains(got.body, "/ui/providers") {
		t.Error("who may not look is led there")
	}
}

// TestHostileProviders: what companies and people wrote is text.
func TestHostileProviders(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lease := providers.Lease{Provider: hostile, Instance: hostile, Node: hostile, Owner: hostile, State: hostile, Act: hostile, Why: hostile}
	h.desk.plan = providers.Plan{Providers: []providers.Account{{Name: "vast", Kind: hostile, Error: hostile, FailedAt: &h.now}},
		Findings: []providers.Finding{{Kind: hostile, Severity: hostile, Provider: hostile, Instance: hostile, Node: hostile, NodeID: hostile,
			Text: hostile, Next: hostile}}, Unjudged: []providers.Unjudged{{Provider: hostile, Machines: 1, Why: hostile}}}
	h.desk.leases = providers.LeaseList{Leases: []providers.Lease{lease}}
	h.desk.cost = providers.CostReport{Rows: []providers.CostRow{{Group: hostile}}}
	h.desk.machines = map[string]providers.InstanceList{"vast": {Instances: []providers.Instance{{Provider: hostile, ID: hostile,
		Name:     hostile,
		State:    hostile,
		RawState: hostile, Why: hostile, GPU: hostile, Region: hostile, Node: hostile, NodeID: hostile, Status: hostile, Lease: &lease}}}}
	got := b.get("/ui/providers")
	whole(t, "providers", got)
	if got.status != http.StatusOK || strings.Contains(got.body, hostile) {
		t.Errorf("%d, or something hostile is no text", got.status)
	}
}
