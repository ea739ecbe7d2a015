package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

// table writes for people.
type table struct{ to io.Writer }

// print writes a reading for a person: the machine, how the look went, and a paragraph for each GPU. A value that is not known is
// left out. A few that everybody looks for are shown as not known.
func (t table) print(h wire.Hardware, reasons []string, detail map[string]string) {
	t.line("machine", join(", ", count(h.CPUs, "processors"), of(h.MemoryUsedMiB, h.MemoryTotalMiB, "MiB of memory"),
		of(h.DiskUsedMiB, h.DiskTotalMiB, "MiB of disk"), with("load ", figure(h.Load1, "")), with("Linux ", text(h.Kernel)), since(h.BootTime)))
	probe := h.Probe.State
	if h.Probe.TookMS != nil {
		probe += fmt.Sprintf(" in %d ms", *h.Probe.TookMS)
	}
	t.line("gpu probe", join(": ", probe, h.Probe.Error))
	t.line("driver", join(", ", text(h.DriverVersion), with("CUDA ", text(h.CUDAVersion))))
	t.printKernel(h.Xids)
	for _, reason := range reasons {
		t.line(reason, detail[reason])
	}
	for _, g := range h.GPUs {
		t.printGPU(g)
	}
}

// printKernel writes what the kernel said about GPUs. A log that cannot be read is not one without events.
func (t table) printKernel(x *wire.Xids) {
	switch {
	case x == nil:
		return
	case x.State != wire.KernelRead:
		t.line("kernel log", join(": ", "not available", x.Error))
		return
	case len(x.Events) == 0:
		t.line("kernel log", "nothing about GPUs since the boot")
	}
	for _, e := range x.Events {
		t.line("kernel log", join("  ", e.At.Format(time.RFC3339), e.Kind, orElse(e.UUID, e.BusID), e.Text))
	}
}

func (t table) line(name, value string) {
	if value != "" {
		fmt.Fprintf(t.to, "%-13s %s\n", name, value)
	}
}

// printGPU writes the paragraph of one GPU. Memory, use, temperature and power have a line even where they are not known.
func (t table) printGPU(g wire.GPU) {
	fmt.Fprintf(t.to, "\nGPU %d  %s\n", g.Index, join("  ", g.Name, g.UUID, g.BusID))
	sub := func(name string, parts ...string) { t.line("  "+name, join(", ", parts...)) }
	memory := of(g.MemoryUsedMiB, g.MemoryTotalMiB, "MiB")
	if g.MemorySource == wire.MemoryUnified {
		memory += ", shared with the processors"
	}
	sub("memory", memory, size(g.MemoryFreeMiB, "free"), size(g.MemoryReservedMiB, "reserved"))
	sub("busy", orUnknown(figure(g.UtilizationPercent, "%")), with("memory ", figure(g.MemoryUtilizationPercent, "%")),
		with("encoder ", figure(g.EncoderUtilizationPercent, "%")), with("decoder ", figure(g.DecoderUtilizationPercent, "%")),
		processes(g.Processes))
	sub("temperature", orUnknown(figure(g.TemperatureCelsius, " C")), with("memory ", figure(g.MemoryTemperatureCelsius, " C")),
		with("fan ", figure(g.FanPercent, "%")))
	sub("power", orUnknown(figure(g.PowerWatts, " W")), with("limit ", figure(g.PowerLimitWatts, " W")),
		with("at most ", figure(g.PowerMaxLimitWatts, " W")), with("P", whole(g.PerformanceState)))
	if c := g.Clocks; c != nil {
		sub("clocks", with("SM ", size(c.SMMHz, "MHz")), with("memory ", size(c.MemoryMHz, "MHz")), with("set by ", strings.Join(c.Reasons, " ")))
	}
	if l := g.PCIe; l != nil {
		sub("PCIe", with("generation ", outOf(l.Generation, l.GenerationMax)), with("lanes ", outOf(l.Width, l.WidthMax)))
	}
	t.printMemoryErrors(g)
	if g.Fabric != nil {
		sub("fabric", text(g.Fabric.State), text(g.Fabric.Status))
	}
	if l := g.NVLinks; l != nil {
		sub("NVLink", count(l.Total, "links"), with("down ", orUnknown(whole(l.Down))))
	}
	sub("driver", with("compute capability ", text(g.ComputeCapability)),
		yes(g.PersistenceMode, "persistence mode on", "persistence mode off"),
		with("recovery action ", text(g.RecoveryAction)))
	if g.MIG != nil && *g.MIG {
		sub("MIG", mig(g.MIGInstances))
	}
	sub("health", orElse(strings.Join(g.Health, " "), "nothing is known to be wrong"))
}

// printMemoryErrors writes what is known about bad memory. Older GPUs retire pages, and newer ones remap rows.
func (t table) printMemoryErrors(g wire.GPU) {
	if e := g.ECC; e != nil {
		t.line("  ECC", join(", ", yes(e.Enabled, "on", "off"),
			with("corrected ", pair(e.CorrectedVolatile, e.CorrectedAggregate)),
			with("uncorrected ", pair(e.UncorrectedVolatile, e.UncorrectedAggregate))))
	}
	if r := g.RemappedRows; r != nil {
		t.line("  remapped", join(", ", size(r.Correctable, "correctable"), size(r.Uncorrectable, "uncorrectable"),
			yes(r.Pending, "one waits for a reset", ""), yes(r.Failure, "one could not be remapped", "")))
	}
	t.line("  pages", yes(g.RetiredPagesPending, "bad ones wait for a restart", ""))
}

// pair is a count since the driver was loaded, and the same over the life of the board.
func pair(now, ever *int64) string {
	return join(", ", size(now, "since the driver was loaded"), size(ever, "ever"))
}

func processes(p *wire.Processes) string {
	if p == nil || p.Count == nil {
		return "processes not known"
	}
	if *p.Count == 0 {
		return "no processes"
	}
	return join(" with ", count(p.Count, "processes"), size(p.MemoryUsedMiB, "MiB"))
}

// mig lists the instances of a divided GPU. No list and an empty one mean different things.
func mig(instances []wire.MIGInstance) string {
	if instances == nil {
		return "on, instances not known"
	}
	parts := make([]string, len(instances))
	for i, one := range instances {
		parts[i] = one.Profile + " " + one.UUID
	}
	return orElse(strings.Join(parts, ", "), "on, no instances")
}

// The functions below give "" for a value that is not known, and join leaves it out.

// join joins the parts that are not empty.
func join(between string, parts ...string) string {
	var there []string
	for _, part := range parts {
		if part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, between)
}

func with(prefix, value string) string {
	if value == "" {
		return ""
	}
	return prefix + value
}

func orElse(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

func orUnknown(value string) string { return orElse(value, "not known") }

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func figure(value *float64, unit string) string {
	if value == nil {
		return ""
	}
	return strconv.FormatFloat(*value, 'f', -1, 64) + unit
}

func whole(value *int) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(*value)
}

func count(value *int, of string) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(*value) + " " + of
}

func size(value *int64, of string) string {
	if value == nil {
		return ""
	}
	return strconv.FormatInt(*value, 10) + " " + of
}

// of writes used/total, with ? for the one that is not known.
func of(used, total *int64, unit string) string {
	show := func(value *int64) string { return orElse(strings.TrimSpace(size(value, "")), "?") }
	if used == nil && total == nil {
		return ""
	}
	return show(used) + "/" + show(total) + " " + unit
}

// outOf writes what a PCIe link has now and what it could have.
func outOf(value, most *int) string {
	if most == nil {
		return whole(value)
	}
	return orElse(whole(value), "?") + " of " + whole(most)
}

// yes gives the words for a flag that is on or off.
func yes(flag *bool, on, off string) string {
	switch {
	case flag == nil:
		return ""
	case *flag:
		return on
	}
	return off
}

func since(start *time.Time) string {
	if start == nil {
		return ""
	}
	return "up since " + start.Format(time.RFC3339)
}
