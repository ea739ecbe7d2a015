package provider_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/provider/cloud"
)

// TestGone: what a view has shown, and the company says is gone, is gone however young its node is. What no view has shown may be too new,
// and what was gone before its node came is another machine's.
func TestGone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("was", "C.1"), node("new", "2"), node("later", "3"), node("given", "4"))
	for i, n := range h.nodes {
		n.CreatedAt = h.now
		if i != 2 {
			n.Status = wire.StatusStale
		}
	}
	h.replace("later", func(n *api.NodeRow) { n.CreatedAt = h.now.Add(time.Hour) })
	h.replace("given", func(n *api.NodeRow) { n.State = wire.StateRetired })
	gone := func() string {
		t.Helper()
		list, err := h.Instances(t.Context(), "", "vast")
		h.must(err)
		return fmt.Sprint(list.Gone)
	}
	h.shows(machine("1", 2), machine("3", 1), machine("4", 1))
	h.pass(time.Minute)
	h.shows()
	h.pass(time.Minute)
	if got := gone(); got != "[]" {
		t.Errorf("after one view: %s", got)
	}
	h.pass(time.Minute)
	if got := gone(); got != "[was]" || h.plan() != "down_at_provider 1" {
		t.Errorf("after two views: %s, and the plan %s", got, h.plan())
	}
	if list, err := h.Instances(t.Context(), "other", "vast"); code(err) != wire.CodeNotFound {
		t.Errorf("to another tenant: %+v, %v", list, err)
	}
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear}
	h.now = h.now.Add(30 * time.Minute)
	if got := gone(); got != "[]" {
		t.Errorf("by an old view: %s", got)
	}
}
