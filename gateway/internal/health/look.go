package health

import (
	"fmt"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
)

// ofNode looks at a node by a rule whose subject is the node.
func (r *Rule) ofNode(n *api.NodeRow, s *view.Sample, limit float64) look {
	switch r.Name {
	case PowerCable:
		return ofPowerCable(s.Hardware)
	case DiskFull:
		return r.ofDisk(s.Hardware, limit)
	case CPUBusy:
		return r.ofLoad(s.Hardware, limit)
	case MemoryFull:
		return r.ofMemory(s.Hardware, limit)
	case ClockOff:
		return r.ofClock(s.SkewMillis, limit)
	case RenewalOverdue:
		return told(n.RenewalOverdue, "its certificate was not renewed in time")
	case AgentCrashLoop:
		return r.ofStarts(s.Cost, limit)
	case ReleaseEnded:
		return ofEnd(s)
	}
	return look{}
}

// ofGPU looks at one GPU by a rule whose subject is a GPU.
func (r *Rule) ofGPU(g *wire.GPU, limit float64) look {
	switch r.Name {
	case ECCUncorrected:
		return r.ofECC(g, limit)
	case RemapPending:
		return ofPending(g)
	case RemapFailed:
		return ofRemapFailure(g)
	case RecoveryAction:
		return ofRecovery(g)
	case GPUHot:
		return r.high(g.TemperatureCelsius, limit, "it is at %.0f C")
	case GPUBusy, GPUIdle:
		return r.high(g.UtilizationPercent, limit, "it is used to %.0f %%")
	case GPUThrottled:
		return ofThrottle(g)
	case PCIeSlow:
		return ofPCIe(g)
	case NVLinkDown:
		return r.ofNVLinks(g, limit)
	case FabricNotReady:
		return ofFabric(g)
	}
	return look{}
}

// told is the look at what is known for certain.
func told(isBad bool, text string) look {
	if isBad {
		return look{bad, text}
	}
	return look{verdict: good}
}

// high is the look at a value that is bad from the limit on, or, by a rule for what is below, up to it. Beyond that it is good only once
// it is well off the limit.
func (r *Rule) high(value *float64, limit float64, text string) look {
	if value == nil {
		return look{}
	}
	over := *value - limit
	if r.Below {
		over = -over
	}
	switch {
	case over >= 0:
		return look{bad, fmt.Sprintf(text, *value)}
	case over > -r.Ease:
		return look{verdict: between}
	}
	return look{verdict: good}
}

// ofEnd looks at the end of the pointer that a node knows. Where it knows none, nothing is known.
func ofEnd(s *view.Sample) look {
	if s.Agent == nil || s.Agent.ReleaseEnds == nil {
		return look{}
	}
	end := *s.Agent.ReleaseEnds
	return told(!s.At.Before(end), "the newest pointer of a release that it was given ended at "+end.UTC().Format(time.RFC3339))
}

func (r *Rule) ofLoad(h *wire.Hardware, limit float64) look {
	if h == nil || h.Load1 == nil || h.CPUs == nil || *h.CPUs <= 0 {
		return look{}
	}
	load := 100 * *h.Load1 / float64(*h.CPUs)
	return r.high(&load, limit, "its processors have %.0f %% of the work that they can do")
}

func (r *Rule) ofMemory(h *wire.Hardware, limit float64) look {
	if h == nil || h.MemoryUsedMiB == nil || h.MemoryTotalMiB == nil || *h.MemoryTotalMiB <= 0 {
		return look{}
	}
	full := 100 * float64(*h.MemoryUsedMiB) / float64(*h.MemoryTotalMiB)
	return r.high(&full, limit, "its memory is %.1f %% full")
}

func (r *Rule) ofDisk(h *wire.Hardware, limit float64) look {
	if h == nil || h.DiskUsedMiB == nil || h.DiskTotalMiB == nil || *h.DiskTotalMiB <= 0 {
		return look{}
	}
	full := 100 * float64(*h.DiskUsedMiB) / float64(*h.DiskTotalMiB)
	return r.high(&full, limit, "its disk is %.1f %% full")
}

func (r *Rule) ofClock(skewMillis int64, limit float64) look {
	off := max(skewMillis, -skewMillis)
	seconds := float64(off) / 1000
	return r.high(&seconds, limit, "its clock is off by %.0f seconds")
}

// ofECC counts from the driver's start: what the board had in its life before says nothing of now.
func (r *Rule) ofECC(g *wire.GPU, limit float64) look {
	if g.ECC == nil || g.ECC.UncorrectedVolatile == nil {
		return look{}
	}
	errors := float64(*g.ECC.UncorrectedVolatile)
	return r.high(&errors, limit, "%.0f errors of its memory could not be corrected")
}

func ofPending(g *wire.GPU) look {
	row := g.RemappedRows != nil && g.RemappedRows.Pending != nil
	switch {
	case row && *g.RemappedRows.Pending:
		return look{bad, "a row of its memory waits to be remapped"}
	case g.RetiredPagesPending != nil:
		return told(*g.RetiredPagesPending, "pages of its memory wait to be retired")
	case row:
		return look{verdict: good}
	}
	return look{}
}

func ofRemapFailure(g *wire.GPU) look {
	if g.RemappedRows == nil || g.RemappedRows.Failure == nil {
		return look{}
	}
	return told(*g.RemappedRows.Failure, "a row of its memory could not be remapped")
}

func ofRecovery(g *wire.GPU) look {
	if g.RecoveryAction == nil {
		return look{}
	}
	action := *g.RecoveryAction
	if action == "" || strings.EqualFold(action, "none") {
		return look{verdict: good}
	}
	return look{bad, "the driver asks for: " + action}
}

// ofThrottle looks for reasons that are no choice of anybody. A limit of power that somebody set, or an idle GPU, is none of these.
func ofThrottle(g *wire.GPU) look {
	if g.Clocks == nil || g.Clocks.Reasons == nil {
		return look{}
	}
	var found []string
	for _, reason := range g.Clocks.Reasons {
		switch {
		case strings.Contains(reason, "thermal"), strings.Contains(reason, "power_brake"), strings.HasPrefix(reason, "hw_slowdown"):
			found = append(found, reason)
		}
	}
	if len(found) == 0 {
		return look{verdict: good}
	}
	return look{bad, "it is slowed down: " + strings.Join(found, ", ")}
}

// busy is how much a GPU must be used, in percent, before the speed of its link says anything: an idle one lowers it to save power.
const busy = 20

// ofPCIe leaves out GPUs that share the memory of the host: they sit in no slot, and what they say of it is made up.
func ofPCIe(g *wire.GPU) look {
	p := g.PCIe
	if p == nil || g.MemorySource == wire.MemoryUnified || p.Width == nil || p.WidthMax == nil || *p.Width <= 0 || *p.WidthMax <= 0 {
		return look{}
	}
	if *p.Width < *p.WidthMax {
		return look{bad, fmt.Sprintf("its PCIe link has %d of %d lanes", *p.Width, *p.WidthMax)}
	}
	if p.Generation == nil || p.GenerationMax == nil {
		return look{verdict: good}
	}
	if *p.Generation >= *p.GenerationMax {
		return look{verdict: good}
	}
	if g.UtilizationPercent == nil || *g.UtilizationPercent < busy {
		return look{}
	}
	return look{bad, fmt.Sprintf("its PCIe link is of generation %d, of %d, while it works", *p.Generation, *p.GenerationMax)}
}

func ofFabric(g *wire.GPU) look {
	if g.Fabric == nil || g.Fabric.State == nil {
		return look{}
	}
	state, status := *g.Fabric.State, ""
	if g.Fabric.Status != nil {
		status = *g.Fabric.Status
	}
	switch {
	case strings.EqualFold(state, "completed") && (status == "" || strings.EqualFold(status, "success")):
		return look{verdict: good}
	case strings.EqualFold(state, "not_supported"):
		return look{}
	}
	return look{bad, strings.TrimSuffix("its fabric says: "+state+" "+status, " ")}
}

// leastGap is how far two looks may be apart in any case, and still count as a row.
const leastGap = 5 * time.Minute

// gapOf is how far two looks at a node may be apart and still count as a row.
func gapOf(s *view.Sample) time.Duration {
	gap := 4 * s.Interval
	if s.Hardware != nil && s.Hardware.Probe.IntervalSeconds != nil {
		pause := min(max(*s.Hardware.Probe.IntervalSeconds, 0), wire.MaxPace.Seconds())
		gap = max(gap, 4*time.Duration(pause*float64(time.Second)))
	}
	return max(gap, leastGap)
}
