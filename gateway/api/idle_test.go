package api_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// TestIdleCost: the price counts by the share of idle GPUs, and what is not known costs nothing that anybody could name.
func TestIdleCost(t *testing.T) {
	since := time.Unix(0, 0)
	price := 4.0
	expected := 8
	good := func() *api.NodeRow {
		return &api.NodeRow{State: wire.StateActive, Status: wire.StatusOnline, Fresh: true, PricePerHour: &price,
			GPUs: []api.GPU{{IdleSince: &since, Use: api.UseIdle}, {Use: api.UseBusy}}}
	}
	for what, c := range map[string]struct {
		change func(*api.NodeRow)
		want   float64 // -1: not known
	}{
		"one of two":        {func(*api.NodeRow) {}, 2},
		"one of eight":      {func(g *api.NodeRow) { g.GPUsExpected = &expected }, 0.5},
		"no price":          {func(g *api.NodeRow) { g.PricePerHour = nil }, -1},
		"an old reading":    {func(g *api.NodeRow) { g.Fresh = false }, -1},
		"not heard":         {func(g *api.NodeRow) { g.Status = wire.StatusStale }, -1},
		"retired":           {func(g *api.NodeRow) { g.State = wire.StateRetired }, -1},
		"no GPU":            {func(g *api.NodeRow) { g.GPUs = nil }, -1},
		"no GPU of several": {func(g *api.NodeRow) { g.GPUs = nil; g.GPUsExpected = &expected }, -1},
		"of one not known":  {func(g *api.NodeRow) { g.GPUs[1].Use = "" }, 2},
		"of all not known":  {func(g *api.NodeRow) { g.GPUs = []api.GPU{{}, {}} }, -1},
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
	g.Today = &api.Today{WatchedSeconds: 60, IdleCost: &idle, Cost: &all}
	free := good()
	free.PricePerHour = nil
	free.Today = &api.Today{WatchedSeconds: 60}
	totals := api.Count([]*api.NodeRow{g, g, free, good()})
	if *totals.IdleCostPerHour != 6 || *totals.IdleCostToday != 3 || *totals.CostToday != 12 || *totals.PricePerHour != 12 {
		t.Errorf("%+v", totals)
	}
	hung := good()
	hung.Today = &api.Today{IdleCost: new(float64), Cost: &all}
	if totals := api.Count([]*api.NodeRow{hung}); totals.IdleCostToday != nil || *totals.CostToday != 6 {
		t.Errorf("nobody watched its GPUs: %+v", totals)
	}
	none := api.Count([]*api.NodeRow{free})
	if none.PricePerHour != nil || none.IdleCostPerHour != nil || none.IdleCostToday != nil || none.CostToday != nil || none.PowerWatts != nil {
		t.Errorf("of a node without a price: %+v", none)
	}
}
