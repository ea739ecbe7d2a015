package picture

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Meter is a value with a bar.
type Meter struct {
	Name  string
	Text  string
	Share *float64 // percent; nil: not known, and the bar is hatched
}

// GPU is a GPU in the page's table.
type GPU struct {
	wire.GPU
	Use, Memory, Power Meter
	Heat               string
	Extra              string // beside its name
	Found              []api.Finding
	Held               []api.GPUHold // who has it, or its parts; none: nobody
}

// Has reports whether a UUID is that of the GPU, or of a part of it.
func (g *GPU) Has(uuid string) bool {
	return g.UUID == uuid || slices.ContainsFunc(g.MIGInstances, func(part wire.MIGInstance) bool { return part.UUID == uuid })
}

// GPUsOf returns the rows of the table, in the order of the GPUs. placed says who has them; nil: nobody.
func GPUsOf(h *wire.Hardware, placed *api.NodePlacement) []GPU {
	var rows []GPU
	for _, g := range h.GPUs {
		row := gpuOf(g)
		if placed != nil {
			for _, hold := range placed.Holds {
				if row.Has(hold.GPU) {
					row.Held = append(row.Held, hold)
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// HostOf returns the meters of the machine itself, without its GPUs.
func HostOf(h *wire.Hardware) []Meter {
	return []Meter{
		{"Memory", amounts(h.MemoryUsedMiB, h.MemoryTotalMiB), share(h.MemoryUsedMiB, h.MemoryTotalMiB)},
		{"Disk", amounts(h.DiskUsedMiB, h.DiskTotalMiB), share(h.DiskUsedMiB, h.DiskTotalMiB)},
		loadOf(h),
	}
}

// loadOf compares the load with the CPUs: a share above 100 means that work waits.
func loadOf(h *wire.Hardware) Meter {
	m := Meter{Name: "Load", Text: decimal(h.Load1, "") + " on " + counted(h.CPUs, " CPUs")}
	if h.Load1 != nil && h.CPUs != nil && *h.CPUs > 0 {
		m.Share = percentOf(*h.Load1, float64(*h.CPUs))
	}
	return m
}

func gpuOf(g wire.GPU) GPU {
	row := GPU{GPU: g, Heat: decimal(g.TemperatureCelsius, " °C")}
	row.Use = Meter{"Utilisation", decimal(g.UtilizationPercent, " %"), nil}
	if g.UtilizationPercent != nil {
		row.Use.Share = percentOf(*g.UtilizationPercent, 100)
	}
	row.Memory = Meter{"Memory", amounts(g.MemoryUsedMiB, g.MemoryTotalMiB), share(g.MemoryUsedMiB, g.MemoryTotalMiB)}
	row.Power = Meter{Name: "Power", Text: watts(g.PowerWatts)}
	if g.PowerLimitWatts != nil {
		row.Power.Text = strings.TrimSuffix(watts(g.PowerWatts), " W") + " / " + watts(g.PowerLimitWatts)
	}
	if g.PowerWatts != nil && g.PowerLimitWatts != nil && *g.PowerLimitWatts > 0 {
		row.Power.Share = percentOf(*g.PowerWatts, *g.PowerLimitWatts)
	}
	var extra []string
	if g.MemorySource == wire.MemoryUnified {
		extra = append(extra, "memory is shared with the CPU")
	}
	if g.MIG != nil && *g.MIG {
		extra = append(extra, strings.TrimSuffix("MIG "+profiles(g.MIGInstances), " "+Unknown))
	}
	row.Extra = strings.Join(extra, "; ")
	return row
}

// counted is a number with what it counts.
func counted[N int | int64](n *N, unit string) string {
	if n == nil {
		return Unknown + unit
	}
	return strconv.FormatInt(int64(*n), 10) + unit
}

// decimal is a number with its unit, or the sign for what is not known.
func decimal(f *float64, unit string) string {
	if f == nil {
		return Unknown
	}
	return strconv.FormatFloat(math.Round(*f*100)/100, 'f', -1, 64) + unit
}

// watts have no digits behind the point: nvidia-smi is right to some watts.
func watts(f *float64) string {
	if f == nil {
		return Unknown
	}
	return strconv.FormatFloat(*f, 'f', 0, 64) + " W"
}

// amounts are what is used of a memory or a disk.
func amounts(used, total *int64) string {
	if used == nil && total == nil {
		return Unknown
	}
	return MiB(used) + " / " + MiB(total)
}

// share is how full it is, in percent.
func share(used, total *int64) *float64 {
	if used == nil || total == nil || *total <= 0 {
		return nil
	}
	return percentOf(float64(*used), float64(*total))
}

func percentOf(part, all float64) *float64 {
	percent := math.Round(min(max(part/all, 0), 1)*1000) / 10
	return &percent
}
