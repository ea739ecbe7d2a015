package view

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

func some[T any](v T) *T { return &v }

// TestJudge has a row for every value that can speak, alone and against the others.
func TestJudge(t *testing.T) {
	h100 := func(util, used, power float64) api.GPU {
		return api.GPU{UtilizationPercent: &util, MemoryUsedMiB: some(int64(used)), MemoryMiB: some(int64(81559)),
			MemorySource: wire.MemoryDevice, PowerWatts: &power, PowerLimitWatts: some(700.0)}
	}
	gb10 := func(util, power float64) api.GPU {
		return api.GPU{UtilizationPercent: &util, MemoryUsedMiB: some(int64(90000)), MemoryMiB: some(int64(122500)),
			MemorySource: wire.MemoryUnified, PowerWatts: &power}
	}
	without := func(g api.GPU, what ...string) api.GPU {
		for _, w := range what {
			switch w {
			case "utilization":
				g.UtilizationPercent = nil
			case "memory":
				g.MemoryUsedMiB = nil
			case "total":
				g.MemoryMiB = nil
			case "power":
				g.PowerWatts = nil
			case "limit":
				g.PowerLimitWatts = nil
			}
		}
		return g
	}
	for _, c := range []struct {
		name   string
		gpu    api.GPU
		lowest *float64
		want   verdict
	}{
		{"all at rest", h100(0, 0, 70), nil, idle},
		{"at the bounds", h100(5, 1024, 279.9), nil, idle},
		{"it computes", h100(6, 0, 70), nil, busy},
		{"a model is loaded", h100(0, 70000, 70), nil, busy},
		{"five percent of a large board", h100(0, 4077, 70), nil, idle},
		{"a little more than that", h100(0, 4078, 70), nil, busy},
		{"more than 1 GiB of a total that is not known", without(h100(0, 4077, 70), "total"), nil, busy},
		{"hot", h100(0, 0, 280), nil, busy},
		{"an L40S that shows load without a process", h100(100, 0, 242), nil, busy},
		{"utilisation not known (MIG)", without(h100(0, 0, 70), "utilization"), nil, unknown},
		{"utilisation not known, and a model is loaded", without(h100(0, 70000, 70), "utilization"), nil, busy},
		{"power not known", without(h100(0, 0, 70), "power"), nil, idle},
		{"memory not known", without(h100(0, 0, 70), "memory"), nil, idle},
		{"neither power nor memory", without(h100(0, 0, 70), "memory", "power"), nil, unknown},
		{"no limit, near the lowest", without(h100(0, 0, 85), "limit"), some(70.0), idle},
		{"no limit, above the lowest", without(h100(0, 0, 85.1), "limit"), some(70.0), busy},
		{"a limit of 0 is none", func() api.GPU { g := h100(0, 0, 90); g.PowerLimitWatts = some(0.0); return g }(), some(70.0), busy},
		{"no limit and no lowest, memory decides", without(h100(0, 0, 85), "limit"), nil, idle},
		{"unified memory is left out", gb10(0, 5), some(4.0), idle},
		{"unified memory, more power", gb10(0, 40), some(4.0), busy},
		{"unified memory, no power", without(gb10(0, 5), "power"), nil, unknown},
		{"nothing is known", api.GPU{}, nil, unknown},
	} {
		if got := judge(&c.gpu, c.lowest); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestStretch: idle after ten minutes of readings that all say so, and since the first of them.
func TestStretch(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	rest := api.GPU{UtilizationPercent: some(0.0), PowerWatts: some(60.0), MemoryUsedMiB: some(int64(0))}
	work := rest
	work.UtilizationPercent = some(90.0)
	dark := rest
	dark.UtilizationPercent = nil
	warm := rest
	warm.PowerWatts = some(76.0)
	cold := rest
	cold.PowerWatts = some(50.0)
	type step struct {
		minute int
		gpu    api.GPU
		since  int // minute; -1: not idle
	}
	for name, steps := range map[string][]step{
		"long enough":                   {{0, rest, -1}, {5, rest, -1}, {9, rest, -1}, {10, rest, 0}, {30, rest, 0}},
		"work ends it":                  {{0, rest, -1}, {10, rest, 0}, {11, work, -1}, {12, rest, -1}, {22, rest, 12}},
		"what is not known ends it too": {{0, rest, -1}, {10, rest, 0}, {11, dark, -1}, {12, rest, -1}},
		"power without a limit, against the lowest that was seen": {{0, cold, -1}, {10, cold, 0}, {11, warm, -1}, {12, rest, -1}, {22, rest, 12}},
		"the clock is set back":                                   {{60, rest, -1}, {10, rest, -1}, {20, rest, 10}},
	} {
		var s stretch
		for _, x := range steps {
			s.read(&x.gpu, at(x.minute))
			since := x.gpu.IdleSince
			if (x.gpu.Use == api.UseIdle) != (since != nil) {
				t.Errorf("%s, minute %d: %q, idle since %v", name, x.minute, x.gpu.Use, since)
			}
			switch {
			case x.since < 0 && since != nil:
				t.Errorf("%s, minute %d: idle since %s", name, x.minute, since)
			case x.since >= 0 && (since == nil || !since.Equal(at(x.since))):
				t.Errorf("%s, minute %d: since %v, want minute %d", name, x.minute, since, x.since)
			}
		}
	}
}

// TestUse: what the last reading says, and for how long.
func TestUse(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	gpu := func(utilization *float64) api.GPU {
		return api.GPU{UtilizationPercent: utilization, PowerWatts: some(60.0), MemoryUsedMiB: some(int64(0))}
	}
	var s stretch
	for i, c := range []struct {
		minute int
		gpu    api.GPU
		want   string
	}{
		{0, gpu(some(0.0)), api.UseQuiet}, {9, gpu(some(0.0)), api.UseQuiet}, {10, gpu(some(0.0)), api.UseIdle},
		{11, gpu(some(90.0)), api.UseBusy}, {12, gpu(nil), ""}, {13, gpu(some(0.0)), api.UseQuiet},
	} {
		s.read(&c.gpu, noon.Add(time.Duration(c.minute)*time.Minute))
		if c.gpu.Use != c.want {
			t.Errorf("step %d: got %q, want %q", i, c.gpu.Use, c.want)
		}
	}
}
