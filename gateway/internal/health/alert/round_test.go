package alert_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
	"muster/store"
)

// TestCauses lets every cause of the table begin and end: it fires when it has lasted, and is resolved when it is gone.
func TestCauses(t *testing.T) {
	price := 2.5
	finding := api.Finding{Rule: "remap_failed", Severity: api.SeveritySevere, Text: "GPU 0 is ill", Next: "Replace it."}
	own := api.Finding{Rule: condition.RenewalOverdue, Severity: api.SeverityWarn, Text: "its certificate is old"}
	used := 0
	type cause struct {
		begin, end func(*house, *api.NodeRow)
		text       string
	}
	causes := map[string]cause{
		condition.NodeStale: {func(_ *house, n *api.NodeRow) { stale(n); n.PricePerHour = &price }, func(h *house, n *api.NodeRow) { h.back(n) },
			"gpu-1: silent and still billing: not heard from since 2026-11-22T12:00:00Z"},
		condition.NodeUnavailable: {func(_ *house, n *api.NodeRow) {
			n.State = wire.StateUnavailable
			n.StateReasons = []string{wire.HealthProbeHung}
			n.Findings = []api.Finding{finding}
		}, func(_ *house, n *api.NodeRow) { n.State = wire.StateActive; n.Findings = nil }, "gpu-1 is unavailable: probe_hung; GPU 0 is ill"},
		condition.GPUCountDropped: {func(_ *house, n *api.NodeRow) {
			n.Findings = []api.Finding{missing()}
			n.State = wire.StateUnavailable
			n.StateReasons = []string{wire.HealthGPUCountDropped}
		}, func(_ *house, n *api.NodeRow) { n.Findings = nil; n.StateReasons = nil; n.State = wire.StateActive },
			"gpu-1: 1 of 2 GPUs answer"},
		condition.IdentityConflict: {func(_ *house, n *api.NodeRow) {
			n.State = wire.StateUnavailable
			n.StateReasons = []string{wire.ReasonConflict}
		}, func(_ *house, n *api.NodeRow) { n.StateReasons = nil; n.State = wire.StateActive }, "gpu-1: Two machines use the node's identity"},
		condition.RenewalOverdue: {func(_ *house, n *api.NodeRow) { n.Findings = []api.Finding{own} },
			func(_ *house, n *api.NodeRow) { n.Findings = nil }, "gpu-1: its certificate is old"},
		condition.FindingSevere: {func(_ *house, n *api.NodeRow) { n.State = wire.StateDrained; n.Findings = []api.Finding{finding} },
			func(_ *house, n *api.NodeRow) { n.Findings = nil }, "gpu-1: GPU 0 is ill"},
		condition.NodeWarning: {func(_ *house, n *api.NodeRow) {
			hot := api.Finding{Rule: "gpu_hot", Severity: api.SeverityWarn, Text: "GPU 0: it is at 95 C"}
			n.Findings = []api.Finding{{Rule: condition.NodeStale, Severity: api.SeverityWarn, Text: "its silence is told"}, hot, hot, hot, hot, hot,
				hot, hot}
		}, func(_ *house, n *api.NodeRow) { n.Findings = n.Findings[:1] }, "gpu-1: GPU 0: it is at 95 C" +
			strings.Repeat("; GPU 0: it is at 95 C", 4) + "; and 2 more"},
		condition.LogShippingFailing: {func(h *house, _ *api.NodeRow) {
			h.facts = []alert.Fact{{Condition: condition.LogShippingFailing, Subject: "prod", Since: h.now, Text: "it is broken"}}
		},
			func(h *house, _ *api.NodeRow) { h.facts = nil }, "it is broken"},
		condition.RolloutHalted: {func(h *house, _ *api.NodeRow) { h.facts = halt("stable") },
			func(h *house, _ *api.NodeRow) { h.facts = nil }, "2 of 2 failed"},
		condition.TokenMisuse: {func(h *house, _ *api.NodeRow) {
			h.desk.Take(context.Background(), []store.Event{
				{At: h.now, Kind: "enrol.refused", Outcome: wire.CodeTokenUsed, Tenant: "platform", Address: "192.0.2.1"},
				{At: h.now, Kind: "enrol.refused", Outcome: wire.CodeBadMAC, Tenant: "platform", Address: "192.0.2.7",
					Detail: map[string]string{"more": "40"}}})
		}, func(h *house, _ *api.NodeRow) { h.now = h.now.Add(time.Hour) },
			"tokens of platform were refused 41 times, the last from 192.0.2.7 with bad_mac"},
		condition.GatewayCannotWrite: {func(h *house, _ *api.NodeRow) { h.facts = outage(h.now) },
			func(h *house, _ *api.NodeRow) { h.facts = nil },
			"disk full"},
		condition.GatewayAlone: {func(h *house, _ *api.NodeRow) {
			h.facts = []alert.Fact{{Condition: condition.GatewayAlone, Subject: "gateways", Since: h.now, Text: "no gateway stands by"}}
		}, func(h *house, _ *api.NodeRow) { h.facts = nil }, "no gateway stands by"},
		condition.AllocationEnding: {func(h *house, _ *api.NodeRow) {
			h.facts = []alert.Fact{{Condition: condition.AllocationEnding, Subject: "7xk2mnb4qz6wpa3d", Since: h.now, Text: "it ends soon"}}
		}, func(h *house, _ *api.NodeRow) { h.facts = nil }, "it ends soon"},
		condition.StoreNodeSilent: {func(h *house, _ *api.NodeRow) {
			h.facts = []alert.Fact{{Condition: condition.StoreNodeSilent, Subject: "10.0.0.1:4001", Since: h.now, Text: "it does not answer"}}
		}, func(h *house, _ *api.NodeRow) { h.facts = nil }, "it does not answer"},
	}
	for _, c := range condition.All() {
		if c.Topic == "providers" || c.Topic == "maas" { // they are facts with a command of their own
			f := alert.Fact{Condition: c.Name, Subject: "vast/7", Text: "vast/7: it costs", Next: "muster provider destroy vast 7"}
			causes[c.Name] = cause{func(h *house, _ *api.NodeRow) { h.facts = []alert.Fact{f} }, func(h *house, _ *api.NodeRow) { h.facts = nil },
				f.Text}
		}
	}
	for name, c := range causes {
		used++
		n := gpu("gpu-1")
		h := newHouse(t, n, gpu("gpu-2"))
		h.step()
		h.want(name+" before", "")
		c.begin(h, n)
		hold := holdOf(t, name)
		if hold > 0 {
			h.pass(hold)
			h.want(name+" too early", "")
		}
		h.pass(5 * time.Second)
		list := h.desk.List(alert.Query{})
		if len(list) != 1 || list[0].Cause != name || !strings.HasPrefix(list[0].Text, c.text) || list[0].Next == "" || list[0].Topic == "" ||
			len(h.facts) > 0 && h.facts[0].Next != "" && list[0].Next != h.facts[0].Next ||
			strings.Contains(list[0].Next, "NAME") { // who is told has a command to copy
			t.Errorf("%s: %+v", name, list)
			continue
		}
		h.pass(3 * time.Minute)
		if got := h.count("alert.fired"); got != 1 {
			t.Errorf("%s fired %d times", name, got)
		}
		c.end(h, n)
		h.pass(90 * time.Second)
		h.want(name+" at its end", "")
		if got := h.count("alert.resolved"); got != 1 {
			t.Errorf("%s was resolved %d times", name, got)
		}
	}
	for _, c := range condition.All() {
		if c.IsTold() {
			used--
		}
	}
	if used != 0 {
		t.Errorf("%d more are tried than make alerts", used)
	}
}

func holdOf(t *testing.T, name string) time.Duration {
	t.Helper()
	c := condition.Named(name)
	if c == nil || !c.IsTold() {
		t.Fatalf("%s makes no alert", name)
	}
	return c.Told.For
}

// missing is found on a node that lost a GPU.
func missing() api.Finding {
	return api.Finding{Rule: condition.GPUCountDropped, Severity: api.SeveritySevere, Text: "1 of 2 GPUs answer", Next: "Restart it."}
}

// TestUnknown: what is not known neither fires nor resolves.
func TestUnknown(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	h.ready = false
	stale(n)
	h.pass(5 * time.Minute)
	h.want("before the nodes are known", "")
	h.ready = true
	h.back(n)
	n.Findings = []api.Finding{missing()}
	h.pass(time.Minute)
	h.want("it lost a GPU", "gpu_count_dropped gpu-1")
	stale(n)
	h.pass(30 * time.Second)
	h.want("an old finding cures nothing", "gpu_count_dropped gpu-1")
	h.nodes = nil
	h.step()
	h.want("the node is retired", "")
	n.Status = wire.StatusStale
	h.nodes = []*api.NodeRow{n}
	h.pass(50 * time.Second)
	h.want("an old finding is no news", "")
}

// TestReason: a reason of a node's state counts without its finding, and says what the table says. With a finding that is the text.
func TestReason(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	n.State = wire.StateUnavailable
	n.StateReasons = []string{wire.HealthGPUCountDropped}
	h.pass(time.Minute)
	h.want("it lost a GPU", "gpu_count_dropped gpu-1")
	text := func(want string) {
		t.Helper()
		if list := h.desk.List(alert.Query{}); len(list) != 1 || list[0].Text != "gpu-1: "+want || list[0].Next == "" {
			t.Errorf("%+v, want %s", list, want)
		}
	}
	text(condition.Named(condition.GPUCountDropped).Meaning)
	n.Findings = []api.Finding{missing()}
	h.pass(5 * time.Second)
	text("1 of 2 GPUs answer")
	n.StateReasons = nil
	n.State = wire.StateActive
	n.Findings = nil
	h.pass(15 * time.Second)
	h.want("well, but not for long enough", "gpu_count_dropped gpu-1")
	h.pass(5 * time.Second)
	h.want("it is well", "")
}

// TestPerson: what a person did is no news.
func TestPerson(t *testing.T) {
	n := gpu("gpu-1")
	n.State = wire.StateUnavailable
	n.StateReasons = []string{wire.ReasonSuspended}
	h := newHouse(t, n)
	h.pass(5 * time.Minute)
	h.want("a person suspended it", "")
}

// TestFlapping: a node that comes and goes fires once at most, and only if it stays away for long enough.
func TestFlapping(t *testing.T) {
	n := gpu("gpu-1")
	h := newHouse(t, n)
	for range 10 {
		stale(n)
		h.pass(40 * time.Second)
		h.back(n)
		h.pass(20 * time.Second)
	}
	h.want("short silences", "")
	stale(n)
	h.pass(2 * time.Minute)
	for range 10 {
		h.back(n)
		h.pass(40 * time.Second)
		stale(n)
		h.pass(20 * time.Second)
	}
	if got := h.count("alert.fired"); got != 1 || h.count("alert.resolved") != 0 {
		t.Errorf("it fired %d times and was resolved %d times", got, h.count("alert.resolved"))
	}
}

// fleet is so many nodes.
func fleet(n int) []*api.NodeRow {
	var all []*api.NodeRow
	for i := range n {
		all = append(all, gpu(fmt.Sprintf("gpu-%02d", i)))
	}
	return all
}

// TestTwenty: up to twenty stale nodes of a tenant are told of one by one.
func TestTwenty(t *testing.T) {
	for _, c := range []struct{ stale, want int }{{20, 20}, {21, 1}} {
		h := newHouse(t, fleet(40)...)
		for _, n := range h.nodes[:c.stale] {
			stale(n)
		}
		h.pass(2 * time.Minute)
		if got := len(h.desk.List(alert.Query{})); got != c.want {
			t.Errorf("%d stale nodes make %d alerts, want %d", c.stale, got, c.want)
		}
	}
}

// TestMany: many nodes that turn silent at once are one alert, until a few are left.
func TestMany(t *testing.T) {
	h := newHouse(t, fleet(40)...)
	for i, n := range h.nodes[:25] {
		stale(n)
		if i%5 == 4 {
			h.pass(5 * time.Second)
		}
	}
	h.pass(2 * time.Minute)
	h.want("25 of 40", "node_stale 25 nodes")
	list := h.desk.List(alert.Query{})
	if list[0].Text != "25 of 40 nodes turned silent at once: gpu-00, gpu-01, gpu-02, gpu-03, gpu-04, ..." || list[0].Tenant != "platform" ||
		list[0].Severity != wire.SeveritySevere {
		t.Errorf("%+v", list[0])
	}
	stale(h.nodes[30])
	h.pass(2 * time.Minute)
	h.want("one more soon after", "node_stale 26 nodes")
	h.pass(10 * time.Minute)
	stale(h.nodes[31])
	h.pass(2 * time.Minute)
	h.want("one more long after", "node_stale 26 nodes, node_stale gpu-31")
	for _, n := range h.nodes[:23] {
		h.back(n)
	}
	h.back(h.nodes[31])
	h.pass(2 * time.Minute)
	h.want("three are left", "node_stale gpu-23, node_stale gpu-24, node_stale gpu-30")
	for _, n := range h.nodes {
		h.back(n)
	}
	h.pass(2 * time.Minute)
	h.want("all are back", "")
	if fired, resolved := h.count("alert.fired"), h.count("alert.resolved"); fired != 5 || resolved != 5 {
		t.Errorf("%d fired, %d were resolved", fired, resolved)
	}
}

// TestWhole: all nodes of a tenant are one alert where they are three or more; those of another tenant are their own.
func TestWhole(t *testing.T) {
	h := newHouse(t, fleet(5)...)
	h.nodes[3].Tenant = "other"
	h.nodes[4].Tenant = "other"
	for _, n := range h.nodes {
		stale(n)
	}
	h.pass(2 * time.Minute)
	h.want("all are silent", "node_stale 3 nodes, node_stale gpu-03, node_stale gpu-04")
}

// TestTenantsApart: the silent nodes of one tenant join no alert about those of another one.
func TestTenantsApart(t *testing.T) {
	h := newHouse(t, fleet(6)...)
	for i, n := range h.nodes {
		if i%2 == 1 {
			n.Tenant = "other"
		}
	}
	for first, want := range []string{"node_stale 3 nodes", "node_stale 3 nodes, node_stale 3 nodes"} {
		for i, n := range h.nodes {
			if i%2 == first {
				stale(n)
			}
		}
		h.pass(2 * time.Minute)
		h.want("so many tenants are silent", want)
	}
}

// TestRestart: a desk that is opened anew goes on with what fires, alone or in a group, and fires nothing twice. Just after a start the
// gateway calls nobody stale: that is no cure.
func TestRestart(t *testing.T) {
	h := newHouse(t, fleet(31)...)
	for _, n := range h.nodes[:21] {
		stale(n)
	}
	other := h.nodes[30]
	other.Tenant = "other"
	stale(other)
	h.pass(2 * time.Minute)
	const both = "node_stale 21 nodes, node_stale gpu-30"
	h.want("before", both)
	h.open()
	h.want("after", both)
	for _, n := range h.nodes {
		n.Status = wire.StatusOnline
	}
	h.pass(5 * time.Minute)
	h.want("the gateway has just started", both)
	for _, n := range h.nodes[:21] {
		stale(n)
	}
	stale(other)
	h.pass(15 * time.Minute)
	h.want("they are stale again", both)
	for _, n := range h.nodes {
		h.back(n)
	}
	h.pass(2 * time.Minute)
	h.want("they are back", "")
	if fired, resolved := h.count("alert.fired"), h.count("alert.resolved"); fired != 2 || resolved != 2 {
		t.Errorf("%d fired, %d were resolved", fired, resolved)
	}
}

// TestFewAfterARestart: three nodes that were silent as a group when the gateway was started again, and are heard since, are told as back,
// and none alone as silent.
func TestFewAfterARestart(t *testing.T) {
	nodes := fleet(3)
	h := newHouse(t, nodes...)
	k := newHook(t)
	h.receiver(alert.KindWebhook, "ops", k)
	for _, n := range nodes {
		stale(n)
	}
	h.pass(2 * time.Minute)
	h.want("before", "node_stale 3 nodes")
	h.open()
	for range 180 {
		for _, n := range nodes {
			h.back(n)
		}
		h.pass(5 * time.Second)
	}
	h.want("they are back", "")
	if fired, states := h.count("alert.fired"), k.states(); fired != 1 || states != "firing resolved" {
		t.Errorf("%d fired, the receiver heard %q", fired, states)
	}
}

// TestMisuse: one alert an hour and tenant, for tokens that are on record; also after a restart.
func TestMisuse(t *testing.T) {
	h := newHouse(t)
	refuse := func(kind, code, tenant string, detail map[string]string) {
		h.desk.Take(t.Context(), []store.Event{{At: h.clock(), Kind: kind, Outcome: code, Tenant: tenant, Detail: detail}})
	}
	refuse("enrol.refused", wire.CodeUnknownCredential, "", nil)
	refuse("enrol.refused", wire.CodeNameInUse, "platform", nil)
	refuse("bootstrap.refused", wire.CodeTokenWrongRoute, "", map[string]string{"token": "mse_invented"})
	refuse("node.enrolled", wire.CodeTokenUsed, "platform", nil)
	refuse("admin.refused", wire.CodeUnauthorized, "", nil)
	h.pass(time.Minute)
	h.want("nothing of ours", "")
	refuse("admin.refused", wire.CodeUnauthorized, "", map[string]string{"account": "ci"})
	refuse("bootstrap.refused", wire.CodeTokenWrongRoute, "platform", nil)
	h.pass(time.Minute)
	h.want("two", "token_misuse *, token_misuse platform")
	h.open()
	h.pass(30 * time.Minute)
	h.want("after a restart", "token_misuse *, token_misuse platform")
	refuse("enrol.refused", wire.CodeTokenUsed, "platform", nil)
	h.pass(31 * time.Minute)
	refuse("enrol.refused", wire.CodeTokenUsed, "platform", nil)
	h.pass(time.Minute)
	if n := h.count("alert.fired"); n > 3 {
		t.Errorf("%d alerts in an hour", n)
	}
}

// TestPlainToken: a token that others may have read is to be revoked, whatever else was refused.
func TestPlainToken(t *testing.T) {
	h := newHouse(t)
	refused := store.Event{At: h.clock(), Kind: "admin.refused", Outcome: wire.CodeTLSRequired, Address: "127.0.0.1",
		Detail: map[string]string{"account": "ci"}}
	later := store.Event{At: h.clock(), Kind: "enrol.refused", Outcome: wire.CodeTokenUsed, Address: "10.0.0.9"}
	h.desk.Take(t.Context(), []store.Event{refused, refused, later})
	h.pass(time.Minute)
	const want = "the API token of ci came over plain HTTP from 127.0.0.1: muster account revoke ci"
	if list := h.desk.List(alert.Query{}); len(list) != 1 || list[0].Text != want {
		t.Errorf("got %+v", list)
	}
}

// TestRun: the desk works by itself, and writes what it knows when it ends.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := gpu("gpu-1")
		stale(n)
		h := newHouse(t, n)
		h.config.Now = time.Now
		h.open()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.desk.Run(ctx) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		h.must(<-ended)
		h.open()
		h.want("after a run", "node_stale gpu-1")
	})
}
