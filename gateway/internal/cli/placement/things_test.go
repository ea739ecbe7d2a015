package placement_test

import (
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

const (
	longNode   = "a-node-whose-name-has-all-of-the-sixty-three-letters-that-it-may"
	allocation = "4sl5ucv6e2vnxq7a"
)

func noon() *time.Time {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &at
}

func price(p float64) *float64 { return &p }

// slotsOf are slots in every state, with all that makes a row wide.
func slotsOf() api.SlotList {
	var list api.SlotList
	for i, state := range api.SlotStates() {
		l := api.Slot{ID: fmt.Sprintf("sl-%016x", i), Node: fmt.Sprintf("gpu-%d", i), Tenant: "research", Shape: api.ShapeGPU, Model: "h100-sxm",
			SKUs: []string{"h100-sxm-gpu"}, State: state, Price: price(1.99), Evidence: "sha256:0123",
			Units: []api.Unit{{PCI: "0000:19:00.0", UUID: "GPU-5ca1ab1e-0000-4000-8000-000000000000"}}}
		if state == api.SlotBlocked {
			l.Node = longNode
			l.Reason = "process 4711 (python) of ada is on the GPU still, and does not end"
			l.Next = "muster node exec " + longNode + " -- kill -9 4711"
			l.Allocation = allocation
		}
		list.Slots = append(list.Slots, l)
	}
	list.Slots = append(list.Slots, api.Slot{ID: "sl-whole", Node: "gpu-9", Shape: api.ShapeNode, Model: "h200-sxm\x1b[31m",
		State: "approved", Units: make([]api.Unit, 8)})
	list.Total = len(list.Slots)
	return list
}

func waitingOne() api.Allocation {
	return api.Allocation{ID: allocation, Owner: "ada", Tenant: "research", Wish: api.Wish{GPU: "h100", Count: 2},
		State: api.AllocationWaiting, Slots: []api.AllocatedSlot{}, TTLSeconds: 7200, CreatedAt: noon().Add(-3 * time.Hour),
		WaitsFor: "2 free h100 on one node", Ahead: 1}
}

func allocatedOne() api.Allocation {
	a := waitingOne()
	a.State = api.AllocationAllocated
	a.WaitsFor, a.Ahead = "", 0
	a.ClaimedAt = &a.CreatedAt
	a.EndsAt = noon()
	a.PerHour = price(3.98)
	a.Slots = []api.AllocatedSlot{{Slot: "sl-1", Node: "gpu-1", NodeID: "n-1", GPUs: []string{"GPU-1"}, State: api.SlotAllocated},
		{Slot: "sl-2", Node: "gpu-1", NodeID: "n-1", GPUs: []string{"GPU-2"}, State: api.SlotAllocated}}
	a.User = &api.AllocationUser{Name: "ada", Keys: []string{"ssh-ed25519 AAAA ada"}}
	a.Tasks = []api.AllocationTask{{ID: "7sl5ucv6e2vnxq7a", Node: "gpu-1", Type: wire.TaskProvisionUser, Status: wire.TaskCompleted}}
	return a
}

func releasingOne() api.Allocation {
	a := allocatedOne()
	a.ID = "5sl5ucv6e2vnxq7a"
	a.Owner = "an-account-with-a-name-of-more-than-forty-letters"
	a.State = api.AllocationReleasing
	a.EndedAt = &a.CreatedAt
	a.EndedWhy = "its time was over"
	a.Note = "the demo"
	a.Priority = 5
	a.Slots[0].Node = longNode
	a.Slots[0].State = api.SlotBlocked
	a.Slots[0].Reason = "process 4711 (python) of ada is on the GPU still"
	a.Slots[0].Next = "muster node exec gpu-1 -- kill -9 4711"
	return a
}

func explainedOne() api.SKUExplained {
	return api.SKUExplained{SKU: api.SKU{Name: "h100-sxm-baremetal-8g", Shape: api.ShapeNode, Model: "h100-sxm", GPUs: 8,
		Nodes: 2, Slots: 2, Free: 1, PriceMin: price(16), PriceMax: price(19.2)},
		Rules:   []string{"the tag gpu-nvidia-h100", "the profile gpuaas-profile-baremetal", "the whole node with 8 GPUs"},
		Counts:  []api.SKUCount{{Why: "it has another profile", Nodes: 3}, {Why: "its evidence is of another boot", Nodes: 1}},
		Nearest: []string{"h100-sxm-gpu"},
		List: []api.SKUVerdict{{Node: "gpu-1", Slots: 1, Free: 1, Why: []string{}},
			{Node: longNode, Slots: 1, Why: []string{"2 of its GPUs belong to " + allocation, "it is drained"}}}}
}

// evidence is what a check has found, at a time.
func evidence(at *time.Time, missing ...string) api.NodeEvidence {
	e := api.NodeEvidence{Node: "gpu-1", NodeID: "n-1", Profile: api.ProfileContainer, At: at, Current: true, Missing: missing,
		Tags: []api.Tag{{Name: "gpu-nvidia-h100", From: "8 x PCI 10de:2330"}},
		Figures: []api.FigureBeside{{Figure: wire.Figure{Name: "disk_write", Value: 12345.6, Unit: "MB/s"}, Median: price(2000), Of: 5},
			{Figure: wire.Figure{Name: "nvlinks", Value: 18}, Of: 1}}}
	if at != nil {
		e.Evidence = &wire.Evidence{Profile: e.Profile, TookMS: 3100, Checks: []wire.Check{
			{Name: wire.CheckGPUs, State: wire.CheckOK, Saw: "8 of 8"},
			{Name: wire.CheckECC, State: wire.CheckUnknown, Saw: "nvidia-smi does not say whether memory has error correction on GPU 3"}}}
	}
	return e
}
