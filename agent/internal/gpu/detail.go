package gpu

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// more reads what says how the device works rather than whether it does. What fails among that is no sign of the device's
// health, but where the device itself is reported as lost or in need of a reset.
func (r *record) more(g *wire.GPU) {
	g.ComputeCapability, g.PersistenceMode, g.PerformanceState = r.word(fieldCapability), r.flag(fieldPersistence), r.performanceState()
	g.MemoryFreeMiB, g.MemoryReservedMiB = r.quiet(fieldMemoryFree, mebibytes), r.quiet(fieldMemoryReserved, mebibytes)
	if g.MemorySource == wire.MemoryUnified || g.MemoryTotalMiB == nil {
		g.MemoryFreeMiB, g.MemoryReservedMiB = nil, nil
	} else if g.MemoryFreeMiB != nil && *g.MemoryFreeMiB > *g.MemoryTotalMiB {
		g.MemoryFreeMiB = nil
	}
	if g.MIG == nil || !*g.MIG {
		g.MemoryUtilizationPercent = r.aside(fieldMemoryBusy, percent)
		g.EncoderUtilizationPercent, g.DecoderUtilizationPercent = r.aside(fieldEncoder, percent), r.aside(fieldDecoder, percent)
	}
	g.MemoryTemperatureCelsius = r.aside(fieldMemoryHeat, celsius)
	g.FanPercent, g.PowerMaxLimitWatts = r.aside(fieldFan, fanPercent), r.aside(fieldPowerMax, watts)
	g.PCIe = known(wire.PCIe{
		Generation: r.small(fieldLinkGen), GenerationMax: r.small(fieldLinkGenMax),
		Width: r.small(fieldLinkWidth), WidthMax: r.small(fieldLinkWidthMax),
	})
	g.Fabric = known(wire.Fabric{State: r.slug(fieldFabricState), Status: r.slug(fieldFabricStatus)})
	clocks := wire.Clocks{SMMHz: r.quiet(fieldClockSM, megahertz), MemoryMHz: r.quiet(fieldClockMemory, megahertz), Reasons: r.clockReasons()}
	if clocks.SMMHz != nil || clocks.MemoryMHz != nil || clocks.Reasons != nil {
		g.Clocks = &clocks
	}
	if g.MIG != nil && !*g.MIG {
		g.MIGInstances = []wire.MIGInstance{}
	}
}

// Short is a row without what no list shows, for a report that is too long.
func Short(g wire.GPU) wire.GPU {
	return wire.GPU{
		Index: g.Index, UUID: g.UUID, Name: g.Name, BusID: g.BusID, MemoryTotalMiB: g.MemoryTotalMiB, MemoryUsedMiB: g.MemoryUsedMiB,
		MemorySource: g.MemorySource, UtilizationPercent: g.UtilizationPercent, TemperatureCelsius: g.TemperatureCelsius,
		PowerWatts: g.PowerWatts, PowerLimitWatts: g.PowerLimitWatts, MIG: g.MIG, Health: g.Health,
	}
}

// known is a group of values, nil when none of them is known.
func known[T comparable](group T) *T {
	var nothing T
	if group == nothing {
		return nil
	}
	return &group
}

// value returns a field's text, false when there is none.
func (r *record) value(field string) (string, bool) {
	text, kind := classify(r.cell(field))
	if word := slug(text); kind == failed && (word == markReset || word == markLost) {
		r.add(word)
	}
	return text, kind == present
}

// aside is number for a field that says nothing of the device's health.
func (r *record) aside(field string, m measure) *float64 {
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

// quiet is aside for a whole number.
func (r *record) quiet(field string, m measure) *int64 { return whole(r.aside(field, m)) }

// small is aside for a generation or a number of lanes.
func (r *record) small(field string) *int {
	text, ok := r.value(field)
	n, err := strconv.ParseUint(text, 10, 8)
	if !ok || err != nil || n == 0 {
		return nil
	}
	value := int(n)
	return &value
}

// flag reads a field that is on or off; some drivers print a number of what is on.
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

// word reads a short text that is shown as it is.
func (r *record) word(field string) *string {
	text, ok := r.value(field)
	if text = clean(text, 40); !ok || text == "" {
		return nil
	}
	return &text
}

// slug reads one of nvidia-smi's words as slug writes it.
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
	state := int(n)
	return &state
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

// whole drops what stands behind the point.
func whole(value *float64) *int64 {
	if value == nil {
		return nil
	}
	n := int64(*value)
	return &n
}
