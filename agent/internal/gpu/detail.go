package gpu

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// details reads the fields that say how the device works, not whether it is healthy. A failure of one of them is no sign of the
// device's health, unless it says that the device itself is lost or needs a reset.
func (r *record) details(g *wire.GPU) {
	g.ComputeCapability = r.word(fieldCapability)
	g.PersistenceMode = r.flag(fieldPersistence)
	g.PerformanceState = r.performanceState()
	free := r.optionalWhole(fieldMemoryFree, mebibytes)
	reserved := r.optionalWhole(fieldMemoryReserved, mebibytes)
	if g.MemorySource != wire.MemoryUnified && g.MemoryTotalMiB != nil {
		g.MemoryReservedMiB = reserved
		if free != nil && *free <= *g.MemoryTotalMiB {
			g.MemoryFreeMiB = free
		}
	}
	if !g.IsDivided() { // the figures of a divided GPU say nothing about its instances
		g.MemoryUtilizationPercent = r.optional(fieldMemoryBusy, percent)
		g.EncoderUtilizationPercent = r.optional(fieldEncoder, percent)
		g.DecoderUtilizationPercent = r.optional(fieldDecoder, percent)
	}
	g.MemoryTemperatureCelsius = r.optional(fieldMemoryHeat, celsius)
	g.FanPercent = r.optional(fieldFan, fanPercent)
	g.PowerMaxLimitWatts = r.optional(fieldPowerMax, watts)
	g.PCIe = ifAny(wire.PCIe{
		Generation: r.small(fieldLinkGen), GenerationMax: r.small(fieldLinkGenMax),
		Width: r.small(fieldLinkWidth), WidthMax: r.small(fieldLinkWidthMax),
	})
	g.Fabric = ifAny(wire.Fabric{State: r.slug(fieldFabricState), Status: r.slug(fieldFabricStatus)})
	clocks := wire.Clocks{
		SMMHz: r.optionalWhole(fieldClockSM, megahertz), MemoryMHz: r.optionalWhole(fieldClockMemory, megahertz), Reasons: r.clockReasons(),
	}
	if clocks.SMMHz != nil || clocks.MemoryMHz != nil || clocks.Reasons != nil {
		g.Clocks = &clocks
	}
	if g.MIG != nil && !*g.MIG { // known to be none; for a divided GPU lookRarely lists them
		g.MIGInstances = []wire.MIGInstance{}
	}
}

// Short is a row with only the values that lists show, for a report that is too long.
func Short(g wire.GPU) wire.GPU {
	return wire.GPU{
		Index: g.Index, UUID: g.UUID, Name: g.Name, BusID: g.BusID, Vendor: g.Vendor, MemoryTotalMiB: g.MemoryTotalMiB,
		MemoryUsedMiB: g.MemoryUsedMiB,
		MemorySource:  g.MemorySource, UtilizationPercent: g.UtilizationPercent, TemperatureCelsius: g.TemperatureCelsius,
		PowerWatts: g.PowerWatts, PowerLimitWatts: g.PowerLimitWatts, MIG: g.MIG, Health: g.Health,
	}
}

// ifAny is a group of values, nil if none of them is known.
func ifAny[T comparable](group T) *T {
	var nothing T
	if group == nothing {
		return nil
	}
	return &group
}

// value returns a field's text, false if there is none.
func (r *record) value(field string) (string, bool) {
	text, kind := classify(r.cell(field))
	if word := slug(text); kind == failed && (word == markReset || word == markLost) {
		r.add(word)
	}
	return text, kind == present
}

// optional is number for a field that says nothing of the device's health.
func (r *record) optional(field string, m measure) *float64 {
	text, ok := r.value(field)
	if !ok {
		return nil
	}
	value, ok := m.number(text)
	if !ok {
		return nil
	}
	return &value
}

// optionalWhole is optional for a whole number.
func (r *record) optionalWhole(field string, m measure) *int64 { return whole(r.optional(field, m)) }

// small reads a PCIe generation or a number of lanes.
func (r *record) small(field string) *int {
	text, ok := r.value(field)
	n, err := strconv.ParseUint(text, 10, 8)
	if !ok || err != nil || n == 0 {
		return nil
	}
	return new(int(n))
}

// flag reads a field that is on or off. Some drivers print how many things are on.
func (r *record) flag(field string) *bool {
	text, ok := r.value(field)
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	on := err == nil && n > 0
	switch strings.ToLower(text) {
	case "yes", "enabled", "active":
		on = true
	case "no", "disabled", "not active":
	default:
		if err != nil {
			return nil
		}
	}
	return &on
}

// word reads a short text, which is shown as it is.
func (r *record) word(field string) *string {
	text, ok := r.value(field)
	if text = wire.Plain(text, 40); !ok || text == "" {
		return nil
	}
	return &text
}

// slug reads one of nvidia-smi's words, in the form that the function slug gives it.
func (r *record) slug(field string) *string {
	text, ok := r.value(field)
	if !ok {
		return nil
	}
	text = slug(text)
	return &text
}

// performanceState reads P0 to P15.
func (r *record) performanceState() *int {
	text, ok := r.value(fieldState)
	number, isState := strings.CutPrefix(text, "P")
	n, err := strconv.ParseUint(number, 10, 8)
	if !ok || !isState || err != nil || n > 15 {
		return nil
	}
	return new(int(n))
}

// clockReasons names the bits of a mask, in nvidia-smi's words (nvml.h, nvmlClocksEventReasons).
func (r *record) clockReasons() []string {
	text, ok := r.value(fieldClockReasons)
	digits, isHex := strings.CutPrefix(strings.ToLower(text), "0x")
	mask, err := strconv.ParseUint(digits, 16, 64)
	if !ok || !isHex || err != nil {
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

// whole drops the part behind the decimal point.
func whole(value *float64) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}
