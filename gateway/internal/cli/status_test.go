package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
)

// played answers as a gateway does, by path; a path that it has no answer for is one that an old gateway does not have. An answer that is
// an error is a refusal.
type played map[string]any

func (p played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, there := p[strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin)]
	refusal, refused := answer.(*wire.ErrorDetail)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !there:
		w.WriteHeader(http.StatusNotFound)
		answer = wire.Error{Error: wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is nothing at this path"}}
	case refused:
		w.WriteHeader(http.StatusForbidden)
		answer = wire.Error{Error: *refusal}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func forbidden(scope string) *wire.ErrorDetail {
	return &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "the account lacks the scope " + scope}
}

// wrongFleet is a gateway whose fleet has eight things wrong with it.
func wrongFleet(now time.Time) played {
	yes := true
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	price, idle, silent := 14.2, 2.1, 1.1
	alert := func(id, cause, severity, node string, since time.Duration, text string) api.Alert {
		a := api.Alert{AlertFacts: api.AlertFacts{ID: id, Cause: cause, Severity: severity, Node: node, Text: text, Since: ago(since)}}
		if node != "" {
			a.NodeID = "id-" + node
		}
		return a
	}
	finding := func(node, rule, severity string, since time.Duration, text string) api.NodeFinding {
		return api.NodeFinding{Node: node, NodeID: "id-" + node, Finding: api.Finding{Rule: rule, Severity: severity, Since: ago(since),
			Text: text, Next: "Look."}}
	}
	silenced := alert("al-3", "node_stale", "severe", "gpu-3", time.Hour, "gpu-3: it is silent.")
	silenced.Silence = &api.AlertSilence{ID: "si-1"}
	p := played{
		"gateway": api.Gateway{URL: "https://gw.example:7443", Version: "1.2.3", At: now, StartedAt: ago(73 * time.Hour), Ready: &yes},
		"fleet": api.FleetView{At: now, Nodes: []api.NodeRow{{ID: "id-gpu-7", PricePerHour: &price},
			{ID: "id-gpu-5", PricePerHour: &idle}}, Totals: api.Totals{Nodes: 13, States: map[string]int{"active": 10, "drained": 2, "retired": 1},
			Statuses: map[string]int{"online": 10, "stale": 2}, Unheard: 1, GPUsExpected: 44, GPUsSeen: 40, GPUsBusy: 17, GPUsIdle: 18,
			GPUsQuiet: 3, GPUsUnknown: 2,
			Rent: api.Rent{Priced: 11, Unpriced: 1, PricePerHour: &price, IdleCostPerHour: &idle, SilentCostPerHour: &silent}}},
		"findings": api.FindingList{Total: 6, Findings: []api.NodeFinding{
			finding("gpu-7", "gpu_count_dropped", "severe", 3*time.Hour, "7 of 8 GPUs answer."),
			finding("gpu-7", "gpu_hot", "warn", 5*time.Hour, "GPU 3 has 91 C."),
			finding("gpu-1", "disk_full", "warn", 2*time.Hour,
				"its disk is full to 97 %, which is so long a text that no screen of eighty columns has room for it."),
			finding("gpu-2", "gpu_hot", "warn", time.Hour, "GPU 0 has 90 C."),
			finding("gpu-4", "gpu_hot", "warn", time.Hour, "GPU 0 has 90 C."),
			finding("gpu-5", "gpu_hot", "warn", 30*time.Minute, "GPU 0 has 90 C.")}},
		"alerts": api.AlertList{Total: 5, Alerts: []api.Alert{
			alert("al-1", "finding_severe", "severe", "gpu-7", 2*time.Hour, "gpu-7: something severe is found."),
			alert("al-2", "rollout_halted", "severe", "", 4*time.Hour, "the rollout on the channel stable was halted."),
			silenced,
			alert("al-4", "node_stale", "warn", "gpu-8", time.Minute, "gpu-8: it is silent."),
			alert("al-5", "token_misuse", "warn", "", time.Second, "a token \x1b[31mwas used.")}},
	}
	return p
}

// TestStatus: the whole report fits on a screen of 80 columns and 24 lines, the severe first, and each trouble once.
func TestStatus(t *testing.T) {
	h := newHouse(t)
	h.dir = listen(t, wrongFleet(h.now))
	h.screen = 80
	out := h.done("status")
	kit.Golden(t, "status-80.golden", out)
	if n := strings.Count(out, "\n"); n > 23 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	h.screen = 0
	var r api.StatusReport
	if err := json.Unmarshal([]byte(h.done("status", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, w := range r.Wrong {
		order = append(order, w.Cause+" "+w.Node+" "+w.Alert)
	}
	const want = "[gpu_count_dropped gpu-7 al-1 rollout_halted  al-2 gpu_hot gpu-5  disk_full gpu-1  gpu_hot gpu-2  gpu_hot gpu-4  " +
		"node_stale gpu-8 al-4 token_misuse  al-5]"
	if got := fmt.Sprint(order); got != want || r.WrongTotal != 8 || r.Severe != 2 || r.Silenced != 1 || r.Fleet.GPUsIdle != 18 ||
		r.Fleet.Unheard != 1 {
		t.Errorf("got %s\nwant %s\n%+v", got, want, r)
	}
}

// TestStatusSilenced: a finding of which the alert is silenced is left out, also if one alert sums up several.
func TestStatusSilenced(t *testing.T) {
	h := newHouse(t)
	finding := func(node, rule, severity string) api.NodeFinding {
		return api.NodeFinding{Node: node, NodeID: "id-" + node, Finding: api.Finding{Rule: rule, Severity: severity, Since: h.now, Text: rule}}
	}
	alert := func(node, cause string, silence *api.AlertSilence) api.Alert {
		return api.Alert{Silence: silence, AlertFacts: api.AlertFacts{ID: "al-" + node + cause, Cause: cause, Severity: api.SeverityWarn,
			Node: node, NodeID: "id-" + node, Text: cause, Since: h.now}}
	}
	silence := &api.AlertSilence{ID: "si-1"}
	p := wrongFleet(h.now)
	p["findings"] = api.FindingList{Findings: []api.NodeFinding{
		finding("own", "gpu_count_dropped", "severe"), finding("other", "gpu_count_dropped", "severe"),
		finding("summed", "gpu_hot", "warn"), finding("summed-severe", "gpu_fault", "severe"),
		finding("told", "renewal_overdue", "warn"), finding("worse", "gpu_fault", "severe")}}
	p["alerts"] = api.AlertList{Alerts: []api.Alert{
		alert("own", "gpu_count_dropped", silence), alert("other", "node_stale", silence), alert("summed", "node_warning", silence),
		alert("summed-severe", "finding_severe", silence), alert("told", "renewal_overdue", nil), alert("told", "node_warning", silence),
		alert("worse", "node_warning", silence)}}
	h.dir = listen(t, p)
	var r api.StatusReport
	if err := json.Unmarshal([]byte(h.done("status", "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, w := range r.Wrong {
		nodes = append(nodes, w.Node)
	}
	if got := fmt.Sprint(nodes); got != "[other worse told]" || r.Silenced != 6 {
		t.Errorf("%s, silenced: %d", got, r.Silenced)
	}
}

// TestStatusInPart: what may not be read, or what an old gateway does not say, is named, and is never a zero.
func TestStatusInPart(t *testing.T) {
	h := newHouse(t)
	no := false
	for name, c := range map[string]struct {
		change func(played)
		want   []string
		not    string
	}{
		"few scopes": {func(p played) {
			p["fleet"], p["findings"], p["alerts"] = forbidden("nodes:read"), forbidden("nodes:read"), forbidden("alerts:read")
		}, []string{"muster 1.2.3, up 3d, ready\n", "wrong     nothing in what was read\n",
			"fleet     not shown: the account lacks the scope nodes:read\n",
			"alerts    not shown: the account lacks the scope alerts:read\n"}, "GPUs"},
		"no findings": {func(p played) { p["findings"] = forbidden("nodes:read") },
			[]string{"wrong     4, severe: 2, silenced: 1\n", "findings  not shown: "}, "nothing"},
		"an old gateway": {func(p played) {
			p["gateway"] = api.Gateway{URL: "https://gw", Version: "0.1.0"}
			delete(p, "fleet")
		}, []string{"gateway  https://gw, muster 0.1.0, ready or not: not known\n",
			"fleet    not shown: there is nothing at this path\n"}, "up "},
		"a full disk": {func(p played) {
			p["gateway"] = api.Gateway{URL: "https://gw", Version: "0.1.0", Ready: &no}
		}, []string{"NOT ready: its database takes no writes (muster doctor)\n"}, "or not"},
		"nothing there": {func(p played) {
			p["fleet"], p["findings"], p["alerts"] = api.FleetView{}, api.FindingList{}, api.AlertList{}
		}, []string{"fleet    no node: muster token create prints", "GPUs     none are seen\n", "cost     nothing: there is no node",
			"wrong    nothing is found\n"}, "severe"},
		"a stale node": {func(p played) {
			p["fleet"] = api.FleetView{Totals: api.Totals{Nodes: 1, Statuses: map[string]int{"stale": 1}}}
			p["findings"], p["alerts"] = api.FindingList{}, api.AlertList{}
		}, []string{"wrong    nothing is found; 1 stale node: muster ls --status stale, muster help stale-node\n"}, "severe"},
	} {
		p := wrongFleet(h.now)
		c.change(p)
		h.dir = listen(t, p)
		out := h.done("status")
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
		if strings.Contains(out, c.not) {
			t.Errorf("%s: %q is in\n%s", name, c.not, out)
		}
	}
	h.dir = t.TempDir()
	if code, _, errs := h.muster("status"); code != 1 || !strings.Contains(errs, "no gateway answers at") {
		t.Errorf("no gateway: %d %s", code, errs)
	}
}
