package metrics

import (
	"slices"
	"time"

	"muster/agent/wire"
)

// detailFamilies is the table of what users of other exporters look for in a GPU, as its node's last heartbeat has it. help/metrics.md
// names what DCGM calls each. Scrapes that ask for no detail leave them out.
func detailFamilies() []gpuFamily {
	return slices.Concat(useFamilies(), linkFamilies(), memoryFamilies(), eventFamilies())
}

// said makes a family of what a node said of a GPU.
func said(name, kind, help string, say func(*text, *gpu, *wire.GPU)) gpuFamily {
	return gpuFamily{family{name, kind, help}, func(t *text, g *gpu) {
		if g.Row != nil {
			say(t, g, g.Row)
		}
	}}
}

// ofRow makes a family of one number, in a unit of which the family's has so many.
func ofRow(name, help string, of float64, get func(*wire.GPU) *float64) gpuFamily {
	return said(name, gauge, help, func(t *text, g *gpu, row *wire.GPU) { t.maybeOfGPU(g, get(row), of) })
}

func useFamilies() []gpuFamily {
	return []gpuFamily{
		said("muster_gpu_memory_reserved_bytes", gauge, "Memory of the GPU that the driver and the firmware keep.",
			func(t *text, g *gpu, row *wire.GPU) { t.sizeOfGPU(g, row.MemoryReservedMiB) }),
		ofRow("muster_gpu_memory_activity_ratio", "Part of the last second in which memory was read or written, 0 to 1.", 100,
			func(row *wire.GPU) *float64 { return row.MemoryUtilizationPercent }),
		ofRow("muster_gpu_encoder_utilization_ratio", "Use of the video encoder, 0 to 1.", 100,
			func(row *wire.GPU) *float64 { return row.EncoderUtilizationPercent }),
		ofRow("muster_gpu_decoder_utilization_ratio", "Use of the video decoder, 0 to 1.", 100,
			func(row *wire.GPU) *float64 { return row.DecoderUtilizationPercent }),
		ofRow("muster_gpu_memory_temperature_celsius", "Temperature of the GPU's memory.", 1,
			func(row *wire.GPU) *float64 { return row.MemoryTemperatureCelsius }),
		ofRow("muster_gpu_fan_speed_ratio", "Speed of the fan as a part of its full speed, which some fans exceed.", 100,
			func(row *wire.GPU) *float64 { return row.FanPercent }),
		ofRow("muster_gpu_power_limit_max_watts", "The highest power limit that the board can be set to.", 1,
			func(row *wire.GPU) *float64 { return row.PowerMaxLimitWatts }),
		said("muster_gpu_performance_state", gauge, "Performance state, from 0 (fastest) to 15.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, row.PerformanceState, 1) }),
		said("muster_gpu_sm_clock_hertz", gauge, "Clock of the processors.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.Clocks).SMMHz, 1e6) }),
		said("muster_gpu_memory_clock_hertz", gauge, "Clock of the memory.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.Clocks).MemoryMHz, 1e6) }),
		said("muster_gpu_clock_reason", gauge, "What sets the clocks now, as gpu_idle or hw_slowdown. Always 1.",
			func(t *text, g *gpu, row *wire.GPU) { t.reasonsOfGPU(g, part(row.Clocks).Reasons) }),
	}
}

func linkFamilies() []gpuFamily {
	return []gpuFamily{
		said("muster_gpu_pcie_link_generation", gauge, "Generation of the PCIe link now. An idle GPU lowers it.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.PCIe).Generation, 1) }),
		said("muster_gpu_pcie_link_generation_max", gauge, "The highest generation of the PCIe link in this slot.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.PCIe).GenerationMax, 1) }),
		said("muster_gpu_pcie_link_width", gauge, "Lanes of the PCIe link now.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.PCIe).Width, 1) }),
		said("muster_gpu_pcie_link_width_max", gauge, "The most lanes that the PCIe link can have in this slot.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.PCIe).WidthMax, 1) }),
		said("muster_gpu_nvlink_links", gauge, "NVLinks of the GPU, looked at every few minutes.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.NVLinks).Total, 1) }),
		said("muster_gpu_nvlink_links_down", gauge, "NVLinks of the GPU that are down.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.NVLinks).Down, 1) }),
	}
}

func memoryFamilies() []gpuFamily {
	return []gpuFamily{
		said("muster_gpu_ecc_enabled", gauge, "Whether the GPU corrects errors of its memory: 1 or 0.",
			func(t *text, g *gpu, row *wire.GPU) { flagOfGPU(t, g, part(row.ECC).Enabled) }),
		said("muster_gpu_ecc_volatile_errors_total", counter, "Errors of memory since the driver was loaded.",
			func(t *text, g *gpu, row *wire.GPU) {
				t.errorsOfGPU(g, part(row.ECC).CorrectedVolatile, part(row.ECC).UncorrectedVolatile)
			}),
		said("muster_gpu_ecc_aggregate_errors_total", counter, "Errors of memory over the life of the board.",
			func(t *text, g *gpu, row *wire.GPU) {
				t.errorsOfGPU(g, part(row.ECC).CorrectedAggregate, part(row.ECC).UncorrectedAggregate)
			}),
		said("muster_gpu_remapped_rows_total", counter, "Rows of memory that spare ones stand in for.",
			func(t *text, g *gpu, row *wire.GPU) {
				t.errorsOfGPU(g, part(row.RemappedRows).Correctable, part(row.RemappedRows).Uncorrectable)
			}),
		said("muster_gpu_row_remap_pending", gauge, "Whether a row of memory waits for a reset of the GPU: 1 or 0.",
			func(t *text, g *gpu, row *wire.GPU) { flagOfGPU(t, g, part(row.RemappedRows).Pending) }),
		said("muster_gpu_row_remap_failed", gauge, "Whether a row of memory could not be remapped: 1 or 0.",
			func(t *text, g *gpu, row *wire.GPU) { flagOfGPU(t, g, part(row.RemappedRows).Failure) }),
		said("muster_gpu_retired_pages_pending", gauge, "Whether bad pages of memory wait for a restart: 1 or 0.",
			func(t *text, g *gpu, row *wire.GPU) { flagOfGPU(t, g, row.RetiredPagesPending) }),
	}
}

func eventFamilies() []gpuFamily {
	return []gpuFamily{
		said("muster_gpu_processes", gauge, "Processes that compute on the GPU, looked at every few minutes.",
			func(t *text, g *gpu, row *wire.GPU) { numberOfGPU(t, g, part(row.Processes).Count, 1) }),
		said("muster_gpu_processes_memory_bytes", gauge, "Memory of the GPU that those processes use together.",
			func(t *text, g *gpu, row *wire.GPU) { t.sizeOfGPU(g, part(row.Processes).MemoryUsedMiB) }),
		said("muster_gpu_xid_code", gauge, "NVIDIA's code of the GPU's last Xid since the boot. Absent where there was none.",
			func(t *text, g *gpu, _ *wire.GPU) {
				if last := lastXid(g); last != nil {
					t.ofGPU(g, float64(*last.Code))
				}
			}),
		said("muster_gpu_xid_timestamp_seconds", gauge, "When the GPU's last Xid was, by the node's clock.",
			func(t *text, g *gpu, _ *wire.GPU) {
				if last := lastXid(g); last != nil {
					t.ofGPU(g, seconds(last.At))
				}
			}),
	}
}

// part is what a GPU says of a part of it; nothing where it says nothing.
func part[T any](said *T) (known T) {
	if said != nil {
		known = *said
	}
	return known
}

func numberOfGPU[N int | int64](t *text, g *gpu, v *N, unit float64) {
	if v != nil {
		t.ofGPU(g, float64(*v)*unit)
	}
}

func flagOfGPU(t *text, g *gpu, v *bool) {
	if v != nil {
		t.ofGPU(g, flag(*v))
	}
}

// errorsOfGPU writes what was corrected, and what could not be.
func (t *text) errorsOfGPU(g *gpu, corrected, uncorrected *int64) {
	names := [...]string{"corrected", "uncorrected"}
	for i, v := range [...]*int64{corrected, uncorrected} {
		if v != nil {
			t.gpu(g)
			t.label("kind", names[i])
			t.value(float64(*v))
		}
	}
}

// lastXid is the newest event with a code that is about this GPU.
func lastXid(g *gpu) *wire.Xid {
	if g.node.Xids == nil {
		return nil
	}
	var last *wire.Xid
	newest := time.Time{}
	for i := range g.node.Xids.Events {
		event := &g.node.Xids.Events[i]
		if event.Code != nil && event.UUID == g.UUID && g.UUID != "" && !event.At.Before(newest) {
			last = event
			newest = event.At
		}
	}
	return last
}
