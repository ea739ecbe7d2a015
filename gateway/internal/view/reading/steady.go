package reading

import (
	"slices"

	"muster/agent/wire"
)

// Steady returns the part of a reading whose changes are written at once. It leaves out the figures that differ in each reading.
func Steady(h *wire.Hardware) *wire.Hardware {
	if h == nil {
		return nil
	}
	s := *Past(h)
	s.Probe.TookMS = nil
	s.Probe.SampledAt = nil
	s.GPUs = slices.Clone(s.GPUs)
	for i := range s.GPUs {
		g := &s.GPUs[i]
		g.MemoryUsedMiB, g.MemoryFreeMiB, g.MemoryReservedMiB = nil, nil, nil
		g.UtilizationPercent, g.MemoryUtilizationPercent = nil, nil
		g.EncoderUtilizationPercent, g.DecoderUtilizationPercent = nil, nil
		g.TemperatureCelsius, g.MemoryTemperatureCelsius, g.FanPercent, g.PowerWatts = nil, nil, nil, nil
		g.PerformanceState = nil
		g.Clocks = nil
		g.Processes = nil
		if g.PCIe != nil { // an idle GPU lowers it
			link := *g.PCIe
			link.Generation = nil
			g.PCIe = &link
		}
	}
	return &s
}

// Past returns a reading in the form for one that was not the last. The rows of its GPUs say how old they are. The figures of the machine
// itself do not, so they are left out: nobody may take them for present ones.
func Past(h *wire.Hardware) *wire.Hardware {
	p := *h
	p.MemoryUsedMiB = nil
	p.DiskUsedMiB = nil
	p.Load1 = nil
	return &p
}
