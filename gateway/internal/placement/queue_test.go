package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	records "muster/store/placement"
)

// wait asks for GPUs and waits for them.
func (w *world) wait(who Caller, count, priority int) api.Allocation {
	w.t.Helper()
	a, err := w.ask(who, api.NewAllocation{Wish: api.Wish{Count: count}, Priority: priority, Wait: true})
	w.must(err)
	return a
}

// state is how an allocation is now.
func (w *world) state(a api.Allocation) api.Allocation {
	w.t.Helper()
	now, err := w.Allocation(w.t.Context(), "", a.ID)
	w.must(err)
	return now
}

func (w *world) release(all ...api.Allocation) {
	w.t.Helper()
	for _, a := range all {
		_, err := w.Release(w.t.Context(), operator, a.ID)
		w.must(err)
	}
	w.Round(w.t.Context())
	w.cleaned()
	w.Round(w.t.Context())
}

// TestQueue: who waits is served by priority, and then in the order of asking. A small wish does not overtake a large one of the same kind.
// One of another kind does.
func TestQueue(t *testing.T) {
	t.Parallel()
	w := up(t, 4, "n-1")
	a, b := w.have(ada, 2), w.have(ada, 2)
	large, small := w.wait(ada, 4, 0), w.wait(bob, 1, 0)
	if large.State != api.AllocationWaiting || large.WaitsFor == "" || large.Ahead != 0 || small.Ahead != 1 {
		t.Errorf("they wait as %+v and %+v", large, small)
	}
	boss := operator
	boss.Tenant = "platform"
	urgent := w.wait(boss, 1, 5)
	if w.state(small).Ahead != 2 {
		t.Errorf("behind an urgent one: %+v", w.state(small))
	}
	w.release(a)
	if got := w.state(urgent); got.State != api.AllocationAllocated {
		t.Errorf("the urgent one: %+v", got)
	}
	if got := w.state(small); got.State != api.AllocationWaiting || !strings.Contains(got.WaitsFor, "ahead") {
		t.Errorf("the small one has overtaken: %+v", got)
	}
	_, err := w.ask(ada, api.NewAllocation{})
	w.refused("one more that does not wait", wire.CodeNoCapacity, err)
	w.restart()
	if got := w.state(small); got.Ahead != 1 {
		t.Errorf("after a restart: %+v", got)
	}
	w.release(b, urgent)
	if got := w.state(large); got.State != api.AllocationAllocated || len(got.Slots) != 4 && len(got.Slots) != 1 {
		t.Errorf("the large one: %+v", got)
	}
	w.release(large)
	if got := w.state(small); got.State != api.AllocationAllocated || got.WaitsFor != "" {
		t.Errorf("the small one: %+v", got)
	}
	w.agrees()
}

// TestOvertake: what waits for something else does not keep others back.
func TestOvertake(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	one := w.have(ada, 1)
	if _, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{Count: 1, Selector: "name=n-9"}, Wait: true}); err == nil {
		t.Error("what no node can give waits")
	}
	expensive := 7.0
	two, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{SKU: "h100-sxm-baremetal-2g", MaxPrice: nil}, Wait: true})
	w.must(err)
	_ = expensive
	_, err = w.ask(ada, api.NewAllocation{})
	w.refused("a GPU of the node that is waited for", wire.CodeNoCapacity, err)
	if _, err = w.Release(t.Context(), ada, two.ID); err != nil || w.state(two).State != api.AllocationReleased {
		t.Errorf("it does not leave the queue: %+v, %v", w.state(two), err)
	}
	w.have(ada, 1)
	w.release(one)
}

// TestQuota: a tenant never has more than its quota, also of what is being cleaned, and waits for it.
func TestQuota(t *testing.T) {
	t.Parallel()
	w := up(t, 8, "n-1")
	two := 2
	_, err := w.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{GPUs: &two})
	w.must(err)
	a := w.have(ada, 2)
	_, err = w.ask(ada, api.NewAllocation{})
	w.refused("over the quota", wire.CodeOverQuota, err)
	waits := w.wait(ada, 1, 0)
	if !strings.Contains(waits.WaitsFor, "quota is 2") {
		t.Errorf("it waits for %q", waits.WaitsFor)
	}
	_, err = w.Release(t.Context(), ada, a.ID)
	w.must(err)
	w.Round(t.Context())
	if got := w.state(waits); got.State != api.AllocationWaiting {
		t.Errorf("what is being cleaned counts too: %+v", got)
	}
	w.cleaned()
	w.Round(t.Context())
	if got := w.state(waits); got.State != api.AllocationAllocated {
		t.Errorf("within the quota: %+v", got)
	}
	list, err := w.Quotas(t.Context(), "platform")
	w.must(err)
	if len(list.Quotas) != 1 || *list.Quotas[0].GPUs != 2 || list.Quotas[0].Used != 1 {
		t.Errorf("quotas: %+v", list)
	}
	if list, err := w.Quotas(t.Context(), "other"); err != nil || len(list.Quotas) != 0 {
		t.Errorf("another tenant sees %+v, %v", list, err)
	}
	_, err = w.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{})
	w.must(err)
	w.have(ada, 4)
	less := -1
	_, err = w.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{GPUs: &less})
	w.refused("a quota below 0", wire.CodeBadRequest, err)
	_, err = w.SetQuota(t.Context(), operator, "not a tenant", api.QuotaRequest{})
	if err == nil {
		t.Error("a quota of no tenant")
	}
}

// TestEnds: an allocation ends at its end, also if the clock steps over it; its owner is told once before; extending moves both.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a, err := w.ask(ada, api.NewAllocation{TTLSeconds: 3600})
	w.must(err)
	w.pass(40 * time.Minute)
	w.Round(t.Context())
	if w.events("allocation.ending") != 0 || len(w.Ending()) != 0 {
		t.Error("told too early")
	}
	w.pass(6 * time.Minute)
	w.Round(t.Context())
	w.Round(t.Context())
	if soon := w.Ending(); w.events("allocation.ending") != 1 || len(soon) != 1 || soon[0].Allocation != a.ID || soon[0].Owner != "ada" {
		t.Errorf("told %d times; ends soon: %+v", w.events("allocation.ending"), soon)
	}
	_, err = w.Extend(t.Context(), bob, a.ID, api.ExtendRequest{Seconds: 3600})
	w.refused("somebody else extends", wire.CodeForbidden, err)
	a, err = w.Extend(t.Context(), ada, a.ID, api.ExtendRequest{Seconds: 3600})
	w.must(err)
	if !a.EndsAt.Equal(start.Add(2*time.Hour)) || a.Warned || len(w.Ending()) != 0 {
		t.Errorf("extended: %+v", a)
	}
	until := w.clock().Add(40 * 24 * time.Hour)
	for name, q := range map[string]api.ExtendRequest{"nothing": {}, "too long": {Until: &until}, "the past": {Until: &start},
		"both": {Seconds: 60, Until: &until}, "what wraps round": {Seconds: 18446744073 + 3600}} {
		_, err := w.Extend(t.Context(), ada, a.ID, q)
		w.refused("extended by "+name, wire.CodeBadRequest, err)
	}
	w.pass(100 * time.Hour)
	w.Round(t.Context())
	if got := w.state(a); got.State != api.AllocationReleasing || got.EndedWhy != "its time was over" {
		t.Errorf("at its end: %+v", got)
	}
	_, err = w.Extend(t.Context(), ada, a.ID, api.ExtendRequest{Seconds: 3600})
	w.refused("extended after its end", wire.CodeIllegalMove, err)
	w.pass(-200 * time.Hour)
	w.Round(t.Context())
	w.cleaned()
	if got := w.state(a); got.State != api.AllocationReleased {
		t.Errorf("with a clock that was set back: %+v", got)
	}
}

// TestBlocked: what could not be cleaned, or not be looked at, is kept back, with what to do, and is tried again.
func TestBlocked(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a := w.have(ada, 2)
	gpu := a.Slots[0].GPUs[0]
	_, err := w.Release(t.Context(), ada, a.ID)
	w.must(err)
	w.Round(t.Context())
	w.cleaned(wire.Left{GPU: gpu, What: "the process 4711 (python of ada) still uses it", Next: "end it"})
	w.want("one is left", w.states(api.ShapeGPU), map[string]int{api.SlotBlocked: 1, api.SlotApproved: 1})
	got := w.state(a)
	isBlocked := func(s api.AllocatedSlot) bool { return s.State == api.SlotBlocked }
	if i := slices.IndexFunc(got.Slots, isBlocked); got.State != api.AllocationReleasing ||
		i < 0 || !strings.Contains(got.Slots[i].Reason, "4711") || got.Slots[i].Next != "end it" {
		t.Errorf("the allocation says %+v", got)
	}
	if row, _ := w.row("n-1"); !slices.ContainsFunc(row.Placement.Reasons, func(s string) bool {
		return strings.Contains(s,
			"could not be cleaned")
	}) {
		t.Errorf("the node's reasons: %q", row.Placement.Reasons)
	}
	w.Round(t.Context())
	if again := w.sent(wire.TaskGPUClean); len(again) != 0 {
		t.Errorf("tried again at once: %+v", again)
	}
	_, err = w.Release(t.Context(), ada, a.ID) // somebody says that it is mended
	w.must(err)
	w.Round(t.Context())
	if again := w.sent(wire.TaskGPUClean); len(again) != 1 {
		t.Errorf("released again: %+v", again)
	}
	for range 3 { // the node fails to look
		w.pass(time.Hour)
		w.Round(t.Context())
		orders := w.sent(wire.TaskGPUClean)
		if len(orders) != 1 {
			t.Fatalf("orders: %+v", orders)
		}
		w.ended(orders[0], wire.Cleaning{Clean: true}, "failed")
		w.want("failing to look is no cleaning", w.states(api.ShapeGPU), map[string]int{api.SlotBlocked: 1, api.SlotApproved: 1})
	}
	if w.events("gpu.cleanup_blocked") < 2 || w.events("gpu.cleanup_blocked") > 4 {
		t.Errorf("%d events", w.events("gpu.cleanup_blocked"))
	}
	w.pass(time.Hour)
	w.Round(t.Context())
	w.cleaned()
	if got := w.state(a); got.State != api.AllocationReleased {
		t.Errorf("in the end: %+v", got)
	}
	w.agrees()
}

// TestNotOurs: nobody else's cleaning frees a GPU.
func TestNotOurs(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a := w.have(ada, 1)
	forged := inventory.Order{ID: wire.NewTaskID(), NodeID: "n-1", Type: wire.TaskGPUClean, By: ada.By,
		Params: wire.GPUClean{Allocation: a.ID, GPUs: a.Slots[0].GPUs}}
	w.ended(forged, wire.Cleaning{Clean: true}, "completed")
	_, err := w.Release(t.Context(), ada, a.ID)
	w.must(err)
	w.ended(forged, wire.Cleaning{Clean: true}, "completed")
	w.want("still there", w.states(api.ShapeGPU), map[string]int{api.SlotCleaning: 1, api.SlotApproved: 1})
	forged.By.Name = inventory.ByGateway
	forged.Params = wire.GPUClean{Allocation: a.ID, GPUs: []string{uuid("n-1", 5)}}
	w.ended(forged, wire.Cleaning{Clean: true}, "completed")
	w.want("another GPU was looked at", w.states(api.ShapeGPU), map[string]int{api.SlotBlocked: 1, api.SlotApproved: 1})
}

// TestRefusedCleaning: a node that takes no such task keeps its GPUs back.
func TestRefusedCleaning(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	a := w.have(ada, 1)
	w.refuse[wire.TaskGPUClean] = wire.Refuse(wire.CodeTaskTypeUnknown, "its agent is too old", "update it")
	w.release(a)
	if got := w.state(a); got.Slots[0].State != api.SlotBlocked || got.Slots[0].Reason != "its agent is too old" ||
		got.Slots[0].Next != "update it" {
		t.Errorf("%+v", got)
	}
	w.agrees()
}

// TestUsers: accounts of an allocation go with it, but not one that another allocation has on the node too.
func TestUsers(t *testing.T) {
	t.Parallel()
	w := up(t, 4, "n-1")
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFQdCtVEWnPYm9mMhyqOtqAhTrZ6U9oy8WZYtQ7kTyk1 ada"
	user := &api.AllocationUser{Name: "ada", Keys: []string{key}}
	first, err := w.ask(ada, api.NewAllocation{User: user})
	w.must(err)
	second, err := w.ask(ada, api.NewAllocation{User: user})
	w.must(err)
	for i, a := range []api.Allocation{first, second} {
		_, err := w.Release(t.Context(), ada, a.ID)
		w.must(err)
		w.Round(t.Context())
		orders := w.sent(wire.TaskGPUClean)
		if len(orders) != 1 {
			t.Fatalf("orders: %+v", orders)
		}
		if users := orders[0].Params.(wire.GPUClean).Users; len(users) != i {
			t.Errorf("with the allocation %d the users %v go", i, users)
		}
		w.ended(orders[0], wire.Cleaning{Clean: true}, "completed")
	}
}

// TestLaunch: what is asked for runs on exactly the GPUs of the allocation, on each of its nodes.
func TestLaunch(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1", "n-2")
	a, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{Count: 3, Spread: true},
		Launch: &api.Launch{Type: wire.TaskWorkloadProcess, Params: []byte(`{"name":"train","command":["python","train.py"]}`)}})
	w.must(err)
	orders := w.sent(wire.TaskWorkloadProcess)
	if len(orders) != 2 {
		t.Fatalf("orders: %+v", orders)
	}
	seen := 0
	for _, o := range orders {
		text := fmt.Sprintf("%s", o.Params)
		if !strings.Contains(text, `"allocation":"`+a.ID+`"`) || o.By.Name != "ada" {
			t.Errorf("the order %+v: %s", o, text)
		}
		for i := range 2 {
			if strings.Contains(text, uuid(o.NodeID, i)) {
				seen++
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d GPUs are named", seen)
	}
}

// TestAskRefused has what no allocation can ask for.
func TestAskRefused(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	negative, price := -1.0, 0.01
	never := func(string) error { return wire.Refuse(wire.CodeForbidden, "no", "ask") }
	for name, c := range map[string]struct {
		q    api.NewAllocation
		code string
	}{
		"neither":        {api.NewAllocation{}, wire.CodeBadRequest},
		"both":           {api.NewAllocation{Wish: api.Wish{SKU: "h100-sxm-gpu", GPU: "h100"}}, wire.CodeBadRequest},
		"count":          {api.NewAllocation{Wish: api.Wish{GPU: "h100", Count: -1}}, wire.CodeBadRequest},
		"too many":       {api.NewAllocation{Wish: api.Wish{GPU: "h100", Count: 5000}}, wire.CodeBadRequest},
		"too short":      {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, TTLSeconds: 5}, wire.CodeBadRequest},
		"wraps round":    {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, TTLSeconds: 18446744073 + 3600}, wire.CodeBadRequest},
		"too long":       {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, TTLSeconds: 40 * 86400}, wire.CodeBadRequest},
		"priority":       {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, Priority: 1}, wire.CodeForbidden},
		"no priority":    {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, Priority: -101}, wire.CodeBadRequest},
		"price":          {api.NewAllocation{Wish: api.Wish{GPU: "h100", MaxPrice: &negative}}, wire.CodeBadRequest},
		"note":           {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, Note: "two\nlines"}, wire.CodeBadRequest},
		"selector":       {api.NewAllocation{Wish: api.Wish{GPU: "h100", Selector: "="}}, wire.CodeBadSelector},
		"id":             {api.NewAllocation{ID: "mine", Wish: api.Wish{GPU: "h100"}}, wire.CodeBadRequest},
		"another tenant": {api.NewAllocation{Tenant: "other", Wish: api.Wish{GPU: "h100"}}, wire.CodeForbidden},
		"user": {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, User: &api.AllocationUser{Name: "Not A Name"}},
			wire.CodeTaskParamsInvalid},
		"root": {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, User: &api.AllocationUser{Name: "ada", Sudo: true}},
			wire.CodeForbidden},
		"launch type": {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, Launch: &api.Launch{Type: wire.TaskDiagCollect}}, wire.CodeBadRequest},
		"launch right": {api.NewAllocation{Wish: api.Wish{GPU: "h100"}, Launch: &api.Launch{Type: wire.TaskWorkloadProcess}},
			wire.CodeForbidden},
		"nobody has it":  {api.NewAllocation{Wish: api.Wish{GPU: "b200"}}, wire.CodeNoCapacity},
		"never so many":  {api.NewAllocation{Wish: api.Wish{GPU: "h100", Count: 3}}, wire.CodeNoCapacity},
		"never so cheap": {api.NewAllocation{Wish: api.Wish{GPU: "h100", MaxPrice: &price}}, wire.CodeNoCapacity},
		"no such SKU":    {api.NewAllocation{Wish: api.Wish{SKU: "h100-sxm-slice"}, Wait: true}, wire.CodeNoCapacity},
	} {
		_, _, err := w.Allocate(t.Context(), ada, c.q, never)
		w.refused(name, c.code, err)
	}
	for name, params := range map[string]string{"no JSON": "x", "GPUs of its own": `{"gpus":["all"]}`, "a list": "[]",
		"null": "null", "nothing": "", "no command": `{"name":"train"}`, "an unknown key": `{"name":"train","command":["python"],"gpu":1}`,
		"a key twice": `{"name":"train","name":"other","command":["python"]}`} {
		_, _, err := w.Allocate(t.Context(), ada, api.NewAllocation{Wish: api.Wish{GPU: "h100"},
			Launch: &api.Launch{Type: wire.TaskWorkloadProcess, Params: []byte(params)}}, anything)
		w.refused("launch with "+name, wire.CodeTaskParamsInvalid, err)
	}
	if list, err := w.Allocations(t.Context(), "", api.AllocationFilter{All: true}); err != nil || list.Total != 0 {
		t.Errorf("something was kept: %+v, %v", list, err)
	}
}

// TestDryRun says what would be given, and gives nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{Count: 2}, DryRun: true})
	w.must(err)
	if len(a.Slots) == 0 || *a.PerHour != 16 {
		t.Errorf("it says %+v", a)
	}
	w.have(ada, 2)
	if a, err = w.ask(ada, api.NewAllocation{DryRun: true}); err != nil || len(a.Slots) != 0 || a.WaitsFor == "" {
		t.Errorf("it says %+v, %v", a, err)
	}
}

// TestReleasedWhilePlaced: who releases what waited a moment ago frees what it has got meanwhile.
func TestReleasedWhilePlaced(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	first := w.have(ada, 1)
	waits := w.wait(ada, 1, 0)
	row, err := w.Records.Allocation(t.Context(), waits.ID)
	w.must(err)
	w.release(first)
	if got := w.state(waits); got.State != api.AllocationAllocated {
		t.Fatalf("it is %+v", got)
	}
	w.must(w.Service.release(t.Context(), row, records.Release{ID: row.ID, At: w.clock()}, ada.By))
	w.agrees()
}

// TestReleasedBeforeKept: what has ended since its claim was written is not noted as held.
func TestReleasedBeforeKept(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	wanted, err := w.read(ada, api.NewAllocation{Wish: api.Wish{GPU: "h100"}}, anything)
	w.must(err)
	choice, _ := w.choose(&wanted, nil)
	claim := w.claimOf(&wanted, choice, true)
	w.must(w.Records.Claim(t.Context(), claim))
	_, err = w.Release(t.Context(), ada, wanted.ID)
	w.must(err)
	w.keep(&wanted, choice, claim)
	w.agrees()
}

// TestReleasedBeforeQueued: what has ended before it was in the queue keeps nobody from their turn.
func TestReleasedBeforeQueued(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	first := w.have(ada, 1)
	gone := w.wait(ada, 1, 0)
	w.must(w.Records.Release(t.Context(), records.Release{ID: gone.ID, At: w.clock()}))
	next := w.wait(bob, 1, 0)
	w.release(first)
	w.Round(t.Context())
	if got := w.state(next); got.State != api.AllocationAllocated {
		t.Errorf("behind one that is gone: %+v", got)
	}
}
