package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

const maxHealth = 32 // entries of one GPU

// errNoIndex is why a row of the right width is no row of a GPU.
var errNoIndex = errors.New("does not begin with a GPU's index")

// record is one row with the columns that it was asked for, and what it says of the device's health.
type record struct {
	columns []column
	cells   []string
	health  []string
}

// cell returns the cell of a field, "" when it was not asked for.
func (r *record) cell(field string) string {
	i := slices.IndexFunc(r.columns, func(c column) bool { return c.field == field })
	if i < 0 || i >= len(r.cells) {
		return ""
	}
	return r.cells[i]
}

// device reads the row. systemMemory is asked only for a device that shares the system's.
func (r *record) device(systemMemory func() (total, used *int64)) (wire.GPU, error) {
	index, err := strconv.ParseUint(r.cell(fieldIndex), 10, 16)
	if err != nil {
		return wire.GPU{}, errNoIndex
	}
	g := wire.GPU{
		Index: int(index), UUID: r.text(fieldUUID), Name: r.text(fieldName), BusID: r.text(fieldBus),
		MIG:                r.mig(),
		MemorySource:       wire.MemoryDevice,
		MemoryTotalMiB:     r.memory(fieldMemoryTotal),
		MemoryUsedMiB:      r.memory(fieldMemoryUsed),
		UtilizationPercent: r.number(fieldUtilization, percent),
		TemperatureCelsius: r.number(fieldTemperature, celsius),
		PowerWatts:         r.number(fieldPower, watts),
		PowerLimitWatts:    r.number(fieldPowerLimit, watts),
	}
	if g.MIG != nil && *g.MIG {
		g.UtilizationPercent = nil // a parent's figure says nothing of its instances
	}
	switch {
	case unified(g.Name):
		g.MemorySource = wire.MemoryUnified
		g.MemoryTotalMiB, g.MemoryUsedMiB = systemMemory()
	case g.MemoryTotalMiB != nil && *g.MemoryTotalMiB == 0:
		g.MemoryTotalMiB, g.MemoryUsedMiB = nil, nil // no GPU has none
	case g.MemoryTotalMiB != nil && g.MemoryUsedMiB != nil && *g.MemoryUsedMiB > *g.MemoryTotalMiB:
		g.MemoryUsedMiB = nil
	}
	r.faults()
	g.Health = append([]string{}, r.health...)
	return g, nil
}

// text reads a name or an identifier.
func (r *record) text(field string) string {
	text, kind := classify(r.cell(field))
	if kind == present {
		return clean(text, maxLine)
	}
	r.failure(field, text, kind)
	return ""
}

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
	value := r.number(field, mebibytes)
	if value == nil {
		return nil
	}
	whole := int64(*value)
	return &whole
}

func (r *record) mig() *bool {
	text, kind := classify(r.cell(fieldMIG))
	r.failure(fieldMIG, text, kind)
	on := strings.EqualFold(text, "enabled")
	if kind != present || !on && !strings.EqualFold(text, "disabled") {
		return nil
	}
	return &on
}

// faults reads the fields whose values are health itself.
func (r *record) faults() {
	if n := r.number(fieldECC, count); n != nil && *n > 0 {
		r.add(fmt.Sprintf("ecc_uncorrected:%.0f", *n))
	}
	if r.yes(fieldRemapWaits) {
		r.add("row_remap_pending")
	}
	if r.yes(fieldRemapFailed) {
		r.add("row_remap_failure")
	}
	action, kind := classify(r.cell(fieldRecovery))
	r.failure(fieldRecovery, action, kind)
	if kind == present && !strings.EqualFold(action, "none") {
		r.add("recovery_action:" + slug(action))
	}
}

// yes reads a flag that some drivers print as a word and others as a number of rows.
func (r *record) yes(field string) bool {
	text, kind := classify(r.cell(field))
	r.failure(field, text, kind)
	n, err := strconv.ParseUint(text, 10, 64)
	return kind == present && (strings.EqualFold(text, "yes") || err == nil && n > 0)
}

// failure records that a field could not be read. What concerns the whole device is said once, without the field.
func (r *record) failure(field, text string, k kind) {
	if k != failed {
		return
	}
	word := slug(text)
	switch word {
	case "gpu_requires_reset", "gpu_is_lost":
		r.add(word)
	default:
		r.add(word + ":" + field)
	}
}

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

// unified reports whether a device of this name shares the system's memory. What nvidia-smi says of such a device's memory
// is nothing, or, on some, a figure that is wrong: so the name decides.
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
