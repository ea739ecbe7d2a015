package metrics

import (
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Bounds of what one node adds, whatever it says.
const (
	mostGPUs    = 64 // more than any machine has
	mostReasons = 16 // of a state, or of a GPU
)

// gpuFamily is a metric of GPUs, and how one GPU says it. A family is written for nodes whose readings are of now.
type gpuFamily struct {
	family
	say func(*text, *gpu)
}

// gpu is a GPU with its node.
type gpu struct {
	*api.GPU
	node *api.NodeRow
}

// gpuFamilies is the table of the metrics of GPUs.
func gpuFamilies() []gpuFamily {
	of := func(name, help string, say func(*text, *gpu)) gpuFamily {
		return gpuFamily{family{name, gauge, help}, say}
	}
	return []gpuFamily{
		of("muster_gpu_utilization_ratio", "Part of the last second in which the GPU was at work, 0 to 1.", func(t *text, g *gpu) {
			t.maybeOfGPU(g, g.UtilizationPercent, 100)
		}),
		of("muster_gpu_memory_used_bytes", "Memory of the GPU in use.", func(t *text, g *gpu) { t.sizeOfGPU(g, g.MemoryUsedMiB) }),
		of("muster_gpu_memory_free_bytes", "Memory of the GPU that is free. Some is kept for the driver.", func(t *text, g *gpu) {
			t.sizeOfGPU(g, g.MemoryFreeMiB)
		}),
		of("muster_gpu_memory_total_bytes", "Memory of the GPU.", func(t *text, g *gpu) { t.sizeOfGPU(g, g.MemoryMiB) }),
		of("muster_gpu_memory_unified", "The GPU's memory is the host's: its sizes are those of the host. Always 1.", func(t *text, g *gpu) {
			if g.MemorySource == wire.MemoryUnified {
				t.ofGPU(g, 1)
			}
		}),
		of("muster_gpu_temperature_celsius", "Temperature of the GPU.", func(t *text, g *gpu) { t.maybeOfGPU(g, g.TemperatureCelsius, 1) }),
		of("muster_gpu_power_watts", "Power that the GPU draws.", func(t *text, g *gpu) { t.maybeOfGPU(g, g.PowerWatts, 1) }),
		of("muster_gpu_power_limit_watts", "Power that the GPU may draw.", func(t *text, g *gpu) { t.maybeOfGPU(g, g.PowerLimitWatts, 1) }),
		of("muster_gpu_mig_enabled", "Whether the GPU is divided by MIG: 1 or 0.", func(t *text, g *gpu) {
			if g.MIG != nil {
				t.ofGPU(g, flag(*g.MIG))
			}
		}),
		of("muster_gpu_idle_since_timestamp_seconds", "Since when the GPU is idle. Absent where it is not.", func(t *text, g *gpu) {
			if g.IdleSince != nil {
				t.ofGPU(g, seconds(*g.IdleSince))
			}
		}),
		of("muster_gpu_unhealthy", "What is wrong with the GPU, in the agent's words. Always 1.", gpuUnhealthy),
	}
}

func (t *text) gpu(g *gpu) {
	t.node(g.node)
	t.label("gpu", strconv.Itoa(g.Index))
	t.label("uuid", g.UUID)
	t.label("model", g.Name)
}

func (t *text) ofGPU(g *gpu, v float64) {
	t.gpu(g)
	t.value(v)
}

func (t *text) maybeOfGPU(g *gpu, v *float64, of float64) {
	if v != nil {
		t.ofGPU(g, *v/of)
	}
}

func (t *text) sizeOfGPU(g *gpu, v *int64) {
	if v != nil {
		t.ofGPU(g, float64(*v)*mib)
	}
}

func gpuUnhealthy(t *text, g *gpu) { t.reasonsOfGPU(g, g.Health) }

// reasonsOfGPU writes a sample for each of a GPU's reasons.
func (t *text) reasonsOfGPU(g *gpu, all []string) {
	shown := all[:min(len(all), mostReasons)]
	for i, reason := range shown {
		if slices.Contains(shown[:i], reason) {
			continue
		}
		t.gpu(g)
		t.label("reason", reason)
		t.value(1)
	}
}

// nodes are the nodes of one answer. odd has the nodes of which something is left out, with what is shown of them.
type nodes struct {
	rows    []*api.NodeRow
	odd     map[*api.NodeRow][]api.GPU
	gpus    int // left out: more than a node may have, or two with the same labels
	reasons int // left out
}

// newNodes finds out what has to be left out of the answer. Prometheus would drop samples that have the same labels.
func newNodes(rows []*api.NodeRow) *nodes {
	all := &nodes{rows: rows, odd: map[*api.NodeRow][]api.GPU{}}
	for _, n := range rows {
		all.reasons += max(len(n.StateReasons)-mostReasons, 0)
		if len(n.GPUs) > mostGPUs || repeated(n.GPUs) {
			shown := distinct(n.GPUs)
			shown = shown[:min(len(shown), mostGPUs)]
			all.odd[n] = shown
			all.gpus += len(n.GPUs) - len(shown)
		}
		for i := range n.GPUs {
			all.reasons += max(len(n.GPUs[i].Health)-mostReasons, 0)
			if row := n.GPUs[i].Row; row != nil && row.Clocks != nil {
				all.reasons += max(len(row.Clocks.Reasons)-mostReasons, 0)
			}
		}
	}
	return all
}

func sameGPU(a, b *api.GPU) bool { return a.Index == b.Index && a.UUID == b.UUID }

// repeated tells whether two of a node's few GPUs have the same labels.
func repeated(gpus []api.GPU) bool {
	for i := range gpus {
		for j := range i {
			if sameGPU(&gpus[i], &gpus[j]) {
				return true
			}
		}
	}
	return false
}

// distinct keeps the first of those that have the same labels.
func distinct(gpus []api.GPU) []api.GPU {
	var kept []api.GPU
	for i := range gpus {
		if !slices.ContainsFunc(kept, func(g api.GPU) bool { return sameGPU(&g, &gpus[i]) }) {
			kept = append(kept, gpus[i])
		}
	}
	return kept
}

// shown are the GPUs of a node as they are now.
func (all *nodes) shown(n *api.NodeRow) []api.GPU {
	if !n.Fresh {
		return nil
	}
	if kept, odd := all.odd[n]; odd {
		return kept
	}
	return n.GPUs
}

// write writes all families of nodes, and those of GPUs that are given.
func (all *nodes) write(t *text, ofGPUs []gpuFamily) {
	for _, f := range nodeFamilies() {
		t.begin(f.family)
		for _, n := range all.rows {
			f.say(t, n)
		}
	}
	one := &gpu{}
	for _, f := range ofGPUs {
		t.begin(f.family)
		for _, n := range all.rows {
			gpus := all.shown(n)
			for i := range gpus {
				one.GPU = &gpus[i]
				one.node = n
				f.say(t, one)
			}
		}
	}
}
