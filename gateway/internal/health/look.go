package health

import (
	"fmt"
	"math"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
)

// ofNode looks at a node by a rule whose subject is the node.
func (r *rule) ofNode(n *api.NodeRow, s *view.Sample) look {
	h := s.Hardware
	if h == nil {
		h = &wire.Hardware{}
	}
	switch r.Name {
	case condition.PowerCable:
		return ofPowerCable(h)
	case condition.DiskFull:
		return r.high(percent(h.DiskUsedMiB, h.DiskTotalMiB), "its disk is %.1f %% full")
	case condition.CPUBusy:
		return r.high(load(h), "its processors have %.0f %% of the work that they can do")
	case condition.MemoryFull:
		return r.high(percent(h.MemoryUsedMiB, h.MemoryTotalMiB), "its memory is %.1f %% full")
	case condition.ClockOff:
		return r.high(new(math.Abs(float64(s.SkewMillis))/1000), "its clock is off by %.0f seconds")
	case condition.RenewalOverdue:
		return ofRenewal(n)
	case condition.AgentCrashLoop:
		return r.ofStarts(s.Cost)
	case condition.ReleaseEnded:
		return ofEnd(s)
	case condition.CleanupBlocked:
		return ofCleaning(n)
	}
	return look{}
}

// ofGPU looks at one GPU by a rule whose subject is a GPU.
func (r *rule) ofGPU(n *api.NodeRow, g *wire.GPU, s *view.Sample) look {
	switch r.Name {
	case condition.ECCUncorrected:
		return r.ofECC(g)
	case condition.RemapPending:
		return ofPending(g)
	case condition.RemapFailed:
		return ofRemapFailure(g)
	case condition.RecoveryAction:
		return ofRecovery(g)
	case condition.GPUHot:
		return r.high(g.TemperatureCelsius, "it is at %.0f C")
	case condition.GPUBusy, condition.GPUIdle:
		return r.high(g.UtilizationPercent, "it is used to %.0f %%")
	case condition.GPUThrottled:
		return ofThrottle(g)
	case condition.PCIeSlow:
		return ofPCIe(g)
	case condition.NVLinkDown:
		return r.ofNVLinks(g)
	case condition.FabricNotReady:
		return ofFabric(g)
	case condition.GPUUnclaimed:
		return ofClaim(n, g)
	case condition.GPUForeign:
		return ofForeign(n, g, s)
	case condition.AllocationIdle:
		return r.ofAllocation(n, g, s.At)
	}
	return look{}
}

// high is the look at a value that is bad from the limit on, or, by a rule for what is below, up to it. Beyond that it is good only once
// it is well off the limit.
func (r *rule) high(value *float64, text string) look {
	if value == nil {
		return look{}
	}
	over := *value - r.Limit
	if r.Below {
		over = -over
	}
	switch {
	case over >= 0:
		return look{Verdict: bad, Text: fmt.Sprintf(text, *value)}
	case over > -r.Ease:
		return look{Verdict: between}
	}
	return look{Verdict: good}
}

// ofEnd looks at the end of the pointer that a node knows. If it knows none, nothing is known.
func ofEnd(s *view.Sample) look {
	if s.Agent == nil || s.Agent.ReleaseEnds == nil {
		return look{}
	}
	end := *s.Agent.ReleaseEnds
	return condition.Known(!s.At.Before(end), "the newest pointer of a release that it was given ended at "+end.UTC().Format(time.RFC3339))
}

func ofRenewal(n *api.NodeRow) look {
	l := condition.Known(n.RenewalOverdue, "its certificate was not renewed in time")
	if n.RenewalOverdue && n.NotAfter != nil {
		l.Text += "; it expires at " + n.NotAfter.UTC().Format(time.RFC3339)
	}
	return l
}

// load is how much work the processors have, in percent of what they can do; nil: that is not known.
func load(h *wire.Hardware) *float64 {
	if h.Load1 == nil || h.CPUs == nil || *h.CPUs <= 0 {
		return nil
	}
	return new(100 * *h.Load1 / float64(*h.CPUs))
}

// percent is how much of a whole is used; nil: that is not known.
func percent(used, whole *int64) *float64 {
	if used == nil || whole == nil || *whole <= 0 {
		return nil
	}
	return new(100 * float64(*used) / float64(*whole))
}

// ofECC counts from the driver's start: what the board had in its life before says nothing of now.
func (r *rule) ofECC(g *wire.GPU) look {
	if g.ECC == nil || g.ECC.UncorrectedVolatile == nil {
		return look{}
	}
	return r.high(new(float64(*g.ECC.UncorrectedVolatile)), "%.0f errors of its memory could not be corrected")
}

func ofPending(g *wire.GPU) look {
	row := g.RemappedRows != nil && g.RemappedRows.Pending != nil
	switch {
	case row && *g.RemappedRows.Pending:
		return look{Verdict: bad, Text: "a row of its memory waits to be remapped"}
	case g.RetiredPagesPending != nil:
		return condition.Known(*g.RetiredPagesPending, "pages of its memory wait to be retired")
	case row:
		return look{Verdict: good}
	}
	return look{}
}

func ofRemapFailure(g *wire.GPU) look {
	if g.RemappedRows == nil || g.RemappedRows.Failure == nil {
		return look{}
	}
	return condition.Known(*g.RemappedRows.Failure, "a row of its memory could not be remapped")
}

func ofRecovery(g *wire.GPU) look {
	if g.RecoveryAction == nil {
		return look{}
	}
	action := *g.RecoveryAction
	if action == "" || strings.EqualFold(action, "none") {
		return look{Verdict: good}
	}
	return look{Verdict: bad, Text: "the driver asks for: " + action}
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
		return look{Verdict: good}
	}
	return look{Verdict: bad, Text: "it is slowed down: " + strings.Join(found, ", ")}
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
		return look{Verdict: bad, Text: fmt.Sprintf("its PCIe link has %d of %d lanes", *p.Width, *p.WidthMax)}
	}
	if p.Generation == nil || p.GenerationMax == nil || *p.Generation >= *p.GenerationMax {
		return look{Verdict: good}
	}
	if g.UtilizationPercent == nil || *g.UtilizationPercent < busy {
		return look{}
	}
	return look{Verdict: bad, Text: fmt.Sprintf("its PCIe link is of generation %d, of %d, while it works", *p.Generation, *p.GenerationMax)}
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
		return look{Verdict: good}
	case strings.EqualFold(state, "not_supported"):
		return look{}
	}
	return look{Verdict: bad, Text: strings.TrimSuffix("its fabric says: "+state+" "+status, " ")}
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
