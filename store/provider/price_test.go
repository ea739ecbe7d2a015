package provider_test

import (
	"errors"
	"testing"
	"time"

	"muster/store"
	"muster/store/engine"
	"muster/store/provider"
	"muster/store/storetest"
)

// TestSetPrice: a company's price hides what the agent says, and never what a person or a credential said or took away.
func TestSetPrice(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, nil)
	ctx := t.Context()
	r := provider.New(s.Records())
	const key = "price_per_hour"
	enrol := func(name string, credential, agent map[string]string) {
		t.Helper()
		must(t, s.CreateNode(ctx, store.Node{ID: name, Name: name, Tenant: "lab", CreatedAt: time.Now()}, nil))
		for origin, labels := range map[int64]map[string]string{1: credential, store.OriginAgent: agent} {
			for key, value := range labels {
				_, err := s.Records().Batch(ctx, []engine.Statement{engine.Do("INSERT INTO labels(node_id, key, value, origin) VALUES (?, ?, ?, ?)",
					name, key, value, origin)})
				must(t, err)
			}
		}
	}
	none, one := map[string]string(nil), map[string]string{key: "1"}
	enrol("nothing", none, none)
	enrol("agent", none, one)
	enrol("credential", one, none)
	enrol("person", none, none)
	enrol("removed", none, one)
	must(t, s.SetLabels(ctx, "person", one, nil))
	must(t, s.SetLabels(ctx, "removed", nil, []string{key}))
	for node, want := range map[string]string{"nothing": "2", "agent": "2", "credential": "1", "person": "1", "removed": ""} {
		must(t, r.SetPrice(ctx, node, "3"))
		must(t, r.SetPrice(ctx, node, "2", store.Event{At: time.Now(), Kind: "node.labelled", NodeID: node}))
		again := r.SetPrice(ctx, node, "2", store.Event{At: time.Now(), Kind: "node.labelled", NodeID: node})
		if err := again; !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: the same again is %v", node, err)
		}
		n, err := s.Node(ctx, "", node)
		must(t, err)
		if got := n.Labels[key]; got != want {
			t.Errorf("%s has the price %q, want %q", node, got, want)
		}
	}
	if err := r.SetPrice(ctx, "none", "1"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a node that is not there: %v", err)
	}
	events, err := s.Events(ctx, store.EventQuery{Kind: "node.labelled"})
	must(t, err)
	if len(events) != 5 {
		t.Errorf("%d events, want one for each change", len(events))
	}
}
