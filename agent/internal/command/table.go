package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
)

// table writes for people.
type table struct{ to io.Writer }

// print writes a reading for a person: the machine, how the look went, and a paragraph for each GPU. A value that is not known is
// left out. A few that everybody looks for are shown as not known.
func (t table) print(h wire.Hardware, reasons []string, detail map[string]string) {
	t.line("machine", join(", ", show(h.CPUs, " processors"), of(h.MemoryUsedMiB, h.MemoryTotalMiB, "MiB of memory"),
		of(h.DiskUsedMiB, h.DiskTotalMiB, "MiB of disk"), with("load ", show(h.Load1, "")),
		with("Linux ", show(h.Kernel, "")), since(h.BootTime)))
	probe := h.Probe.State
	if h.Probe.TookMS != nil {
		probe += fmt.Sprintf(" in %d ms", *h.Probe.TookMS)
	}
	t.line("gpu probe", join(": ", probe, h.Probe.Error))
	t.line("driver", join(", ", show(h.DriverVersion, ""), with("CUDA ", show(h.CUDAVersion, ""))))
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
		t.line("kernel log", join("  ", e.At.Format(time.RFC3339), e.Kind, cmp.Or(e.UUID, e.BusID), e.Text))
	}
}

func (t table) line(name, value string) {
	if value != "" {
		fmt.Fprintf(t.to, "%-13s %s\n", name, value)
	}
}

// printGPU writes the paragraph of one GPU. Memory, use, temperature and power have a line even if they are not known.
func (t table) printGPU(g wire.GPU) {
	fmt.Fprintf(t.to, "\nGPU %d  %s\n", g.Index, join("  ", g.Name, g.UUID, g.BusID))
	sub := func(name string, parts ...string) { t.line("  "+name, join(", ", parts...)) }
	memory := of(g.MemoryUsedMiB, g.MemoryTotalMiB, "MiB")
	if g.MemorySource == wire.MemoryUnified {
		memory += ", shared with the processors"
	}
	sub("memory", memory, show(g.MemoryFreeMiB, " free"), show(g.MemoryReservedMiB, " reserved"))
	sub("busy", orUnknown(show(g.UtilizationPercent, "%")), with("memory ", show(g.MemoryUtilizationPercent, "%")),
		with("encoder ", show(g.EncoderUtilizationPercent, "%")), with("decoder ", show(g.DecoderUtilizationPercent, "%")),
		processes(g.Processes))
	sub("temperature", orUnknown(show(g.TemperatureCelsius, " C")), with("memory ", show(g.MemoryTemperatureCelsius, " C")),
		with("fan ", show(g.FanPercent, "%")))
	sub("power", orUnknown(show(g.PowerWatts, " W")), with("limit ", show(g.PowerLimitWatts, " W")),
		with("at most ", show(g.PowerMaxLimitWatts, " W")), with("P", show(g.PerformanceState, "")))
	if c := g.Clocks; c != nil {
		sub("clocks", with("SM ", show(c.SMMHz, " MHz")), with("memory ", show(c.MemoryMHz, " MHz")),
			with("set by ", strings.Join(c.Reasons, " ")))
	}
	if l := g.PCIe; l != nil {
		sub("PCIe", with("generation ", outOf(l.Generation, l.GenerationMax)), with("lanes ", outOf(l.Width, l.WidthMax)))
	}
	t.printMemoryErrors(g)
	if g.Fabric != nil {
		sub("fabric", show(g.Fabric.State, ""), show(g.Fabric.Status, ""))
	}
	if l := g.NVLinks; l != nil {
		sub("NVLink", show(l.Total, " links"), with("down ", orUnknown(show(l.Down, ""))))
	}
	sub("driver", with("compute capability ", show(g.ComputeCapability, "")),
		yes(g.PersistenceMode, "persistence mode on", "persistence mode off"),
		with("recovery action ", show(g.RecoveryAction, "")))
	if g.IsDivided() {
		sub("MIG", mig(g.MIGInstances))
	}
	sub("health", cmp.Or(strings.Join(g.Health, " "), "nothing is known to be wrong"))
}

// printMemoryErrors writes what is known about bad memory. Older GPUs retire pages, and newer ones remap rows.
func (t table) printMemoryErrors(g wire.GPU) {
	if e := g.ECC; e != nil {
		t.line("  ECC", join(", ", yes(e.Enabled, "on", "off"),
			with("corrected ", pair(e.CorrectedVolatile, e.CorrectedAggregate)),
			with("uncorrected ", pair(e.UncorrectedVolatile, e.UncorrectedAggregate))))
	}
	if r := g.RemappedRows; r != nil {
		t.line("  remapped", join(", ", show(r.Correctable, " correctable"), show(r.Uncorrectable, " uncorrectable"),
			yes(r.Pending, "one waits for a reset", ""), yes(r.Failure, "one could not be remapped", "")))
	}
	t.line("  pages", yes(g.RetiredPagesPending, "bad ones wait for a restart", ""))
}

// pair is a count since the driver was loaded, and the same over the life of the board.
func pair(now, ever *int64) string {
	return join(", ", show(now, " since the driver was loaded"), show(ever, " ever"))
}

func processes(p *wire.Processes) string {
	if p == nil || p.Count == nil {
		return "processes not known"
	}
	if *p.Count == 0 {
		return "no processes"
	}
	return join(" with ", show(p.Count, " processes"), show(p.MemoryUsedMiB, " MiB"))
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
	return cmp.Or(strings.Join(parts, ", "), "on, no instances")
}

// The functions below give "" for a value that is not known, and join leaves it out.

// join joins the parts that are not empty.
func join(between string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), between)
}

func with(prefix, value string) string {
	if value == "" {
		return ""
	}
	return prefix + value
}

func orUnknown(value string) string { return cmp.Or(value, "not known") }

// show writes a value with what stands behind it, such as its unit.
func show[T any](value *T, behind string) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value) + behind
}

// of writes used/total, with ? for the one that is not known.
func of(used, total *int64, unit string) string {
	if used == nil && total == nil {
		return ""
	}
	return cmp.Or(show(used, ""), "?") + "/" + cmp.Or(show(total, ""), "?") + " " + unit
}

// outOf writes what a PCIe link has now and what it could have.
func outOf(value, most *int) string {
	if most == nil {
		return show(value, "")
	}
	return cmp.Or(show(value, ""), "?") + " of " + show(most, "")
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
