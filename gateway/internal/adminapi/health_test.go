package adminapi_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
)

// withHealth opens a desk of health that knows the nodes by their names, and has them judged by one heartbeat each.
func (h *house) withHealth(sick ...string) {
	h.t.Helper()
	node := func(id string) (*api.NodeRow, bool) {
		n, err := h.store.Node(h.t.Context(), "", id)
		return &api.NodeRow{ID: n.ID, Name: n.Name, Tenant: n.Tenant, State: n.State, Labels: n.Labels}, err == nil
	}
	desk, err := health.Open(h.t.Context(), health.Config{
		Records: records.New(h.store.Records()), Ready: h.api.Overview.Ready, Node: node,
		Nodes: func() []*api.NodeRow { return nil },
		Judge: func(ctx context.Context, id string, add map[string]string, remove []string) error {
			return h.api.Fleet.Judge(ctx, id, add, remove)
		},
		Now: func() time.Time { return h.now },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api.Health = desk
	failed := true
	for _, name := range sick {
		n, err := h.store.Node(h.t.Context(), "", name)
		if err != nil {
			h.t.Fatal(err)
		}
		desk.Take(h.t.Context(), []view.Sample{{NodeID: n.ID, At: h.now, Interval: time.Minute, Hardware: &wire.Hardware{
			Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &h.now},
			GPUs:  []wire.GPU{{UUID: "GPU-0", RemappedRows: &wire.Remaps{Failure: &failed}}}}}})
	}
	if err := desk.Flush(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// TestFindings: what is wrong is shown to those who may see the node, in a list and with the node, and the node is kept from work.
func TestFindings(t *testing.T) {
	h := newHouse(t)
	h.node("ours", "platform", oneGPU)
	h.node("well", "platform", oneGPU)
	h.node("theirs", "research", oneGPU)
	h.withHealth("ours", "theirs")
	reader := h.account("r", "research", "nodes:read")
	for _, c := range []struct{ query, token, want string }{
		{"", "", "ours theirs"},
		{"?selector=name%3Dours&severe=true", "", "ours"},
		{"?tenant=research", "", "theirs"},
		{"", reader, "theirs"},
		{"?selector=name%3Dours", reader, ""},
	} {
		status, body := h.ask("GET", "findings"+c.query, c.token, "")
		list := decode[api.FindingList](t, body)
		var names []string
		for _, f := range list.Findings {
			names = append(names, f.Node)
			if f.Rule != condition.RemapFailed || f.Severity != api.SeveritySevere || f.GPU != "GPU-0" || f.Next == "" || f.Topic != "gpus" {
				t.Errorf("finding %+v", f)
			}
		}
		if got := strings.Join(names, " "); status != 200 || got != c.want || list.Total != len(names) || list.Findings == nil {
			t.Errorf("%s: %d %s", c.query, status, body)
		}
	}
	_, body := h.ask("GET", "nodes/ours", "", "")
	if d := decode[api.NodeDetail](t, body); len(d.Findings) != 1 || d.State != wire.StateUnavailable ||
		d.StateDetails[condition.RemapFailed] == "" {
		t.Errorf("the node: %s", body)
	}
	_, body = h.ask("GET", "nodes/well", "", "")
	if d := decode[api.NodeDetail](t, body); d.Findings == nil || len(d.Findings) != 0 || d.State != wire.StateActive {
		t.Errorf("a node that is well: %s", body)
	}
	for _, query := range []string{"?severe=perhaps", "?selector=,", "?selector=status%3Dasleep", "?since=now"} {
		if status, body := h.ask("GET", "findings"+query, "", ""); status != 400 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

// TestHealthRules: rules are listed, set and set back, and each change is an event of whoever made it.
func TestHealthRules(t *testing.T) {
	h := newHouse(t)
	h.withHealth()
	_, body := h.ask("GET", "health-rules", "", "")
	list := decode[api.HealthRuleList](t, body)
	looked := slices.DeleteFunc(condition.All(), func(c condition.Condition) bool { return !c.IsFound() })
	if len(list.Rules) != len(looked) || list.Rules[0].Settings == nil || list.Rules[0].Limit != nil {
		t.Fatalf("rules: %s", body)
	}
	for i, c := range looked {
		if r := list.Rules[i]; r.Rule != c.Name || r.Severity != c.Severity || r.Meaning != c.Meaning || r.Next != c.Next || r.Topic != c.Topic {
			t.Errorf("the rule %+v is not the condition %+v", r, c)
		}
	}
	status, body := h.ask("PUT", "health-rules/gpu_hot", "", `{"selector":"tier=lab","limit":80}`)
	r := decode[api.HealthRule](t, body)
	if status != 200 || r.Rule != "gpu_hot" || *r.Limit != 90 || len(r.Settings) != 1 || *r.Settings[0].Limit != 80 || r.Subject != "gpu" ||
		r.Settings[0].Selector != "tier=lab" || r.Settings[0].SetBy == "" {
		t.Errorf("set: %d %s", status, body)
	}
	if status, body = h.ask("DELETE", "health-rules/gpu_hot?selector=tier%3Dlab", "", ""); status != 200 {
		t.Errorf("unset: %d %s", status, body)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"DELETE", "health-rules/gpu_hot", "", 404},
		{"DELETE", "health-rules/gpu_hot?rule=x", "", 400},
		{"PUT", "health-rules/gpu_sad", `{"off":true}`, 404},
		{"PUT", "health-rules/gpu_hot", `{}`, 400},
		{"PUT", "health-rules/gpu_hot", `{"off":true,"selector":"a=msa_abcdefgh1234_abcdefghijklmnopqrstuvwxyz"}`, 400},
		{"GET", "health-rules?all=true", "", 400},
	} {
		if status, body := h.ask(c.method, c.path, "", c.body); status != c.want {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, body)
		}
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "health.rule_set"})
	if err != nil || len(events) != 1 || !events[0].Security || events[0].Detail["limit"] != "80" {
		t.Errorf("events %+v, error %v", events, err)
	}
}
