package provider_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/provider/cloud"
)

// TestDownCost: the fleet is told what its nodes cost whose machines do not run, as far as that is known now.
func TestDownCost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("runs", "1"), node("stopped", "2"), node("broken", "3"), node("gone", "4"), node("elsewhere", "5"),
		node("given", "6"), node("free", "7"))
	h.replace("given", func(n *api.NodeRow) { n.State = wire.StateRetired })
	broken := machine("3", 3, func(i *cloud.Instance) { i.State = cloud.Broken })
	unknown := func(i *cloud.Instance) { i.Price = nil }
	all := []cloud.Instance{machine("1", 2), machine("2", 0, stopped), broken, machine("6", 0, stopped), machine("7", 0, stopped, unknown)}
	h.shows(append(all, machine("4", 1))...)
	h.pass(time.Minute)
	h.shows(all...)
	h.pass(time.Minute)
	h.pass(time.Minute)
	if got := fmt.Sprint(h.down); got != "map[broken:3 gone:0 stopped:0.1]" {
		t.Errorf("got %s", got)
	}
	h.cloud.fails = &cloud.Error{Kind: cloud.Unclear}
	h.pass(30 * time.Minute)
	if len(h.down) != 0 {
		t.Errorf("by an old view: %v", h.down)
	}
}

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
	if got := gone(); got != "[was]" || h.plan() != "gone_at_provider 1" {
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
