package node

import (
	"cmp"
	"fmt"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli/screen"
)

// driver is such as "590.48.01, CUDA 13.1".
func driver(h *wire.Hardware) string {
	if h.CUDAVersion == nil {
		return text(h.DriverVersion)
	}
	return text(h.DriverVersion) + ", CUDA " + text(h.CUDAVersion)
}

func (v view) hardwareRows() [][]string {
	h := v.hardware
	if h == nil {
		return [][]string{{"  hardware", "not reported"}}
	}
	rows := [][]string{{"  probe", v.probeLine()}, {"  driver", driver(h)}, {"  gpus", v.gpusLine()}}
	for _, g := range h.GPUs {
		rows = append(rows, []string{fmt.Sprintf("  gpu %d", g.Index), gpuLine(g)})
		if more := gpuMore(g); more != "" {
			rows = append(rows, []string{"", more})
		}
		if len(g.Health) > 0 {
			rows = append(rows, []string{"    health", strings.Join(g.Health, ", ")})
		}
	}
	return append(rows,
		[]string{"  host", fmt.Sprintf("%s CPUs, load %s, memory %s, disk %s", word(screen.Number(h.CPUs)), decimal(h.Load1, ""),
			of(h.MemoryUsedMiB, h.MemoryTotalMiB, "MiB"), of(h.DiskUsedMiB, h.DiskTotalMiB, "MiB"))},
		[]string{"  kernel", text(h.Kernel) + ", booted " + word(screen.Stamp(h.BootTime))})
}

func (v view) gpusLine() string {
	line := word(v.gpus())
	if e := v.GPUsExpected; e != nil {
		line += fmt.Sprintf(", %d expected", *e)
	} else {
		line += ", expected number unknown"
	}
	switch age := v.readAge(); {
	case v.old() && age == screen.Unknown:
		line += ", read at an unknown time"
	case v.old():
		line += ", as they were " + age + " ago"
	}
	return line
}

func (v view) probeLine() string {
	p := v.hardware.Probe
	line := word(v.probe())
	if p.TookMS != nil {
		line += fmt.Sprintf(", took %d ms", *p.TookMS)
	}
	if p.SampledAt != nil {
		line += ", sampled " + v.since(v.sampled()) + " ago"
	}
	if p.Error != "" {
		line += ": " + screen.Printable(p.Error)
	}
	return line
}

// of is "39233/81559 MiB", with what is not known in words.
func of[N int | int64](used, total *N, unit string) string {
	switch {
	case used == nil && total == nil:
		return notKnown
	case used == nil:
		return fmt.Sprintf("%d %s, used %s", *total, unit, notKnown)
	case total == nil:
		return fmt.Sprintf("%d %s used, total %s", *used, unit, notKnown)
	}
	return fmt.Sprintf("%d/%d %s", *used, *total, unit)
}

func gpuLine(g wire.GPU) string {
	memory := "memory " + of(g.MemoryUsedMiB, g.MemoryTotalMiB, "MiB")
	if g.MemorySource == wire.MemoryUnified {
		memory += ", unified"
	}
	power := "power " + decimal(g.PowerWatts, " W")
	if g.PowerLimitWatts != nil {
		power += " of " + decimal(g.PowerLimitWatts, " W")
	}
	line := fmt.Sprintf("%s, %s, utilization %s, temperature %s, %s, bus %s, %s", cmp.Or(g.Name, notKnown), memory,
		decimal(g.UtilizationPercent, "%"), decimal(g.TemperatureCelsius, " C"), power,
		cmp.Or(g.BusID, notKnown), cmp.Or(g.UUID, notKnown))
	if g.MIG != nil && *g.MIG {
		line += ", MIG"
	}
	return line
}

// gpuMore is what only some devices and drivers tell. What is unknown is left out.
func gpuMore(g wire.GPU) string {
	var all []string
	add := func(known bool, format string, args ...any) {
		if known {
			all = append(all, screen.Printable(fmt.Sprintf(format, args...)))
		}
	}
	if c := g.Clocks; c != nil {
		add(c.SMMHz != nil, "SM %s MHz", screen.Number(c.SMMHz))
		add(c.MemoryMHz != nil, "memory %s MHz", screen.Number(c.MemoryMHz))
		add(len(c.Reasons) > 0, "clocks set by %s", strings.Join(c.Reasons, ", "))
	}
	if p := g.PCIe; p != nil {
		add(p.Generation != nil && p.Width != nil, "PCIe %s x%s (of %s x%s)", screen.Number(p.Generation), screen.Number(p.Width),
			word(screen.Number(p.GenerationMax)), word(screen.Number(p.WidthMax)))
	}
	if e := g.ECC; e != nil {
		add(e.UncorrectedVolatile != nil, "%s uncorrected errors since boot", screen.Number(e.UncorrectedVolatile))
		add(e.UncorrectedAggregate != nil, "%s ever", screen.Number(e.UncorrectedAggregate))
	}
	add(g.RecoveryAction != nil && *g.RecoveryAction != "none", "recovery action %s", text(g.RecoveryAction))
	add(len(g.MIGInstances) > 0, "%s", screen.Plural(len(g.MIGInstances), "MIG instance"))
	if p := g.Processes; p != nil {
		add(p.Count != nil, "%s", processes(p.Count))
		add(p.Count != nil && p.MemoryUsedMiB != nil, "which hold %s MiB", screen.Number(p.MemoryUsedMiB))
	}
	return strings.Join(all, ", ")
}

func processes(n *int) string {
	if n != nil && *n == 1 {
		return "1 process"
	}
	return screen.Number(n) + " processes"
}
