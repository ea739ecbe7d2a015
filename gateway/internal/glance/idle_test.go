package glance_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/glance"
)

// TestIdleCost: the price counts by the share of idle GPUs, and what is not known costs nothing that anybody could name.
func TestIdleCost(t *testing.T) {
	since := time.Unix(0, 0)
	price := 4.0
	expected := 8
	good := func() *glance.Node {
		return &glance.Node{State: wire.StateActive, Status: wire.StatusOnline, Fresh: true, PricePerHour: &price,
			GPUs: []glance.GPU{{IdleSince: &since}, {}}}
	}
	for what, c := range map[string]struct {
		change func(*glance.Node)
		want   float64 // -1: not known
	}{
		"one of two":        {func(*glance.Node) {}, 2},
		"one of eight":      {func(g *glance.Node) { g.GPUsExpected = &expected }, 0.5},
		"no price":          {func(g *glance.Node) { g.PricePerHour = nil }, -1},
		"an old reading":    {func(g *glance.Node) { g.Fresh = false }, -1},
		"not heard":         {func(g *glance.Node) { g.Status = wire.StatusStale }, -1},
		"retired":           {func(g *glance.Node) { g.State = wire.StateRetired }, -1},
		"no GPU":            {func(g *glance.Node) { g.GPUs = nil }, -1},
		"no GPU of several": {func(g *glance.Node) { g.GPUs = nil; g.GPUsExpected = &expected }, 0},
	} {
		g := good()
		c.change(g)
		got := g.IdleCostPerHour()
		if got == nil && c.want != -1 || got != nil && *got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	idle, all := 1.5, 6.0
	g := good()
	g.Today = &glance.Today{WatchedSeconds: 60, IdleCost: &idle, Cost: &all}
	free := good()
	free.PricePerHour = nil
	free.Today = &glance.Today{WatchedSeconds: 60}
	totals := glance.Count([]*glance.Node{g, g, free, good()})
	if *totals.IdleCostPerHour != 6 || *totals.IdleCostToday != 3 || *totals.CostToday != 12 || *totals.PricePerHour != 12 {
		t.Errorf("%+v", totals)
	}
	hung := good()
	hung.Today = &glance.Today{IdleCost: new(float64), Cost: &all}
	if totals := glance.Count([]*glance.Node{hung}); totals.IdleCostToday != nil || *totals.CostToday != 6 {
		t.Errorf("nobody watched its GPUs: %+v", totals)
	}
	none := glance.Count([]*glance.Node{free})
	if none.PricePerHour != nil || none.IdleCostPerHour != nil || none.IdleCostToday != nil || none.CostToday != nil || none.PowerWatts != nil {
		t.Errorf("of a node without a price: %+v", none)
	}
}
