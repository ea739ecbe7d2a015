package main

import (
	"context"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/view"
	"muster/store"
	slots "muster/store/placement"
	"muster/store/storetest"
)

// TestAssignProfile: a machine that is about to be installed anew gets the profile that no host has beside its own.
func TestAssignProfile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := storetest.Open(t, func() time.Time { return now })
	n := store.Node{ID: "n", Name: "rack-2", Tenant: "lab", State: wire.StateDrained, CreatedAt: now, StateSince: now}
	if err := s.CreateNode(t.Context(), n, nil); err != nil {
		t.Fatal(err)
	}
	seen := view.Open(view.Config{Store: s, Ref: func() store.StatusRef { return store.StatusRef{Now: now} }})
	seen.Load(t.Context())
	p, err := placement.Open(t.Context(), placement.Config{Config: inventory.Config{Store: s, Records: slots.New(s.Records()),
		Ready: seen.Ready, Node: seen.Row, Nodes: seen.Nodes, Placed: seen.Placed,
		Taken: func(*api.NodeRow) []string { return nil },
		Send:  func(context.Context, inventory.Order) error { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{api.ProfileBareMetal, api.ProfileSliceVM, api.ProfileSliceVM} {
		if err := assignProfile(t.Context(), p, "n", name, store.Actor{Name: "maas"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := p.Assign(t.Context(), placement.Caller{Write: true}, api.AssignRequest{Profile: api.ProfileBareMetal, Nodes: []string{"n"}})
	if err != nil || all.Nodes[0].Before != api.ProfileSliceVM || all.Nodes[0].Refused == "" {
		t.Errorf("by hand, while it is installed: %+v, %v", all, err)
	}
}
