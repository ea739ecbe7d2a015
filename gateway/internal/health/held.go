package health

import (
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
)

// ofCleaning looks for GPUs of ended allocations that could not be cleaned.
func ofCleaning(n *api.NodeRow) look {
	if n.Placement == nil {
		return look{Verdict: good}
	}
	blocked := 0
	for _, h := range n.Placement.Holds {
		if h.State == api.SlotBlocked {
			blocked++
		}
	}
	return condition.Known(blocked > 0, fmt.Sprintf("%d of its GPUs could not be cleaned after their allocation", blocked))
}

// holdsOf are the holds of a GPU, or of its parts.
func holdsOf(n *api.NodeRow, g *wire.GPU) (all []api.GPUHold) {
	if n.Placement == nil {
		return nil
	}
	for _, h := range n.Placement.Holds {
		isPart := slices.ContainsFunc(g.MIGInstances, func(m wire.MIGInstance) bool { return m.UUID == h.GPU })
		if h.GPU == g.UUID || isPart {
			all = append(all, h)
		}
	}
	return all
}

// ofClaim looks for processes on a GPU that nobody has, where GPUs are allocated. Whoever cleans a GPU looks at it.
func ofClaim(n *api.NodeRow, g *wire.GPU) look {
	p := n.Placement
	switch {
	case p == nil || p.Capacity == api.CapacityNone || len(holdsOf(n, g)) > 0:
		return look{Verdict: good}
	case g.Processes == nil || g.Processes.Count == nil:
		return look{}
	}
	text := fmt.Sprintf("%d processes work on it, and it is not allocated", *g.Processes.Count)
	for i, one := range g.Processes.List[:min(mostNamed, len(g.Processes.List))] {
		text += [...]string{": ", ", "}[min(i, 1)] + who(n, one)
	}
	return condition.Known(*g.Processes.Count > 0, text)
}

// mostNamed is how many processes a text names.
const mostNamed = 3

// ofForeign looks for a process of another allocation than those that have the GPU. A process whose allocation nobody knows is none, and
// neither is one that was seen before the GPU was allocated.
func ofForeign(n *api.NodeRow, g *wire.GPU, s *view.Sample) look {
	holds := holdsOf(n, g)
	if len(holds) == 0 {
		return look{Verdict: good}
	}
	p := g.Processes
	if p == nil || p.Count == nil || slices.ContainsFunc(holds, func(h api.GPUHold) bool { return h.Since.After(s.LookedAt(p)) }) {
		return look{}
	}
	for _, one := range p.List {
		isOwn := func(h api.GPUHold) bool { return h.Allocation == one.Allocation }
		if one.Allocation != "" && !slices.ContainsFunc(holds, isOwn) {
			h := holds[0]
			return look{Verdict: bad, Text: fmt.Sprintf("%s works on it, and it belongs to the allocation %s of %s", who(n, one), h.Allocation,
				h.Owner)}
		}
	}
	if *p.Count > len(p.List) {
		return look{}
	}
	return look{Verdict: good}
}

// who says what is known of a process.
func who(n *api.NodeRow, p wire.GPUProcess) string {
	text := fmt.Sprintf("process %d", p.PID)
	if p.Program != "" {
		text += " (" + p.Program + ")"
	}
	if p.User != "" {
		text += " of the user " + p.User
	}
	if p.Container != "" {
		text += " in the container " + p.Container
	}
	if p.Allocation == "" {
		return text
	}
	text += " for the allocation " + p.Allocation
	if n.Placement != nil {
		for _, h := range n.Placement.Holds {
			if h.Allocation == p.Allocation {
				return text + " of " + h.Owner
			}
		}
	}
	return text + " that has no GPU here"
}

// ofAllocation looks for a GPU that is allocated and has done nothing for so long.
func (r *rule) ofAllocation(n *api.NodeRow, g *wire.GPU, at time.Time) look {
	h := n.HeldBy(g.UUID)
	if h == nil || h.State != api.SlotAllocated {
		return look{Verdict: good}
	}
	for i := range n.GPUs {
		if n.GPUs[i].UUID != g.UUID {
			continue
		}
		since := n.GPUs[i].IdleSince
		if since == nil {
			return condition.Known(false, "")
		}
		if since.Before(h.Since) { // it was idle before it was allocated
			since = &h.Since
		}
		idle := at.Sub(*since).Minutes()
		return r.high(&idle, "it is allocated to "+h.Owner+", and idle for %.0f minutes")
	}
	return look{}
}
