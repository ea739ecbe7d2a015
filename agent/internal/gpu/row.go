package gpu

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

const (
	maxHealth = 32 // entries of one GPU
	maxWord   = 40 // bytes of a short text
)

// row is one row of an answer while its cells are read, one after the other.
type row struct {
	wire.GPU // what the cells have said so far

	place int    // of the row among all
	field string // of the cell that is read now
	text  string // of that cell
	kind  kind

	wrong    bool    // it does not begin with a GPU's index
	nameless bool    // the device cannot say its UUID any more
	driver   *string // its version
	failing  int     // sensors that fail
	reset    *bool   // the driver wants a reset
	drain    *bool   // the driver wants one when the work has ended
}

// readRow reads the cells of a row. It calls systemMemory only for a device that shares the system's memory.
func readRow(columns []column, place int, cells []string, systemMemory func() (total, used *int64)) *row {
	r := &row{place: place, GPU: wire.GPU{
		Vendor: wire.VendorNVIDIA, MemorySource: wire.MemoryDevice, Health: []string{},
		ECC: &wire.ECC{}, RemappedRows: &wire.Remaps{}, PCIe: &wire.PCIe{}, Clocks: &wire.Clocks{}, Fabric: &wire.Fabric{},
	}}
	for i, c := range columns {
		r.field = c.name()
		r.text, r.kind = classify(cells[i])
		if word := slug(r.text); r.kind == failed && isWhole(word) {
			r.add(word)
		}
		c.read(r)
	}
	r.memory(systemMemory)
	r.parts()
	r.faults()
	r.ECC = ifAny(*r.ECC)
	r.RemappedRows = ifAny(*r.RemappedRows)
	r.PCIe = ifAny(*r.PCIe)
	r.Fabric = ifAny(*r.Fabric)
	if r.Clocks.SMMHz == nil && r.Clocks.MemoryMHz == nil && r.Clocks.Reasons == nil {
		r.Clocks = nil
	}
	return r
}

// ifAny is a group of values, nil if none of them is known.
func ifAny[T comparable](group T) *T {
	var nothing T
	if group == nothing {
		return nil
	}
	return &group
}

// memory drops figures of memory that cannot be.
func (r *row) memory(systemMemory func() (total, used *int64)) {
	total := r.MemoryTotalMiB
	switch {
	case unified(r.Name):
		r.MemorySource = wire.MemoryUnified
		r.MemoryTotalMiB, r.MemoryUsedMiB = systemMemory()
	case total != nil && *total == 0:
		r.MemoryTotalMiB = nil // no GPU is without memory
		r.MemoryUsedMiB = nil
	case total != nil && r.MemoryUsedMiB != nil && *r.MemoryUsedMiB > *total:
		r.MemoryUsedMiB = nil
	}
	if r.MemorySource == wire.MemoryUnified || r.MemoryTotalMiB == nil {
		r.MemoryFreeMiB = nil
		r.MemoryReservedMiB = nil
	}
	if r.MemoryFreeMiB != nil && *r.MemoryFreeMiB > *r.MemoryTotalMiB {
		r.MemoryFreeMiB = nil
	}
}

// parts drops figures that say nothing about the parts of a divided GPU. lookRarely lists these parts.
func (r *row) parts() {
	switch {
	case r.IsDivided():
		r.UtilizationPercent = nil
		r.MemoryUtilizationPercent = nil
		r.EncoderUtilizationPercent = nil
		r.DecoderUtilizationPercent = nil
	case r.MIG != nil:
		r.MIGInstances = []wire.MIGInstance{} // known to be none
	}
}

// faults puts what the device says of its faults among the marks of its health.
func (r *row) faults() {
	r.askedFor()
	if n := r.ECC.UncorrectedVolatile; n != nil && *n > 0 {
		r.add(fmt.Sprintf("ecc_uncorrected:%d", *n))
	}
	r.addIf(r.RemappedRows.Pending, "row_remap_pending")
	r.addIf(r.RemappedRows.Failure, markRemapFailure)
	r.addIf(r.RetiredPagesPending, "retired_pages_pending")
	if r.RecoveryAction != nil && *r.RecoveryAction != "none" {
		r.add(markRecovery + *r.RecoveryAction)
	}
	const many = 3 // sensors: a device that fails to read so many fails as a whole
	if r.failing >= many && len(severe(r.Health)) == 0 {
		r.Health = append([]string{markUnreadable}, r.Health...)
	}
}

// askedFor is what the driver wants somebody to do, where an older one says so with two flags.
func (r *row) askedFor() {
	switch {
	case r.RecoveryAction != nil || r.reset == nil && r.drain == nil:
	case r.reset != nil && *r.reset:
		r.RecoveryAction = new("reset")
	case r.drain != nil && *r.drain:
		r.RecoveryAction = new("drain_and_reset")
	default:
		r.RecoveryAction = new("none")
	}
}

// readIndex reads which GPU the row is about. A device that fails may not even say that. Then its place among the rows counts, because
// nvidia-smi prints the rows in the order of their indices.
func (r *row) readIndex() {
	r.failure()
	r.Index = r.place
	if r.kind != failed {
		n, err := strconv.ParseUint(r.text, 10, 16)
		r.Index = int(n)
		r.wrong = err != nil
	}
}

// identifier reads a name or an identifier.
func (r *row) identifier() string {
	r.failure()
	if r.kind != present {
		return ""
	}
	return wire.Plain(r.text, maxLine)
}

// figure reads a number that some devices lack. Its failure is no sign of the device's health.
func (r *row) figure(m measure) *float64 {
	value, ok := m.number(r.text)
	if r.kind != present || !ok {
		return nil
	}
	return &value
}

// number reads a figure that every healthy device has. What keeps it from being read is a mark of the device's health.
func (r *row) number(m measure) *float64 {
	r.failure()
	value := r.figure(m)
	if value == nil && r.kind == present {
		r.add("unreadable:" + r.field)
	}
	return value
}

// sensor is number for one of the sensors of which a device that fails as a whole can read few. One that this user may not read does not
// count.
func (r *row) sensor(m measure) *float64 {
	if r.kind == failed && slug(r.text) != "insufficient_permissions" {
		r.failing++
	}
	return r.number(m)
}

// small reads a PCIe generation or a number of lanes.
func (r *row) small() *int {
	n, err := strconv.ParseUint(r.text, 10, 8)
	if r.kind != present || err != nil || n == 0 {
		return nil
	}
	return new(int(n))
}

// flag reads what is on or off. Some drivers print how many things are on.
func (r *row) flag() *bool {
	n, err := strconv.ParseUint(r.text, 10, 64)
	word := strings.ToLower(r.text)
	isOn := slices.Contains([]string{"yes", "enabled", "active"}, word)
	isOff := slices.Contains([]string{"no", "disabled", "not active"}, word)
	if r.kind != present || !isOn && !isOff && err != nil {
		return nil
	}
	return new(isOn || n > 0)
}

// fault is flag for what says something of the device's health if it fails.
func (r *row) fault() *bool {
	r.failure()
	return r.flag()
}

// word reads a short text, which is shown as it is.
func (r *row) word(most int) *string {
	text := wire.Plain(r.text, most)
	if r.kind != present || text == "" {
		return nil
	}
	return &text
}

// slug reads one of nvidia-smi's words, in the form that the function slug gives it.
func (r *row) slug() *string {
	if r.kind != present {
		return nil
	}
	return new(slug(r.text))
}

// state reads P0 to P15.
func (r *row) state() *int {
	number, isState := strings.CutPrefix(r.text, "P")
	n, err := strconv.ParseUint(number, 10, 8)
	if r.kind != present || !isState || err != nil || n > 15 {
		return nil
	}
	return new(int(n))
}

// reasons names the bits of a mask of what sets the clocks, in nvidia-smi's words (nvml.h, nvmlClocksEventReasons).
func (r *row) reasons() []string {
	digits, isHex := strings.CutPrefix(strings.ToLower(r.text), "0x")
	mask, err := strconv.ParseUint(digits, 16, 64)
	if r.kind != present || !isHex || err != nil {
		return nil
	}
	words := [...]string{"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
		"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"}
	reasons := []string{}
	for ; mask != 0; mask &= mask - 1 {
		if bit := bits.TrailingZeros64(mask); bit < len(words) {
			reasons = append(reasons, words[bit])
		} else {
			reasons = append(reasons, fmt.Sprintf("0x%x", uint64(1)<<bit)) // of a later driver
		}
	}
	return reasons
}

// failure records that a field could not be read. What is true of the whole device is recorded by itself.
func (r *row) failure() {
	if word := slug(r.text); r.kind == failed && !isWhole(word) {
		r.add(word + ":" + r.field)
	}
}

// isWhole reports whether the word for a failure is about the whole device.
func isWhole(word string) bool { return word == markReset || word == markLost }

func (r *row) addIf(flag *bool, entry string) {
	if flag != nil && *flag {
		r.add(entry)
	}
}

// add records a mark once. The number of marks is bounded, because some of them hold words of nvidia-smi.
func (r *row) add(entry string) {
	if len(r.Health) < maxHealth && !slices.Contains(r.Health, entry) {
		r.Health = append(r.Health, entry)
	}
}

// whole drops the part behind the decimal point.
func whole(value *float64) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}

// slug turns nvidia-smi's words into one lower-case word.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	word := strings.Join(words, "_")
	if word == "" {
		return "unknown"
	}
	return word[:min(len(word), maxWord)]
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

// Short returns a row with only the values that lists show, for a report that is too long.
func Short(g wire.GPU) wire.GPU {
	return wire.GPU{
		Index: g.Index, UUID: g.UUID, Name: g.Name, BusID: g.BusID, Vendor: g.Vendor, MemoryTotalMiB: g.MemoryTotalMiB,
		MemoryUsedMiB: g.MemoryUsedMiB, MemorySource: g.MemorySource, UtilizationPercent: g.UtilizationPercent,
		TemperatureCelsius: g.TemperatureCelsius, PowerWatts: g.PowerWatts, PowerLimitWatts: g.PowerLimitWatts, MIG: g.MIG, Health: g.Health,
	}
}
