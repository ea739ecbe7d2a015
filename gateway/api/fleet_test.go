package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

func some[T any](v T) *T { return &v }

// sorted gives the names in an order.
func sorted(rows []*api.NodeRow, by string) string {
	rows = slices.Clone(rows)
	api.Sort(rows, by)
	var names []string
	for _, g := range rows {
		names = append(names, g.Name)
	}
	return strings.Join(names, "")
}

// TestSortFleet uses every order, both ways: what is not known comes last in any case, and equals stay as they are.
func TestSortFleet(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	gpu := func(util, used, temp, power float64) api.GPU {
		return api.GPU{UtilizationPercent: &util, MemoryUsedMiB: some(int64(used)), MemoryMiB: some(int64(100)),
			TemperatureCelsius: &temp, PowerWatts: &power}
	}
	a := &api.NodeRow{Name: "a", Tenant: "y", State: "drained", Status: "stale", LastSeen: some(at), IdleSince: some(at),
		PricePerHour: some(1.0),
		GPUs:         []api.GPU{gpu(0, 10, 90, 10), gpu(50, 10, 20, 10)}, Findings: []api.Finding{{Severity: api.SeverityWarn}}}
	b := &api.NodeRow{Name: "b", Tenant: "x", State: "active", Status: "online", IdleSince: some(at.Add(-time.Hour)),
		GPUs: []api.GPU{gpu(30, 90, 50, 30)}, PricePerHour: some(2.0), Findings: []api.Finding{{Severity: api.SeveritySevere}}}
	b.LastSeen = some(at.Add(time.Second))
	c := &api.NodeRow{Name: "c", Tenant: "z", State: "unavailable", Status: "pending"}
	rows := []*api.NodeRow{a, b, c}
	used := 0
	for by, want := range map[string][2]string{
		api.SortName: {"abc", "cba"}, api.SortAttention: {"abc", "abc"}, api.SortTenant: {"bac", "cab"}, api.SortState: {"bac", "cab"}, api.SortStatus: {"bca", "acb"},
		api.SortFindings: {"bac", "cab"}, api.SortGPUs: {"abc", "bac"}, api.SortUtilization: {"bac", "abc"},
		api.SortMemory: {"bac", "abc"}, api.SortTemperature: {"abc", "bac"}, api.SortPower: {"bac", "abc"},
		api.SortPrice: {"bac", "abc"}, api.SortIdle: {"bac", "abc"}, api.SortSeen: {"bac", "abc"},
	} {
		if !api.IsSort(by) || !api.IsSort("-"+by) {
			t.Errorf("%s is not among the orders", by)
		}
		used++
		if got := sorted(rows, by); got != want[0] {
			t.Errorf("%s: got %s, want %s", by, got, want[0])
		}
		if got := sorted(rows, "-"+by); got != want[1] {
			t.Errorf("-%s: got %s, want %s", by, got, want[1])
		}
	}
	if used != len(api.Sorts()) {
		t.Errorf("%d of %d orders are tried", used, len(api.Sorts()))
	}
	if api.IsSort("colour") || api.IsSort("--name") {
		t.Error("an order that there is not")
	}
}

// TestAttention: what cannot work or is not heard comes first, then what is wrong, and what was given back last.
func TestAttention(t *testing.T) {
	node := func(name, state, status, severity string) *api.NodeRow {
		g := &api.NodeRow{Name: name, State: state, Status: status}
		if severity != "" {
			g.Findings = []api.Finding{{Severity: severity}}
		}
		return g
	}
	rows := []*api.NodeRow{node("a", wire.StateActive, wire.StatusOnline, ""), node("b", wire.StateRetired, wire.StatusStale, ""),
		node("c", wire.StateActive, wire.StatusOnline, api.SeverityNote), node("d", wire.StateActive, wire.StatusOnline, api.SeverityWarn),
		node("e", wire.StateActive, wire.StatusStale, ""), node("f", wire.StateUnavailable, wire.StatusOnline, ""),
		node("g", wire.StateDrained, wire.StatusOnline, api.SeveritySevere), node("h", wire.StateDrained, wire.StatusOnline, "")}
	if got := sorted(rows, api.SortAttention); got != "efgdcabh" {
		t.Errorf("got %s", got)
	}
}

// TestOld: rows are old when their time has passed by the node's pace, when they were not read since the probe failed, and when the GPUs
// are gone.
func TestOld(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { return some(now.Add(-d)) }
	slow := wire.Probe{State: wire.ProbeOK, SampledAt: ago(3 * time.Minute), IntervalSeconds: some(60.0)}
	hung := wire.Probe{State: wire.ProbeHung, SampledAt: ago(30 * time.Second), Since: ago(time.Second)}
	for name, c := range map[string]struct {
		probe    wire.Probe
		interval *float64
		skew     *int64
		want     bool
	}{
		"just read":                     {wire.Probe{State: wire.ProbeOK, SampledAt: ago(0)}, nil, nil, false},
		"90 seconds":                    {wire.Probe{State: wire.ProbeOK, SampledAt: ago(90 * time.Second)}, some(10.0), nil, false},
		"more":                          {wire.Probe{State: wire.ProbeOK, SampledAt: ago(91 * time.Second)}, some(10.0), nil, true},
		"a slow pace":                   {wire.Probe{State: wire.ProbeOK, SampledAt: ago(180 * time.Second)}, some(60.0), nil, false},
		"slow looks":                    {slow, nil, nil, false},
		"a pace that no node has":       {wire.Probe{State: wire.ProbeOK, SampledAt: ago(180 * time.Second)}, some(1e300), nil, true},
		"a clock behind":                {wire.Probe{State: wire.ProbeOK, SampledAt: ago(time.Hour)}, nil, some(int64(3600_000)), false},
		"a skew that no clock has":      {wire.Probe{State: wire.ProbeOK, SampledAt: ago(0)}, nil, some(int64(1e15)), false},
		"a skew below that":             {wire.Probe{State: wire.ProbeOK, SampledAt: ago(0)}, nil, some(int64(-1e15)), false},
		"no time":                       {wire.Probe{State: wire.ProbeOK}, nil, nil, false},
		"no time, and it failed":        {wire.Probe{State: wire.ProbeFailed}, nil, nil, true},
		"gone":                          {wire.Probe{State: wire.ProbeAbsent, SampledAt: ago(0)}, nil, nil, true},
		"hung since before the reading": {wire.Probe{State: wire.ProbeFailed, SampledAt: ago(0), Since: ago(time.Hour)}, nil, nil, false},
		"hung":                          {hung, nil, nil, true},
	} {
		if got := api.Old(c.probe, c.interval, c.skew, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestReadAt: a time is moved by the skew, and whatever a node says of both can be written as JSON.
func TestReadAt(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if got := api.ReadAt(&now, some(int64(1500))); !got.Equal(now.Add(1500 * time.Millisecond)) {
		t.Errorf("1.5 s later is %s", got)
	}
	first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, at := range []time.Time{first, now, last} {
		for _, skew := range []int64{0, 3600_000, 365 * 24 * 3600_000, 8e12, 9e13, 1e15} {
			for _, skew := range []int64{skew, -skew} {
				if _, err := api.ReadAt(&at, &skew).MarshalJSON(); err != nil {
					t.Errorf("%s and %d ms: %v", at, skew, err)
				}
			}
		}
	}
}

// TestCountMemory: memory is added up where both figures are of the GPU itself. Unified memory is the system's.
func TestCountMemory(t *testing.T) {
	used := some(int64(10))
	all := some(int64(100))
	g := &api.NodeRow{Fresh: true, GPUs: []api.GPU{{MemoryUsedMiB: used, MemoryMiB: all, MemorySource: wire.MemoryDevice}, {MemoryUsedMiB: used},
		{MemoryMiB: all}, {MemoryUsedMiB: used, MemoryMiB: all, MemorySource: wire.MemoryUnified}}}
	if totals := api.Count([]*api.NodeRow{g}); totals.MemoryUsedMiB != 10 || totals.MemoryMiB != 100 || totals.GPUsSeen != 4 {
		t.Errorf("%+v", totals)
	}
}
