package metrics

import "muster/agent/wire"

// detailFamilies is the table of what users of other exporters look for in a GPU, as its node's last heartbeat has it. help/metrics.md
// names what DCGM calls each. Scrapes that ask for no detail leave them out.
func detailFamilies() []figure[*gpu] { return append(useFamilies(), faultFamilies()...) }

func useFamilies() []figure[*gpu] {
	return []figure[*gpu]{
		ofGPU("muster_gpu_memory_reserved_bytes", "Memory of the GPU that the driver and the firmware keep.", mebibytes,
			func(g *gpu) *int64 { return g.said.MemoryReservedMiB }),
		ofGPU("muster_gpu_memory_activity_ratio", "Part of the last second in which memory was read or written, 0 to 1.", percent,
			func(g *gpu) *float64 { return g.said.MemoryUtilizationPercent }),
		ofGPU("muster_gpu_encoder_utilization_ratio", "Use of the video encoder, 0 to 1.", percent,
			func(g *gpu) *float64 { return g.said.EncoderUtilizationPercent }),
		ofGPU("muster_gpu_decoder_utilization_ratio", "Use of the video decoder, 0 to 1.", percent,
			func(g *gpu) *float64 { return g.said.DecoderUtilizationPercent }),
		ofGPU("muster_gpu_memory_temperature_celsius", "Temperature of the GPU's memory.", plain,
			func(g *gpu) *float64 { return g.said.MemoryTemperatureCelsius }),
		ofGPU("muster_gpu_fan_speed_ratio", "Speed of the fan as a part of its full speed, which some fans exceed.", percent,
			func(g *gpu) *float64 { return g.said.FanPercent }),
		ofGPU("muster_gpu_power_limit_max_watts", "The highest power limit that the board can be set to.", plain,
			func(g *gpu) *float64 { return g.said.PowerMaxLimitWatts }),
		ofGPU("muster_gpu_performance_state", "Performance state, from 0 (fastest) to 15.", plain,
			func(g *gpu) *int { return g.said.PerformanceState }),
		ofGPU("muster_gpu_sm_clock_hertz", "Clock of the processors.", megahertz, func(g *gpu) *int64 { return part(g.said.Clocks).SMMHz }),
		ofGPU("muster_gpu_memory_clock_hertz", "Clock of the memory.", megahertz, func(g *gpu) *int64 { return part(g.said.Clocks).MemoryMHz }),
		whyGPU("muster_gpu_clock_reason", "What sets the clocks now, as gpu_idle or hw_slowdown. Always 1.",
			func(g *gpu) []string { return part(g.said.Clocks).Reasons }),
		ofGPU("muster_gpu_pcie_link_generation", "Generation of the PCIe link now. An idle GPU lowers it.", plain,
			func(g *gpu) *int { return part(g.said.PCIe).Generation }),
		ofGPU("muster_gpu_pcie_link_generation_max", "The highest generation of the PCIe link in this slot.", plain,
			func(g *gpu) *int { return part(g.said.PCIe).GenerationMax }),
		ofGPU("muster_gpu_pcie_link_width", "Lanes of the PCIe link now.", plain, func(g *gpu) *int { return part(g.said.PCIe).Width }),
		ofGPU("muster_gpu_pcie_link_width_max", "The most lanes that the PCIe link can have in this slot.", plain,
			func(g *gpu) *int { return part(g.said.PCIe).WidthMax }),
		ofGPU("muster_gpu_nvlink_links", "NVLinks of the GPU, looked at every few minutes.", plain,
			func(g *gpu) *int { return part(g.said.NVLinks).Total }),
		ofGPU("muster_gpu_nvlink_links_down", "NVLinks of the GPU that are down.", plain,
			func(g *gpu) *int { return part(g.said.NVLinks).Down }),
	}
}

func faultFamilies() []figure[*gpu] {
	return []figure[*gpu]{
		ifGPU("muster_gpu_ecc_enabled", "Whether the GPU corrects errors of its memory: 1 or 0.",
			func(g *gpu) *bool { return part(g.said.ECC).Enabled }),
		faultsOfGPU("muster_gpu_ecc_volatile_errors_total", "Errors of memory since the driver was loaded.", func(g *gpu) (*int64, *int64) {
			return part(g.said.ECC).CorrectedVolatile, part(g.said.ECC).UncorrectedVolatile
		}),
		faultsOfGPU("muster_gpu_ecc_aggregate_errors_total", "Errors of memory over the life of the board.", func(g *gpu) (*int64, *int64) {
			return part(g.said.ECC).CorrectedAggregate, part(g.said.ECC).UncorrectedAggregate
		}),
		faultsOfGPU("muster_gpu_remapped_rows_total", "Rows of memory that spare ones stand in for.", func(g *gpu) (*int64, *int64) {
			return part(g.said.RemappedRows).Correctable, part(g.said.RemappedRows).Uncorrectable
		}),
		ifGPU("muster_gpu_row_remap_pending", "Whether a row of memory waits for a reset of the GPU: 1 or 0.",
			func(g *gpu) *bool { return part(g.said.RemappedRows).Pending }),
		ifGPU("muster_gpu_row_remap_failed", "Whether a row of memory could not be remapped: 1 or 0.",
			func(g *gpu) *bool { return part(g.said.RemappedRows).Failure }),
		ifGPU("muster_gpu_retired_pages_pending", "Whether bad pages of memory wait for a restart: 1 or 0.",
			func(g *gpu) *bool { return g.said.RetiredPagesPending }),
		ofGPU("muster_gpu_processes", "Processes that compute on the GPU, looked at every few minutes.", plain,
			func(g *gpu) *int { return part(g.said.Processes).Count }),
		ofGPU("muster_gpu_processes_memory_bytes", "Memory of the GPU that those processes use together.", mebibytes,
			func(g *gpu) *int64 { return part(g.said.Processes).MemoryUsedMiB }),
		ofGPU("muster_gpu_xid_code", "NVIDIA's code of the GPU's last Xid since the boot. Absent if there was none.", plain,
			func(g *gpu) *int { return g.lastXid().Code }),
		ofGPU("muster_gpu_xid_timestamp_seconds", "When the GPU's last Xid was, by the node's clock.", plain,
			func(g *gpu) *float64 { last := g.lastXid().At; return stamp(&last) }),
	}
}

// part is what a GPU says of a part of it; nothing where it says nothing.
func part[T any](said *T) (known T) {
	if said != nil {
		known = *said
	}
	return known
}

// lastXid is the newest event with a code that is about this GPU; empty: there was none.
func (g *gpu) lastXid() (last wire.Xid) {
	for _, event := range part(g.node.Xids).Events {
		if g.Row != nil && event.Code != nil && event.UUID == g.UUID && g.UUID != "" && !event.At.Before(last.At) {
			last = event
		}
	}
	return last
}
