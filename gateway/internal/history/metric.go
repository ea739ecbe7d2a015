package history

import (
	"math"

	"muster/store/history"
)

// Metric is one kind of value that is kept.
type Metric struct {
	Name   string
	Unit   string
	PerGPU bool // else it is the node's

	at    int     // its place among the values of a GPU or of a node
	parts float64 // how many parts of the unit are told apart: a value is kept as a whole number of them
}

// heard is the metric that no value is kept for: a sample is there, so something was heard.
const heard = -1

// Metrics returns all metrics, the GPUs' first.
func Metrics() []Metric {
	return []Metric{
		{"gpu_utilization_percent", "%", true, history.Utilization, 10},
		{"gpu_memory_used_mib", "MiB", true, history.GPUMemory, 1},
		{"gpu_temperature_celsius", "°C", true, history.Temperature, 10},
		{"gpu_power_watts", "W", true, history.Power, 10},
		{"gpu_sm_mhz", "MHz", true, history.SMClock, 1},
		{"load1", "", false, history.Load, 100},
		{"memory_used_mib", "MiB", false, history.Memory, 1},
		{"disk_used_mib", "MiB", false, history.Disk, 1},
		{"agent_rss_kib", "KiB", false, history.AgentMemory, 1},
		{"agent_cpu_percent", "%", false, history.AgentCPU, 1000},
		{"probe_ms", "ms", false, history.ProbeTime, 1},
		{"heard", "", false, heard, 1},
	}
}

// of gives the metric's value in a point, of a GPU or of the node.
func (m Metric) of(p *history.Point, gpu *history.GPUPoint) history.Value {
	switch {
	case m.at == heard:
		return history.Value{Count: p.Heard, Mean: 1, Least: 1, Most: 1}
	case m.PerGPU:
		return gpu.Values[m.at]
	}
	return p.Node[m.at]
}

// largest is the largest value that is kept, in parts. No machine has as much of anything.
const largest = 1e12

// parted turns a value into parts of its unit.
func parted(value, parts float64) int64 {
	whole := math.Round(value * parts)
	if !(math.Abs(whole) <= largest) { // NaN too
		return history.Missing
	}
	return int64(whole)
}
