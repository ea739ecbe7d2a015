package provider_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
)

// TestUse: what GPUs did counts only as far as it was seen. Time of which nobody knows that is neither used nor idle: while their
// readings are old, while no view came for long, and before the gateway started.
func TestUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, node("gpu-1", "1"))
	h.shows(machine("1", 6))
	h.replace("gpu-1", working(4, 1))
	h.pass(0)
	for _, step := range []struct {
		name string
		do   func()
		pass time.Duration
		want string // after it: rented, used, idle, silent, storage, unmeasured
	}{
		{"a quarter is idle", func() {}, 10 * time.Minute, "0.1667 h 1 0.75 0.25 0 0 0"},
		{"all is idle", func() { h.replace("gpu-1", working(4, 4)) }, 10 * time.Minute, "0.3333 h 2 0.75 1.25 0 0 0"},
		{"the readings are old", func() { h.replace("gpu-1", func(n *api.NodeRow) { n.Fresh = false }) }, 10 * time.Minute,
			"0.5 h 3 0.75 1.25 0 0 1"},
		{"no view for long", func() { h.replace("gpu-1", working(4, 0)) }, time.Hour, "1.5 h 9 0.75 1.25 0 0 7"},
		{"the gateway did not run", func() { h.now = h.now.Add(5 * time.Minute); h.open() }, 5 * time.Minute, "1.667 h 10 0.75 1.25 0 0 8"},
		{"it is seen again", func() {}, 10 * time.Minute, "1.833 h 11 1.75 1.25 0 0 8"},
		{"half of it says nothing", func() { h.replace("gpu-1", mute(2)) }, 10 * time.Minute, "2 h 12 2.25 1.25 0 0 8.5"},
		{"all of it says nothing", func() { h.replace("gpu-1", mute(4)) }, 10 * time.Minute, "2.167 h 13 2.25 1.25 0 0 9.5"},
		{"half of it is missing", func() { h.replace("gpu-1", working(2, 1)); h.replace("gpu-1", expects(4)) }, 10 * time.Minute,
			"2.333 h 14 2.5 1.5 0 0 10"},
		{"it is silent", func() { h.replace("gpu-1", silent) }, 10 * time.Minute, "2.5 h 15 2.5 1.5 1 0 10"},
	} {
		step.do()
		h.pass(step.pass)
		if got := h.says(providers.CostReportFilter{}); got != "vast 1 "+step.want+";  1 "+step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// TestSumOfParts: over random histories of machines of a company and of own ones, what was rented is what was used, idle, silent, stored
// and not measured, in every group.
func TestSumOfParts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			history(t, rand.New(rand.NewPCG(seed, 27)))
		})
	}
}

func history(t *testing.T, r *rand.Rand) {
	h := newHouse(t)
	for n := range 6 {
		h.nodes = append(h.nodes, node(fmt.Sprint("gpu-", n), fmt.Sprint(n)))
		h.nodes[n].Labels = map[string]string{"team": fmt.Sprint(n % 2)}
	}
	first := h.now
	for range 60 {
		h.shows(instances(r)...)
		for i := range h.nodes {
			h.replace(h.nodes[i].ID, condition(r))
		}
		own(h, r)
		if r.IntN(8) == 0 {
			h.open()
		}
		h.pass([]time.Duration{0, 45 * time.Second, 7 * time.Minute, time.Hour, 20 * time.Hour}[r.IntN(5)])
	}
	for _, by := range []string{"provider", "tenant", "team"} {
		report, err := h.Costs(t.Context(), providers.CostReportFilter{By: by, Since: first.AddDate(0, 0, -1)})
		h.must(err)
		for _, row := range append(report.Rows, report.Total) {
			addsUp(t, row)
		}
		if total := report.Total; total.Used == nil || *total.Unmeasured == 0 || *total.Silent == 0 || *total.Storage == 0 {
			t.Errorf("this history shows too little: %s", sayRow(total))
		}
	}
}

func addsUp(t *testing.T, row providers.CostRow) {
	t.Helper()
	sum := 0.0
	for _, part := range []*float64{row.Used, row.Idle, row.Silent, row.Storage, row.Unmeasured} {
		if part != nil {
			if sum += *part; *part < 0 {
				t.Errorf("a part is less than nothing: %s", sayRow(row))
			}
		}
	}
	if row.Rented != nil && math.Abs(*row.Rented-sum) > 1e-9 || row.Rented == nil && sum != 0 {
		t.Errorf("the parts are %.9f: %s", sum, sayRow(row))
	}
}

// instances are some of the machines, in any state and at any price.
func instances(r *rand.Rand) (all []cloud.Instance) {
	states := []string{cloud.Starting, cloud.Running, cloud.Running, cloud.Running, cloud.Stopped, cloud.Broken, cloud.Unknown, cloud.Ending}
	for n := range 8 {
		i := machine(fmt.Sprint(n), r.Float64()*7)
		i.State = states[r.IntN(len(states))]
		if r.IntN(6) == 0 {
			i.Price = nil
		}
		if r.IntN(6) > 0 {
			all = append(all, i)
		}
	}
	return all
}

// condition is anything that a node can be.
func condition(r *rand.Rand) func(*api.NodeRow) {
	gpus := r.IntN(5)
	return func(n *api.NodeRow) {
		working(gpus, r.IntN(gpus+1))(n)
		mute(r.IntN(gpus + 1))(n)
		n.Fresh = r.IntN(4) > 0
		n.Status = []string{wire.StatusOnline, wire.StatusOnline, wire.StatusOnline, wire.StatusStale, wire.StatusPending}[r.IntN(5)]
		if n.State = wire.StateActive; r.IntN(12) == 0 {
			n.State = wire.StateRetired
		}
	}
}

// own gives nodes a cost of their own on the day, as the gateway's record of the day has it.
func own(h *house, r *rand.Rand) {
	all := map[string]*api.NodeCost{}
	for _, n := range h.nodes {
		cost := r.Float64() * 50
		measured := cost * []float64{0, r.Float64(), 1}[r.IntN(3)]
		idle := measured * r.Float64()
		all[n.ID] = &api.NodeCost{WatchedSeconds: 60, Cost: &cost, MeasuredCost: &measured, IdleCost: &idle}
		if measured == 0 {
			all[n.ID].WatchedSeconds, all[n.ID].IdleCost = 0, nil
		}
	}
	h.costs[h.now.Format(time.DateOnly)] = all
}
