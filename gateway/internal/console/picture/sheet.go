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

// SheetOf leaves out what none of the GPUs says.
func SheetOf(gpus []wire.GPU) []SheetRow {
	var rows []SheetRow
	for _, name := range sheetNames() {
		row := SheetRow{Name: name}
		told := false
		for i := range gpus {
			text := Dash(sheetValue(name, &gpus[i]))
			told = told || text != Unknown
			row.Values = append(row.Values, text)
		}
		if told {
			rows = append(rows, row)
		}
	}
	return rows
}

// sheetNames are what a GPU may say beyond the page's table, in the order of the sheet.
func sheetNames() []string {
	return []string{"UUID", "Bus", "Vendor", "Compute capability", "Memory reserved", "Memory in use by reads", "Encoder", "Decoder",
		"Memory temperature", "Fan", "Power cap, highest", "Performance state", "Persistence mode", "SM clock", "Memory clock", "Clocks set by",
		"PCIe", "ECC", "Errors since the driver was loaded", "Errors ever", "Remapped rows", "Pages to retire", "Driver asks for", "Fabric",
		"NVLink", "MIG instances", "Processes"}
}

// sheetValue is empty where the GPU does not say it.
func sheetValue(name string, g *wire.GPU) string {
	switch name {
	case "UUID":
		return g.UUID
	case "Bus":
		return g.BusID
	case "Vendor":
		return g.Vendor
	case "Compute capability":
		return said(g.ComputeCapability)
	case "Memory reserved":
		return MiB(g.MemoryReservedMiB)
	case "Memory in use by reads":
		return decimal(g.MemoryUtilizationPercent, " %")
	case "Encoder":
		return decimal(g.EncoderUtilizationPercent, " %")
	case "Decoder":
		return decimal(g.DecoderUtilizationPercent, " %")
	case "Memory temperature":
		return decimal(g.MemoryTemperatureCelsius, " °C")
	case "Fan":
		return decimal(g.FanPercent, " %")
	case "Power cap, highest":
		return watts(g.PowerMaxLimitWatts)
	case "Performance state":
		return numbered("P%d", g.PerformanceState)
	case "Persistence mode":
		return onOff(g.PersistenceMode)
	case "Pages to retire":
		return onOff(g.RetiredPagesPending)
	case "Driver asks for":
		return said(g.RecoveryAction)
	case "MIG instances":
		return profiles(g.MIGInstances)
	}
	return sheetGroup(name, g)
}

// sheetGroup is sheetValue for what comes in groups.
func sheetGroup(name string, g *wire.GPU) string {
	clocks, ecc := orZero(g.Clocks), orZero(g.ECC)
	switch name {
	case "SM clock":
		return numbered("%d MHz", clocks.SMMHz)
	case "Memory clock":
		return numbered("%d MHz", clocks.MemoryMHz)
	case "Clocks set by":
		return strings.ReplaceAll(strings.Join(clocks.Reasons, ", "), "_", " ")
	case "PCIe":
		return pcieText(orZero(g.PCIe))
	case "ECC":
		return onOff(ecc.Enabled)
	case "Errors since the driver was loaded":
		return errorsText(ecc.UncorrectedVolatile, ecc.CorrectedVolatile)
	case "Errors ever":
		return errorsText(ecc.UncorrectedAggregate, ecc.CorrectedAggregate)
	case "Remapped rows":
		return remapText(orZero(g.RemappedRows))
	case "Fabric":
		return strings.TrimSuffix(said(orZero(g.Fabric).State)+", "+said(orZero(g.Fabric).Status), ", ")
	case "NVLink":
		return linksText(orZero(g.NVLinks))
	case "Processes":
		return processesText(orZero(g.Processes))
	}
	return ""
}

// orZero is a group of values, of which none is known where the group is not.
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

func said(text *string) string {
	if text == nil {
		return ""
	}
	return *text
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

// numbered is empty where the number is not known.
func numbered[N int | int64](format string, n *N) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(format, *n)
}
