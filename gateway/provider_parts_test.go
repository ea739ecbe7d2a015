package main

import (
	"slices"
	"testing"
	"time"

	"muster/gateway/internal/label"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/view"
	"muster/store"
	"muster/store/storetest"
)

// TestWorkOfPeople: a check that the gateway makes by itself keeps no machine from its end.
func TestWorkOfPeople(t *testing.T) {
	t.Parallel()
	got := ofPeople([]store.Task{{ID: "a", CreatedBy: inventory.ByGateway}, {ID: "b", CreatedBy: "account:ada"}})
	if !slices.Equal(got, []string{"the task b"}) {
		t.Errorf("got %q", got)
	}
}

// TestNodeOfInstance: a node is found by the instance that it says it is, in the words of its company; the newest of several. What nodes
// cost is known where each has a price.
func TestNodeOfInstance(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := storetest.Open(t, func() time.Time { return now })
	for i, n := range []store.Node{{ID: "old", Provider: cloud.Vast, InstanceID: "7"}, {ID: "new", Provider: cloud.Vast, InstanceID: "C.7"},
		{ID: "pod", Provider: cloud.RunPod, InstanceID: "7"}, {ID: "mute", Provider: cloud.Lambda}} {
		n.Name, n.Tenant, n.CreatedAt, n.StateSince = n.ID, "lab", now.Add(time.Duration(i)*time.Minute), now
		labels := map[string]string{}
		if n.ID == "old" {
			labels[label.Price] = "1.5"
		}
		if err := s.CreateNode(t.Context(), n, labels); err != nil {
			t.Fatal(err)
		}
	}
	seen := view.Open(view.Config{Store: s, Ref: func() store.StatusRef { return store.StatusRef{Now: now} }})
	seen.Load(t.Context())
	r := &rental{base: base{sight: &sight{overview: seen}}}
	for _, c := range []struct{ kind, instance, want string }{{cloud.Vast, "7", "new"}, {cloud.RunPod, "7", "pod"}, {cloud.Lambda, "", ""},
		{cloud.Vast, "8", ""}} {
		n, known := r.nodeOf(c.kind, c.instance)
		if known != (c.want != "") || known && n.ID != c.want {
			t.Errorf("%s/%s: %+v", c.kind, c.instance, n)
		}
	}
	if n, known := r.named("old"); !known || n.ID != "old" {
		t.Errorf("by name: %+v", n)
	}
	for want, names := range map[string][]string{"$3.00": {"old", "old"}, "": {"old", "pod"}} {
		if got := r.cost(names); got != want {
			t.Errorf("%v cost %q, want %q", names, got, want)
		}
	}
	if _, known := r.named("none"); known {
		t.Error("a name that nobody has was found")
	}
}
