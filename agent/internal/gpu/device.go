package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

const maxHealth = 32 // entries of one GPU

// record is one row: the columns that were asked for, their cells, and what they say of the device's health.
type record struct {
	columns []column
	cells   []string
	health  []string
}

// cell returns the cell of a field, "" where the field was not asked for.
func (r *record) cell(field string) string {
	i := slices.IndexFunc(r.columns, func(c column) bool { return c.field == field })
	if i < 0 || i >= len(r.cells) {
		return ""
	}
	return r.cells[i]
}

// index reads which GPU the row is about. A device that fails may not even say that. Then its place among the rows counts, because
// nvidia-smi prints the rows in the order of their indices.
func (r *record) index(place int) (index int, ok bool) {
	text, kind := classify(r.cell(fieldIndex))
	r.failure(fieldIndex, text, kind)
	if kind == failed {
		return place, true
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil
}

// device reads the row of the GPU with this index. It calls systemMemory only for a device that shares the system's memory.
func (r *record) device(index int, systemMemory func() (total, used *int64)) wire.GPU {
	g := wire.GPU{
		Index: index, UUID: r.text(fieldUUID), Name: r.text(fieldName), BusID: r.text(fieldBus),
		Vendor:             wire.VendorNVIDIA,
		MIG:                r.mig(),
		MemorySource:       wire.MemoryDevice,
		MemoryTotalMiB:     r.memory(fieldMemoryTotal),
		MemoryUsedMiB:      r.memory(fieldMemoryUsed),
		UtilizationPercent: r.number(fieldUtilization, percent),
		TemperatureCelsius: r.number(fieldTemperature, celsius),
		PowerWatts:         r.number(fieldPower, watts),
		PowerLimitWatts:    r.number(fieldPowerLimit, watts),
	}
	if g.IsDivided() {
		g.UtilizationPercent = nil // the figure of a divided GPU says nothing of its instances
	}
	switch {
	case unified(g.Name):
		g.MemorySource = wire.MemoryUnified
		g.MemoryTotalMiB, g.MemoryUsedMiB = systemMemory()
	case g.MemoryTotalMiB != nil && *g.MemoryTotalMiB == 0:
		g.MemoryTotalMiB = nil // no GPU is without memory
		g.MemoryUsedMiB = nil
	case g.MemoryTotalMiB != nil && g.MemoryUsedMiB != nil && *g.MemoryUsedMiB > *g.MemoryTotalMiB:
		g.MemoryUsedMiB = nil
	}
	r.details(&g)
	r.faults(&g)
	r.unreadable()
	g.Health = append([]string{}, r.health...)
	return g
}

// text reads a name or an identifier.
func (r *record) text(field string) string {
	text, kind := classify(r.cell(field))
	if kind == present {
		return wire.Plain(text, maxLine)
	}
	r.failure(field, text, kind)
	return ""
}

// number reads a figure that every healthy device has. What keeps it from being read is recorded as a mark of the device's health.
func (r *record) number(field string, m measure) *float64 {
	text, kind := classify(r.cell(field))
	if kind != present {
		r.failure(field, text, kind)
		return nil
	}
	value, ok := m.number(text)
	if !ok {
		r.add("unreadable:" + field)
		return nil
	}
	return &value
}

func (r *record) memory(field string) *int64 {
	return whole(r.number(field, mebibytes))
}

// mig reports whether the device is divided. It is nil if the device has no such mode, or did not say.
func (r *record) mig() *bool {
	text, kind := classify(r.cell(fieldMIG))
	r.failure(fieldMIG, text, kind)
	on := strings.EqualFold(text, "enabled")
	if kind != present || !on && !strings.EqualFold(text, "disabled") {
		return nil
	}
	return &on
}

// faults reads the fields that say whether the device is healthy.
func (r *record) faults(g *wire.GPU) {
	ecc := wire.ECC{
		Enabled:              r.flag(fieldECCMode),
		UncorrectedVolatile:  whole(r.number(fieldECC, count)),
		UncorrectedAggregate: r.optionalWhole(fieldECCEver, count),
		CorrectedVolatile:    r.optionalWhole(fieldECCFixed, count),
		CorrectedAggregate:   r.optionalWhole(fieldECCFixedEver, count),
	}
	remaps := wire.Remaps{
		Correctable: r.optionalWhole(fieldRemapFixed, count), Uncorrectable: r.optionalWhole(fieldRemapBroken, count),
		Pending: r.fault(fieldRemapWaits), Failure: r.fault(fieldRemapFailed),
	}
	g.ECC = ifAny(ecc)
	g.RemappedRows = ifAny(remaps)
	g.RetiredPagesPending = r.flag(fieldPagesPending)
	g.RecoveryAction = r.recovery()
	if n := ecc.UncorrectedVolatile; n != nil && *n > 0 {
		r.add(fmt.Sprintf("ecc_uncorrected:%d", *n))
	}
	r.addIf(remaps.Pending, "row_remap_pending")
	r.addIf(remaps.Failure, markRemapFailure)
	r.addIf(g.RetiredPagesPending, "retired_pages_pending")
	if g.RecoveryAction != nil && *g.RecoveryAction != "none" {
		r.add(markRecovery + *g.RecoveryAction)
	}
}

// recovery is what the driver asks for, in one word such as reset. Older drivers say it with two flags.
func (r *record) recovery() *string {
	action, kind := classify(r.cell(fieldRecovery))
	r.failure(fieldRecovery, action, kind)
	if kind == present {
		action = slug(action)
		return &action
	}
	reset := r.fault(fieldResetNeeded)
	drain := r.fault(fieldDrainAndReset)
	switch {
	case reset == nil && drain == nil:
		return nil
	case reset != nil && *reset:
		action = "reset"
	case drain != nil && *drain:
		action = "drain_and_reset"
	default:
		action = "none"
	}
	return &action
}

// fault is flag for a field whose failure says something of the device's health.
func (r *record) fault(field string) *bool {
	text, kind := classify(r.cell(field))
	r.failure(field, text, kind)
	return r.flag(field)
}

// failure records that a field could not be read. What is true of the whole device is recorded once, without the field.
func (r *record) failure(field, text string, k kind) {
	if k != failed {
		return
	}
	word := slug(text)
	switch word {
	case markReset, markLost:
		r.add(word)
	default:
		r.add(word + ":" + field)
	}
}

// unreadable marks a device that fails as a whole: three or more of its sensors fail. A sensor that this user may not read does
// not count.
func (r *record) unreadable() {
	const most = 3
	n := 0
	for _, field := range [...]string{fieldMemoryTotal, fieldMemoryUsed, fieldUtilization, fieldTemperature, fieldPower} {
		if text, kind := classify(r.cell(field)); kind == failed && slug(text) != "insufficient_permissions" {
			n++
		}
	}
	if n >= most && len(severe(r.health)) == 0 {
		r.health = append([]string{markUnreadable}, r.health...)
	}
}

func (r *record) addIf(flag *bool, entry string) {
	if flag != nil && *flag {
		r.add(entry)
	}
}

// add records a mark once. The number of marks is bounded, because some of them hold words of nvidia-smi.
func (r *record) add(entry string) {
	if len(r.health) < maxHealth && !slices.Contains(r.health, entry) {
		r.health = append(r.health, entry)
	}
}

// slug turns nvidia-smi's words into one lower-case word, at most 40 bytes.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	word := strings.Join(words, "_")
	if word == "" {
		return "unknown"
	}
	return word[:min(len(word), 40)]
}

// unified reports whether a device of this name shares the system's memory. The name decides, because for such a device nvidia-smi
// prints no memory or, on some, wrong figures.
func unified(name string) bool {
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	return slices.ContainsFunc(words, func(word string) bool {
		switch word {
		case "ORIN", "THOR", "XAVIER", "TEGRA", "N1", "N1X":
			return true
		}
		rest, ok := strings.CutPrefix(word, "GB10") // GB10 and GB10B, not GB100
		return ok && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	})
}
