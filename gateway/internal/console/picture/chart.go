package picture

import "muster/agent/wire"

// Chart says which metric a plot shows, and how.
type Chart struct {
	Metric, Title, Unit string
	Scale               float64
	Percent             bool // the axis is always 0 to 100
	GPU                 bool
}

// Charts returns the plots of a page, in their order.
func Charts() []Chart {
	const gib = 1024
	return []Chart{
		{"gpu_utilization_percent", "Utilisation", "%", 1, true, true},
		{"gpu_memory_used_mib", "Memory used", "GiB", gib, false, true},
		{"gpu_temperature_celsius", "Temperature", "°C", 1, false, true},
		{"gpu_power_watts", "Power", "W", 1, false, true},
		{"load1", "Load", "", 1, false, false},
		{"memory_used_mib", "Memory used", "GiB", gib, false, false},
		{"disk_used_mib", "Disk used", "GiB", gib, false, false},
		{"agent_cpu_percent", "Agent: processor", "% of a core", 1, false, false},
		{"agent_rss_kib", "Agent: memory", "MiB", 1024, false, false},
		{"probe_ms", "Agent: time in nvidia-smi", "ms", 1, false, false},
	}
}

// roomOf is the highest value that there can be; 0: that is not known.
func roomOf(c Chart, h *wire.Hardware) float64 {
	most := 0.0
	switch c.Metric {
	case "gpu_memory_used_mib":
		for _, g := range h.GPUs {
			if g.MemoryTotalMiB != nil {
				most = max(most, float64(*g.MemoryTotalMiB))
			}
		}
	case "gpu_power_watts":
		for _, g := range h.GPUs {
			if g.PowerLimitWatts != nil {
				most = max(most, *g.PowerLimitWatts)
			}
		}
	case "memory_used_mib":
		if h.MemoryTotalMiB != nil {
			most = float64(*h.MemoryTotalMiB)
		}
	case "disk_used_mib":
		if h.DiskTotalMiB != nil {
			most = float64(*h.DiskTotalMiB)
		}
	}
	return most / c.Scale
}
