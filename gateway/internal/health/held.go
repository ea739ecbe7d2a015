package health

import (
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
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

// ofClaim looks for processes on a GPU that nobody has, where GPUs are allocated. Whoever cleans a GPU looks at it.
func ofClaim(n *api.NodeRow, g *wire.GPU) look {
	p := n.Placement
	switch {
	case p == nil || p.Capacity == api.CapacityNone || n.HeldBy(g.UUID) != nil:
		return look{Verdict: good}
	case g.Processes == nil || g.Processes.Count == nil:
		return look{}
	}
	return condition.Known(*g.Processes.Count > 0, fmt.Sprintf("%d processes work on it, and it is not allocated", *g.Processes.Count))
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
