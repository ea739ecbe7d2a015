package view_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
	"muster/store"
)

// TestUnheard: a node that was not heard since the gateway's start counts as online within the grace, and the view says what that rests on.
func TestUnheard(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, nil)
	h.node(store.Node{Name: "never", Tenant: "x"}, nil)
	h.beat("a", h.reading(gpu(0, 1)))
	ref := store.StatusRef{Start: h.now.Add(10 * time.Second), AliveAt: h.now, Grace: true}
	h.picture.Ref = func() store.StatusRef {
		ref.Now = h.clock()
		return ref
	}
	h.now = h.now.Add(5 * time.Minute)
	h.reload()
	if g := h.row("a"); g.Status != wire.StatusOnline || !g.Unheard || g.StatusText() != "online?" || g.Fresh || h.row("never").Unheard {
		t.Errorf("just after the start: %+v", g)
	}
	if _, totals := h.picture.Rows(view.Query{}); fmt.Sprint(totals.StatusTexts()) != "map[online?:1 pending:1]" ||
		totals.Statuses["online"] != 1 ||
		totals.GPUsSeen != 0 || totals.GPUsUnknown != 2 {
		t.Errorf("just after the start: %+v", totals)
	}
	was := h.row("a")
	h.beat("a", h.reading(gpu(0, 1)))
	if g := h.row("a"); g.Unheard || g.StatusText() != "online" || !g.Fresh || !g.Reshaped(was) {
		t.Errorf("heard again: %+v", g)
	}
	if _, totals := h.picture.Rows(view.Query{}); totals.Unheard != 0 || totals.GPUsSeen != 1 ||
		totals.GPUsQuiet != 1 || totals.GPUsBusy != 0 {
		t.Errorf("heard again: %+v", totals)
	}
	h.now = h.now.Add(5 * time.Minute)
	ref.Grace = false
	h.reload()
	if g := h.row("a"); g.Status != wire.StatusStale || g.Unheard {
		t.Errorf("after the grace: %+v", g)
	}
}
