package metrics

import (
	"slices"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Bounds of what one node adds, whatever it says.
const (
	mostGPUs    = 64 // more than any machine has
	mostReasons = 16 // of a state, or of a GPU
)

// gpu is a GPU with its node, and with all that the node said of it.
type gpu struct {
	*api.GPU
	node *api.NodeRow
	said *wire.GPU
}

// Units of what nodes say, in those of the metrics.
func plain(v float64) float64     { return v }
func percent(v float64) float64   { return v / 100 }
func mebibytes(v float64) float64 { return v * mib }
func megahertz(v float64) float64 { return v * 1e6 }

// ofGPU makes a family of a number.
func ofGPU[N int | int64 | float64](name, help string, in func(float64) float64, get func(*gpu) *N) figure[*gpu] {
	return figure[*gpu]{family{name, gauge, help}, func(t *text, g *gpu) {
		if v := get(g); v != nil {
			t.gpu(g)
			t.value(in(float64(*v)))
		}
	}}
}

// ifGPU makes a family of what is so, or is not.
func ifGPU(name, help string, get func(*gpu) *bool) figure[*gpu] {
	return figure[*gpu]{family{name, gauge, help}, func(t *text, g *gpu) {
		if v := get(g); v != nil {
			t.gpu(g)
			t.value(flag(*v))
		}
	}}
}

// whyGPU makes a family with a sample for each of a GPU's reasons.
func whyGPU(name, help string, get func(*gpu) []string) figure[*gpu] {
	return figure[*gpu]{family{name, gauge, help}, func(t *text, g *gpu) { t.reasons(get(g), func() { t.gpu(g) }) }}
}

// faultsOfGPU makes a family of faults that were corrected, and of those that could not be.
func faultsOfGPU(name, help string, get func(*gpu) (corrected, uncorrected *int64)) figure[*gpu] {
	return figure[*gpu]{family{name, counter, help}, func(t *text, g *gpu) {
		corrected, uncorrected := get(g)
		for i, v := range [...]*int64{corrected, uncorrected} {
			if v != nil {
				t.gpu(g)
				t.say(float64(*v), "kind", [...]string{"corrected", "uncorrected"}[i])
			}
		}
	}}
}

// gpuFamilies is the table of the metrics of GPUs.
func gpuFamilies() []figure[*gpu] {
	return []figure[*gpu]{
		ofGPU("muster_gpu_utilization_ratio", "Part of the last second in which the GPU was at work, 0 to 1.", percent,
			func(g *gpu) *float64 { return g.UtilizationPercent }),
		ofGPU("muster_gpu_memory_used_bytes", "Memory of the GPU in use.", mebibytes, func(g *gpu) *int64 { return g.MemoryUsedMiB }),
		ofGPU("muster_gpu_memory_free_bytes", "Memory of the GPU that is free. Some is kept for the driver.", mebibytes,
			func(g *gpu) *int64 { return g.MemoryFreeMiB }),
		ofGPU("muster_gpu_memory_total_bytes", "Memory of the GPU.", mebibytes, func(g *gpu) *int64 { return g.MemoryMiB }),
		{family{"muster_gpu_memory_unified", gauge, "The GPU's memory is the host's: its sizes are those of the host. Always 1."},
			func(t *text, g *gpu) {
				if g.MemorySource == wire.MemoryUnified {
					t.gpu(g)
					t.value(1)
				}
			}},
		ofGPU("muster_gpu_temperature_celsius", "Temperature of the GPU.", plain, func(g *gpu) *float64 { return g.TemperatureCelsius }),
		ofGPU("muster_gpu_power_watts", "Power that the GPU draws.", plain, func(g *gpu) *float64 { return g.PowerWatts }),
		ofGPU("muster_gpu_power_limit_watts", "Power that the GPU may draw.", plain, func(g *gpu) *float64 { return g.PowerLimitWatts }),
		ifGPU("muster_gpu_mig_enabled", "Whether the GPU is divided by MIG: 1 or 0.", func(g *gpu) *bool { return g.MIG }),
		ofGPU("muster_gpu_idle_since_timestamp_seconds", "Since when the GPU is idle. Absent if it is not.", plain,
			func(g *gpu) *float64 { return stamp(g.IdleSince) }),
		whyGPU("muster_gpu_unhealthy", "What is wrong with the GPU, in the agent's words. Always 1.",
			func(g *gpu) []string { return g.Health }),
	}
}

func (t *text) gpu(g *gpu) {
	t.node(g.node)
	t.label("gpu", strconv.Itoa(g.Index))
	t.label("uuid", g.UUID)
	t.label("model", g.Name)
}

// stamp is a moment in seconds; nil: it is not known.
func stamp(at *time.Time) *float64 {
	if at == nil || at.IsZero() {
		return nil
	}
	v := seconds(*at)
	return &v
}

// reasons writes a sample for each reason of a node or a GPU, whose labels the caller adds.
func (t *text) reasons(all []string, labels func()) {
	shown := all[:min(len(all), mostReasons)]
	t.left.reasons += len(all) - len(shown)
	for i, reason := range shown {
		if !slices.Contains(shown[:i], reason) {
			labels()
			t.say(1, "reason", reason)
		}
	}
}

// writeNodes writes all families of nodes, and those of GPUs that are given. Of GPUs with the same labels the first is written: Prometheus
// would drop the others.
func writeNodes(t *text, rows []*api.NodeRow, ofGPUs []figure[*gpu]) {
	for _, f := range nodeFamilies() {
		t.begin(f.family)
		for _, n := range rows {
			f.say(t, n)
		}
	}
	one := &gpu{}
	for number, f := range ofGPUs {
		t.begin(f.family)
		for _, n := range rows {
			shown := 0
			for i := range n.GPUs {
				if !n.Fresh {
					break
				}
				*one = gpu{&n.GPUs[i], n, n.GPUs[i].Row}
				if one.said == nil {
					one.said = &wire.GPU{}
				}
				if shown < mostGPUs && !again(n.GPUs, i) {
					shown++
					f.say(t, one)
				} else if number == 0 {
					t.left.gpus++
				}
			}
		}
	}
}

// again tells whether a GPU before this one has the same labels.
func again(gpus []api.GPU, i int) bool {
	for j := range i {
		if gpus[j].Index == gpus[i].Index && gpus[j].UUID == gpus[i].UUID {
			return true
		}
	}
	return false
}
