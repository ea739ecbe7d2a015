package api_test

import (
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
)

// TestRent: idle GPUs count by their share, silent nodes whole unless they are down, retired ones not at all; what is not known is no zero.
func TestRent(t *testing.T) {
	node := func(price *float64, change func(*api.NodeRow)) *api.NodeRow {
		g := &api.NodeRow{State: wire.StateActive, Status: wire.StatusOnline, Fresh: true, PricePerHour: price, GPUs: make([]api.GPU, 2)}
		change(g)
		return g
	}
	works := func(*api.NodeRow) {}
	oneIdle := func(g *api.NodeRow) { g.GPUs[0].IdleSince, g.GPUs[0].Use = &g.CreatedAt, api.UseIdle }
	unknown := func(g *api.NodeRow) { g.Fresh = false }
	noGPU := func(g *api.NodeRow) { g.GPUs = []api.GPU{} }
	silent := func(g *api.NodeRow) { g.Status = wire.StatusStale; oneIdle(g) }
	unheard := func(g *api.NodeRow) { g.Unheard = true; unknown(g) }
	pending := func(g *api.NodeRow) { g.Status = wire.StatusPending }
	retired := func(g *api.NodeRow) { g.State = wire.StateRetired; silent(g) }
	down := func(cost float64) func(*api.NodeRow) { return func(g *api.NodeRow) { silent(g); g.DownCost = &cost } }
	for name, c := range map[string]struct {
		nodes []*api.NodeRow
		want  string
	}{
		"no node":            {nil, ""},
		"no price":           {[]*api.NodeRow{node(nil, works), node(nil, silent)}, ""},
		"at work":            {[]*api.NodeRow{node(some(2.0), works)}, "2.00 an hour"},
		"nothing to pay":     {[]*api.NodeRow{node(some(0.0), oneIdle)}, "0.00 an hour"},
		"idle by half":       {[]*api.NodeRow{node(some(2.0), oneIdle)}, "2.00 an hour, of that 1.00 idle"},
		"not known":          {[]*api.NodeRow{node(some(2.0), unknown), node(some(1.0), noGPU)}, "3.00 an hour"},
		"silent is not idle": {[]*api.NodeRow{node(some(2.0), silent), node(some(1.5), pending)}, "3.50 an hour, of that 3.50 silent"},
		"not heard yet":      {[]*api.NodeRow{node(some(2.0), unheard), node(some(1.5), works)}, "3.50 an hour"},
		"stopped":            {[]*api.NodeRow{node(some(2.0), down(0.25)), node(some(1.5), silent)}, "1.75 an hour, of that 1.50 silent"},
		"gone":               {[]*api.NodeRow{node(some(2.0), down(0))}, "0.00 an hour"},
		"retired":            {[]*api.NodeRow{node(some(2.0), retired), node(nil, retired), node(some(.5), works)}, "0.50 an hour"},
		"all of it": {[]*api.NodeRow{node(some(9.0), works), node(some(4.2), oneIdle), node(some(1.1), silent), node(nil, silent)},
			"14.30 an hour, of that 2.10 idle, 1.10 silent · 1 without a price"},
	} {
		if got := api.RentOf(c.nodes).Text(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if totals := api.Count(c.nodes); totals.Rent.Text() != c.want {
			t.Errorf("%s: the totals say %q, want %q", name, totals.Rent.Text(), c.want)
		}
	}
}
