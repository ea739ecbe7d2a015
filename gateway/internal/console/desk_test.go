package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/api/providers"
	"muster/gateway/internal/reply"
)

// desk is the admin API with answers for placement and providers that a test gives: what the service decides is tested there.
type desk struct {
	info        *reply.Info
	rest        http.Handler
	allocations api.AllocationList
	quotas      api.QuotaList
	slots       api.SlotList
	skus        api.SKUList
	sku         api.SKUExplained
	evidence    api.NodeEvidence
	uses        api.GPUUseList
	decided     api.SlotsDecided
	plan        providers.Plan
	leases      providers.LeaseList
	cost        providers.CostReport
	machines    map[string]providers.InstanceList // by account
	metal       machines.List
	steps       machines.Plan
	fault       error    // that every route of placement answers with
	asked       []string // paths with their queries, and what was sent
}

// ServeHTTP answers for placement itself.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, mine := d.answer(strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin), r.Method)
	if !mine {
		d.rest.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.asked = append(d.asked, strings.TrimSpace(r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), wire.PrefixAdmin)+" "+string(body)))
	err := d.fault
	if answer == nil && err == nil {
		err = wire.Refuse(wire.CodeNotFound, "there is no such thing", "muster help placement")
	}
	if err != nil {
		d.info.WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (d *desk) answer(path, method string) (answer any, mine bool) {
	parts := strings.Split(path, "/")
	switch {
	case path == api.PathAllocations:
		return d.allocations, true
	case path == api.PathQuotas:
		return d.quotas, true
	case path == api.PathSlots:
		return d.slots, true
	case path == api.PathSlotsDecide:
		return d.decided, true
	case path == api.PathSKUs:
		return d.skus, true
	case parts[0] == "skus":
		return d.sku, true
	case parts[0] == "nodes" && len(parts) == 3 && parts[2] == "check":
		if method == http.MethodPost {
			return api.CheckStarted{Task: "t-1"}, true
		}
		return d.evidence, true
	case path == api.PathProviderPlan:
		return d.plan, true
	case path == api.PathCostReport:
		return d.cost, true
	case path == api.PathLeases:
		return d.leases, true
	case parts[0] == "providers":
		return d.machines[parts[1]], true
	case path == api.PathMachines:
		return d.metal, true
	case path == api.PathMAASPlan:
		return d.steps, true
	case parts[0] == "maas":
		for _, m := range d.metal.Machines {
			if m.NodeID == parts[2] {
				return m, true
			}
		}
		return nil, true
	case parts[0] == "nodes" && len(parts) == 3 && parts[2] == "gpu-uses":
		return d.uses, true
	case parts[0] == "allocations":
		for _, a := range d.allocations.Allocations {
			if a.ID == parts[1] {
				return a, true
			}
		}
		return nil, true
	}
	return nil, false
}

// last is what was asked of it last.
func (d *desk) last() string {
	if len(d.asked) == 0 {
		return ""
	}
	return d.asked[len(d.asked)-1]
}

// placed is a fleet of eight nodes of eight GPUs, where people have some, wait for others, and left something on two.
func (h *house) placed() {
	h.t.Helper()
	for i := range 8 {
		h.enrolled(fmt.Sprintf("hgx-%d", i+1), "platform", nil)
	}
	at := func(hours float64) *time.Time { t := h.now.Add(time.Duration(hours * float64(time.Hour))); return &t }
	add := func(id, owner, tenant, sku string, from, to float64, on map[string]int) *api.Allocation {
		a := api.Allocation{ID: id, Owner: owner, Tenant: tenant, SKU: sku, Wish: api.Wish{SKU: sku}, State: api.AllocationAllocated,
			CreatedAt: *at(from), ClaimedAt: at(from), EndsAt: at(to), TTLSeconds: int((to - from) * 3600)}
		for node, count := range on {
			a.Wish.Count++
			one := api.AllocatedSlot{Slot: "s-" + id + node, Node: node, NodeID: "id-" + node, State: api.SlotAllocated}
			for g := range count {
				one.GPUs = append(one.GPUs, fmt.Sprintf("GPU-%s-%s-%d", id, node, g))
			}
			a.Slots = append(a.Slots, one)
		}
		h.desk.allocations.Allocations = append(h.desk.allocations.Allocations, a)
		return &h.desk.allocations.Allocations[len(h.desk.allocations.Allocations)-1]
	}
	add("a-train", "ada", "research", "h200-sxm-baremetal-8g", -40, 130, map[string]int{"hgx-1": 8, "hgx-2": 8})
	add("a-notebook", "grace", "research", "h200-sxm-gpu", -3, 5, map[string]int{"hgx-3": 1})
	add("a-eval", "linus", "platform", "h200-sxm-gpu", -10, 14, map[string]int{"hgx-3": 4})
	add("a-sweep", "grace", "research", "h200-sxm-gpu", -1, 47, map[string]int{"hgx-3": 2})
	add("a-serve", "serving", "customer-acme", "h200-sxm-slice-4g", -200, 500, map[string]int{"hgx-4": 4})
	add("a-serve-b", "serving", "customer-acme", "h200-sxm-slice-4g", -20, 90, map[string]int{"hgx-4": 4})
	add("a-fine", "barbara", "platform", "h200-sxm-gpu", -2, 22, map[string]int{"hgx-5": 2})
	add("a-short", "ken", "platform", "h200-sxm-gpu", -.5, .5, map[string]int{"hgx-5": 1})
	left := add("a-left", "dennis", "customer-acme", "h200-sxm-gpu", -30, -6, map[string]int{"hgx-6": 2})
	stuck := add("a-stuck", "rob", "research", "h200-sxm-gpu", -12, -2, map[string]int{"hgx-7": 1})
	clean := add("a-clean", "brian", "platform", "h200-sxm-gpu", -9, -.2, map[string]int{"hgx-7": 4})
	for _, a := range []*api.Allocation{left, stuck, clean} {
		a.State, a.EndedAt, a.EndedWhy = api.AllocationReleasing, a.EndsAt, "it has expired"
	}
	clean.Slots[0].State = api.SlotCleaning
	for _, a := range []*api.Allocation{left, stuck} {
		a.Slots[0].State = api.SlotBlocked
		a.Slots[0].Reason = "process 4711 (python3 of uid 1002) has /dev/nvidia3 open"
		a.Slots[0].Next = "end the process on the node, then the gateway looks again"
	}
	left.Tasks = []api.AllocationTask{{ID: "t-clean", Node: "hgx-6", Type: wire.TaskGPUClean, Status: wire.TaskCompleted}}
	over := add("a-over", "ada", "research", "h200-sxm-gpu", -22, -4, map[string]int{"hgx-8": 1})
	over.State, over.EndedAt, over.EndedWhy = api.AllocationReleased, at(-4), "released by account:ada"
	for i, name := range []string{"ken", "barbara", "grace"} {
		price := 20.0
		h.desk.allocations.Allocations = append(h.desk.allocations.Allocations, api.Allocation{ID: "a-wait-" + name, Owner: name,
			Tenant: "platform", SKU: "h200-sxm-baremetal-8g", State: api.AllocationWaiting, CreatedAt: *at(float64(i) - 4), Ahead: i,
			Priority: 10 * (2 - i),
			Wish:     api.Wish{SKU: "h200-sxm-baremetal-8g", Count: i + 1, Selector: "site=fra", MaxPrice: &price},
			WaitsFor: fmt.Sprintf("%d whole nodes with 8 h200-sxm: hgx-1 and hgx-2 are allocated, the others are in parts", i+1)})
	}
	h.desk.allocations.Total = len(h.desk.allocations.Allocations)
	quota := 24
	h.desk.quotas.Quotas = []api.Quota{{Tenant: "research", GPUs: &quota, Used: 20}, {Tenant: "platform", Used: 11},
		{Tenant: "customer-acme", GPUs: &quota, Used: 10}}
	h.someSlots()
}

func (h *house) someSlots() {
	price := 2.19
	for n := range 8 {
		for g := range 8 {
			s := api.Slot{ID: fmt.Sprintf("sl%d%d7f3a", n, g), Node: fmt.Sprintf("hgx-%d", n+1), Tenant: "platform", Shape: api.ShapeGPU,
				Model: "h200-sxm",
				SKUs:  []string{"h200-sxm-gpu"}, State: api.SlotApproved, Price: &price, DecidedBy: "account:operator", DecidedAt: &h.now,
				Units: []api.Unit{{PCI: fmt.Sprintf("0000:%02x:00.0", 16*g+n), UUID: fmt.Sprintf("GPU-%d-%d", n, g)}}}
			switch {
			case n == 2 && g < 7:
				s.State, s.Allocation, s.Reason = api.SlotAllocated, "a-eval", "it is allocated"
			case n == 5 && g < 2:
				s.State, s.Allocation, s.Reason = api.SlotBlocked, "a-left", "process 4711 (python3 of uid 1002) has /dev/nvidia3 open"
				s.Next = "end the process on the node, then the gateway looks again"
			case n == 7:
				s.State, s.Reason, s.Next = api.SlotProposed, "not approved", "muster slot approve "+s.ID
				s.DecidedBy, s.DecidedAt = "", nil
			}
			h.desk.slots.Slots = append(h.desk.slots.Slots, s)
		}
	}
	h.desk.slots.Total = 64
	h.desk.skus.SKUs = []api.SKU{{Name: "h200-sxm-gpu", Shape: api.ShapeGPU, Model: "h200-sxm", GPUs: 1, Nodes: 8, Slots: 56, Free: 31,
		PriceMin: &price,
		PriceMax: &price}, {Name: "h200-sxm-baremetal-8g", Shape: api.ShapeNode, Model: "h200-sxm", GPUs: 8, Nodes: 2, Slots: 2}}
	h.desk.sku = api.SKUExplained{SKU: h.desk.skus.SKUs[0], Rules: []string{"one GPU, or one part of a divided GPU, on the machine itself",
		"its model is h200-sxm", "its node has the profile container"},
		Counts: []api.SKUCount{{Why: "its slots are not approved", Nodes: 1}},
		List: []api.SKUVerdict{{Node: "hgx-5", Slots: 8, Free: 5, Why: []string{"3 are allocated"}},
			{Node: "hgx-6", Slots: 8, Free: 6, Why: []string{"2 could not be cleaned"}}, {Node: "hgx-8",
				Why: []string{"its slots are not approved"}}}}
	h.desk.decided = api.SlotsDecided{Slots: h.desk.slots.Slots[55:58], Changed: 2}
	median := 6210.5
	h.desk.evidence = api.NodeEvidence{Profile: api.ProfileContainer, At: &h.now, Digest: "sha256:ab", Current: true, Pending: "t-look",
		Evidence: &wire.Evidence{Profile: api.ProfileContainer, Checks: []wire.Check{{Name: wire.CheckGPUs, State: wire.CheckOK,
			Saw: "8 of 8 GPUs"},
			{Name: wire.CheckECC, State: wire.CheckFailed, Saw: "GPU 3: 2 uncorrected errors since the boot"},
			{Name: wire.CheckKVM, State: wire.CheckUnknown, Saw: "the agent is in a container"}}},
		Missing: []string{"ecc: GPU 3: 2 uncorrected errors since the boot"},
		Tags:    []api.Tag{{Name: "gpu-nvidia-h200", From: "8 x PCI 10de:2335"}, {Name: "server-dell-xe9680l", From: "DMI PowerEdge XE9680L"}},
		Figures: []api.FigureBeside{{Figure: wire.Figure{Name: "disk_write", Value: 5820, Unit: "MB/s"}, Median: &median, Of: 7},
			{Figure: wire.Figure{Name: "download", Value: 118, Unit: "MB/s"}, Of: 1}}}
	h.picture.Placed("id-hgx-3", &api.NodePlacement{Profile: api.ProfileContainer, Capacity: api.CapacityUnproven,
		Reasons: []string{"its evidence does not show: ecc"}, Holds: []api.GPUHold{
			{GPU: "GPU-0", Allocation: "a-eval", Owner: "linus", Tenant: "platform", State: api.SlotAllocated, Since: h.now,
				EndsAt: h.now.Add(14 * time.Hour)},
			{GPU: "MIG-1a", Allocation: "a-left", Owner: "dennis", Tenant: "customer-acme", State: api.SlotBlocked, Since: h.now,
				EndsAt: h.now.Add(-time.Hour)},
			{GPU: "GPU-passed", Allocation: "a-sweep", Owner: "grace", Tenant: "research", State: api.SlotAllocated, EndsAt: h.now.Add(time.Hour)}}})
}
