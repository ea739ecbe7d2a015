package picture

import (
	"fmt"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// SheetRow is one thing that GPUs say, with a value for each.
type SheetRow struct {
	Name   string
	Values []string
}

// SheetOf leaves out rows for which no GPU has a value.
func SheetOf(gpus []wire.GPU) []SheetRow {
	var rows []SheetRow
	for _, line := range sheet() {
		row := SheetRow{Name: line.name}
		told := false
		for i := range gpus {
			text := Dash(line.say(&gpus[i]))
			told = told || text != Unknown
			row.Values = append(row.Values, text)
		}
		if told {
			rows = append(rows, row)
		}
	}
	return rows
}

// sheetLine is what a GPU may say beyond the page's table. It says nothing, or Unknown, where the GPU does not.
type sheetLine struct {
	name string
	say  func(*wire.GPU) string
}

// sheet has the lines in their order.
func sheet() []sheetLine {
	return []sheetLine{
		{"UUID", func(g *wire.GPU) string { return g.UUID }},
		{"Bus", func(g *wire.GPU) string { return g.BusID }},
		{"Vendor", func(g *wire.GPU) string { return g.Vendor }},
		{"Compute capability", func(g *wire.GPU) string { return orZero(g.ComputeCapability) }},
		{"Memory reserved", func(g *wire.GPU) string { return MiB(g.MemoryReservedMiB) }},
		{"Memory in use by reads", func(g *wire.GPU) string { return decimal(g.MemoryUtilizationPercent, " %") }},
		{"Encoder", func(g *wire.GPU) string { return decimal(g.EncoderUtilizationPercent, " %") }},
		{"Decoder", func(g *wire.GPU) string { return decimal(g.DecoderUtilizationPercent, " %") }},
		{"Memory temperature", func(g *wire.GPU) string { return decimal(g.MemoryTemperatureCelsius, " °C") }},
		{"Fan", func(g *wire.GPU) string { return decimal(g.FanPercent, " %") }},
		{"Power cap, highest", func(g *wire.GPU) string { return watts(g.PowerMaxLimitWatts) }},
		{"Performance state", func(g *wire.GPU) string { return numbered("P%d", g.PerformanceState) }},
		{"Persistence mode", func(g *wire.GPU) string { return onOff(g.PersistenceMode) }},
		{"SM clock", func(g *wire.GPU) string { return numbered("%d MHz", orZero(g.Clocks).SMMHz) }},
		{"Memory clock", func(g *wire.GPU) string { return numbered("%d MHz", orZero(g.Clocks).MemoryMHz) }},
		{"Clocks set by", func(g *wire.GPU) string {
			return strings.ReplaceAll(strings.Join(orZero(g.Clocks).Reasons, ", "), "_", " ")
		}},
		{"PCIe", func(g *wire.GPU) string { return pcieText(orZero(g.PCIe)) }},
		{"ECC", func(g *wire.GPU) string { return onOff(orZero(g.ECC).Enabled) }},
		{"Errors since the driver was loaded", func(g *wire.GPU) string {
			return errorsText(orZero(g.ECC).UncorrectedVolatile, orZero(g.ECC).CorrectedVolatile)
		}},
		{"Errors ever", func(g *wire.GPU) string {
			return errorsText(orZero(g.ECC).UncorrectedAggregate, orZero(g.ECC).CorrectedAggregate)
		}},
		{"Remapped rows", func(g *wire.GPU) string { return remapText(orZero(g.RemappedRows)) }},
		{"Pages to retire", func(g *wire.GPU) string { return onOff(g.RetiredPagesPending) }},
		{"Driver asks for", func(g *wire.GPU) string { return orZero(g.RecoveryAction) }},
		{"Fabric", func(g *wire.GPU) string {
			return strings.TrimSuffix(orZero(orZero(g.Fabric).State)+", "+orZero(orZero(g.Fabric).Status), ", ")
		}},
		{"NVLink", func(g *wire.GPU) string { return linksText(orZero(g.NVLinks)) }},
		{"MIG instances", func(g *wire.GPU) string { return profiles(g.MIGInstances) }},
		{"Processes", func(g *wire.GPU) string { return processesText(orZero(g.Processes)) }},
	}
}

// orZero is a value, or a group of values, of which none is known where the group is not.
func orZero[T any](group *T) T {
	var none T
	if group == nil {
		return none
	}
	return *group
}

func pcieText(p wire.PCIe) string {
	if p.Generation == nil && p.Width == nil {
		return ""
	}
	return fmt.Sprintf("gen %s x%s of gen %s x%s", counted(p.Generation, ""), counted(p.Width, ""), counted(p.GenerationMax, ""),
		counted(p.WidthMax, ""))
}

func errorsText(uncorrected, corrected *int64) string {
	if uncorrected == nil && corrected == nil {
		return ""
	}
	return counted(uncorrected, " uncorrected, ") + counted(corrected, " corrected")
}

func remapText(r wire.Remaps) string {
	var all []string
	if r.Correctable != nil || r.Uncorrectable != nil {
		all = append(all, counted(r.Uncorrectable, " uncorrectable, ")+counted(r.Correctable, " correctable"))
	}
	if r.Pending != nil && *r.Pending {
		all = append(all, "one waits for a reset")
	}
	if r.Failure != nil && *r.Failure {
		all = append(all, "no spare row is left")
	}
	return strings.Join(all, "; ")
}

func linksText(l wire.NVLinks) string {
	if l.Total == nil {
		return ""
	}
	return counted(l.Total, " links, ") + counted(l.Down, " down")
}

func processesText(p wire.Processes) string {
	if p.Count == nil {
		return ""
	}
	text := strconv.Itoa(*p.Count)
	if p.MemoryUsedMiB != nil {
		text += ", which hold " + MiB(p.MemoryUsedMiB)
	}
	return text
}

// profiles counts the parts of a divided GPU by their size.
func profiles(parts []wire.MIGInstance) string {
	counts := map[string]int{}
	var names []string
	for _, p := range parts {
		if counts[p.Profile] == 0 {
			names = append(names, p.Profile)
		}
		counts[p.Profile]++
	}
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%d × %s", counts[name], name))
	}
	if parts != nil && len(all) == 0 {
		return "no instance"
	}
	return Dash(strings.Join(all, ", "))
}

func onOff(flag *bool) string {
	switch {
	case flag == nil:
		return ""
	case *flag:
		return "yes"
	}
	return "no"
}

// numbered is empty if the number is not known.
func numbered[N int | int64](format string, n *N) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}
