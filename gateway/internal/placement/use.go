package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	records "muster/store/placement"
)

// MayUse refuses a task on a node that would use GPUs which belong to somebody else, or end what an allocation runs there.
func (s *Service) MayUse(nodeID string, params wire.TaskParams, by store.Actor) error {
	switch p := params.(type) {
	case *wire.WorkloadLaunch:
		return s.mayUse(nodeID, p.Allocation, p.GPUs, 0, by)
	case *wire.WorkloadProcess:
		return s.mayUse(nodeID, p.Allocation, p.GPUs, p.GPUCount, by)
	case *wire.GPUClean:
		for _, h := range s.Holds(nodeID) {
			if h.Allocation == p.Allocation && h.State == records.Held {
				return wire.Refuse(wire.CodeIllegalMove, "the allocation "+p.Allocation+" has not ended", "muster alloc release "+p.Allocation)
			}
		}
	}
	return nil
}

// mayUse refuses work that its owner alone may do. Work that names an allocation uses the GPUs of it alone.
func (s *Service) mayUse(nodeID, allocation string, gpus []string, count int, by store.Actor) error {
	own, others := map[string]bool{}, map[string]inventory.Hold{}
	for _, h := range s.Holds(nodeID) {
		if allocation != "" && h.Allocation == allocation && h.State == records.Held {
			if by.Name != h.Owner && by.Name != "account:"+h.Owner {
				return wire.Refuse(wire.CodeForbidden, "the allocation "+allocation+" belongs to somebody else",
					"muster alloc create makes one of your own")
			}
			own[h.UUID] = true
		} else {
			others[h.UUID] = h
		}
	}
	if allocation != "" && len(own) == 0 {
		return wire.Refuse(wire.CodeIllegalMove, "the allocation "+allocation+" has no GPU of this node", "muster alloc show "+allocation)
	}
	for _, uuid := range gpus {
		h, taken := others[uuid]
		switch {
		case taken:
			return belongs(uuid, h)
		case allocation != "" && !own[uuid]:
			return wire.Refuse(wire.CodeIllegalMove, uuid+" is no GPU of the allocation "+allocation, "muster alloc show "+allocation)
		}
	}
	if (count > 0 || slices.Contains(gpus, wire.AllGPUs)) && len(others) > 0 {
		return wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("%d GPUs of this node are allocated, and the work does not say which ones it uses",
			len(others)),
			"allocate them: muster alloc create; or name GPUs that nobody has: muster gpus")
	}
	return nil
}

func belongs(uuid string, h inventory.Hold) error {
	return wire.Refuse(wire.CodeIllegalMove, fmt.Sprintf("%s belongs to an allocation of %s until %s", uuid, h.Owner,
		h.EndsAt.UTC().Format(time.RFC3339)), "its owner names the allocation: muster run --alloc ID")
}

// GPUs returns the GPUs of an allocation, by node.
func (s *Service) GPUs(ctx context.Context, tenant, id string) ([]api.AllocatedSlot, error) {
	a, err := s.Allocation(store.Fresh(ctx), tenant, id)
	if err != nil {
		return nil, err
	}
	if a.State != api.AllocationAllocated {
		return nil, wire.Refuse(wire.CodeIllegalMove, "the allocation "+id+" is "+a.State, "muster alloc show "+id)
	}
	var nodes []api.AllocatedSlot
	for _, one := range a.Slots {
		i := slices.IndexFunc(nodes, func(n api.AllocatedSlot) bool { return n.NodeID == one.NodeID })
		if i < 0 {
			nodes = append(nodes, one)
		} else {
			nodes[i].GPUs = append(nodes[i].GPUs, one.GPUs...)
		}
	}
	return nodes, nil
}
