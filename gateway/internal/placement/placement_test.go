package placement

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
)

// TestSession goes the whole way: evidence, slots, an allocation, its end, cleaning, and the GPUs are free again.
func TestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 1 || checks[0].NodeID != "n-1" {
		t.Fatalf("checks: %+v", checks)
	}
	w.show("n-1", machine("n-1", 8))
	w.want("before approval", w.states(api.ShapeGPU), map[string]int{api.SlotProposed: 8})
	row, _ := w.row("n-1")
	if p := row.Placement; p.Profile != api.ProfileContainer || !slices.Contains(p.Tags, "gpu-nvidia-h100") || p.Capacity != api.CapacityNone {
		t.Errorf("the node is placed as %+v", p)
	}
	w.approve()
	a := w.have(ada, 2)
	if a.State != api.AllocationAllocated || len(a.Slots) != 2 || a.EndsAt == nil || !a.EndsAt.Equal(start.Add(24*time.Hour)) ||
		*a.PerHour != 4 {
		t.Errorf("the allocation is %+v", a)
	}
	w.want("allocated", w.states(api.ShapeGPU), map[string]int{api.SlotApproved: 6, api.SlotAllocated: 2})
	w.agrees()
	row, _ = w.row("n-1")
	if h := row.HeldBy(a.Slots[0].GPUs[0]); h == nil || h.Owner != "ada" || h.Allocation != a.ID ||
		row.Placement.Capacity != api.CapacityOpen {
		t.Errorf("the GPU is held by %+v on %+v", h, row.Placement)
	}
	e, err := w.Explain(t.Context(), "", "h100-sxm-baremetal-8g")
	w.must(err)
	if e.Free != 0 || len(e.List) != 1 || len(e.List[0].Why) == 0 {
		t.Errorf("the whole node: %+v", e)
	}
	if _, err := w.Release(t.Context(), bob, a.ID); err == nil {
		t.Error("somebody else released it")
	}
	if a, err = w.Release(t.Context(), ada, a.ID); err != nil || a.State != api.AllocationReleasing {
		t.Errorf("released: %+v, %v", a, err)
	}
	w.Round(t.Context())
	w.want("being cleaned", w.states(api.ShapeGPU), map[string]int{api.SlotApproved: 6, api.SlotCleaning: 2})
	w.cleaned()
	w.want("clean", w.states(api.ShapeGPU), map[string]int{api.SlotApproved: 8})
	if a, err = w.Allocation(t.Context(), "", a.ID); err != nil || a.State != api.AllocationReleased || !strings.Contains(a.EndedWhy, "ada") {
		t.Errorf("in the end: %+v, %v", a, err)
	}
	if again, err := w.Release(t.Context(), ada, a.ID); err != nil || again.State != api.AllocationReleased {
		t.Errorf("released again: %+v, %v", again, err)
	}
	w.agrees()
}

// TestRace: of 200 who race for the last slot one has it.
func TestRace(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			_, err := w.ask(ada, api.NewAllocation{})
			var refusal *wire.ErrorDetail
			switch {
			case err == nil:
				won.Add(1)
			case errors.As(err, &refusal) && refusal.Code == wire.CodeNoCapacity:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 199 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	w.agrees()
}

// TestSameAgain: the same request again gives the same allocation, also after the gateway has ended between the claim and its answer.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	w := up(t, 8, "n-1")
	q := api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100", Count: 2}, User: &api.AllocationUser{Name: "ada",
		Keys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFQdCtVEWnPYm9mMhyqOtqAhTrZ6U9oy8WZYtQ7kTyk1 ada"}}}
	first, created, err := w.Allocate(t.Context(), ada, q, anything)
	w.must(err)
	users := w.sent(wire.TaskProvisionUser)
	if !created || len(users) != 1 || users[0].By.Name != "ada" {
		t.Fatalf("created %v, and the users %+v", created, users)
	}
	w.restart()
	again, created, err := w.Allocate(t.Context(), ada, q, anything)
	w.must(err)
	if created || again.ID != first.ID || len(again.Slots) != 2 || again.Slots[0].Slot != first.Slots[0].Slot {
		t.Errorf("again: %+v, created %v; first %+v", again, created, first)
	}
	w.Round(t.Context())
	if after := w.sent(wire.TaskProvisionUser); len(after) != 1 || after[0].ID != users[0].ID {
		t.Errorf("after a restart the users are made as %+v", after)
	}
	q.Count = 3
	_, _, err = w.Allocate(t.Context(), ada, q, anything)
	w.refused("another wish with the id", wire.CodeAlreadyThere, err)
	_, _, err = w.Allocate(t.Context(), bob, api.NewAllocation{ID: q.ID, Wish: api.Wish{GPU: "h100", Count: 2}}, anything)
	w.refused("somebody else's id", wire.CodeAlreadyThere, err)
	w.agrees()
}

// TestDrift: a machine that comes back as another one keeps what runs on it and takes no claims, until a person has looked. A rule does not
// approve it.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "n-1")
	_, err := w.SetSlotRule(t.Context(), operator, "rented", api.SlotRuleRequest{Selector: "provider=vast_ai"})
	w.must(err)
	w.show("n-1", machine("n-1", 2))
	w.want("by the rule", w.states(api.ShapeGPU), map[string]int{api.SlotApproved: 2})
	a := w.have(ada, 1)
	other := machine("n-1", 2)
	other.Facts.Accelerators[1].UUID = "GPU-00000009-0000-0000-0000-000000000009"
	w.show("n-1", other)
	if w.events("slot.drift") != 1 {
		t.Errorf("%d events of drift", w.events("slot.drift"))
	}
	_, err = w.ask(ada, api.NewAllocation{})
	w.refused("a claim after drift", wire.CodeNoCapacity, err)
	if a, err = w.Allocation(t.Context(), "", a.ID); err != nil || a.State != api.AllocationAllocated {
		t.Errorf("what was allocated: %+v, %v", a, err)
	}
	w.approve()
	w.have(ada, 1)
	w.agrees()
}

// TestReboot: evidence of another boot lets nobody claim. The same machine after its boot needs no person.
func TestReboot(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.sent(wire.TaskNodeCheck)
	w.pass(time.Hour)
	at := w.clock()
	w.set("n-1", func(r *api.NodeRow) { r.BootTime = &at })
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 1 {
		t.Errorf("after a boot: %+v", checks)
	}
	_, err := w.ask(ada, api.NewAllocation{})
	w.refused("a claim with old evidence", wire.CodeNoCapacity, err)
	w.pass(time.Minute)
	e := machine("n-1", 2)
	e.BootID = "boot-2"
	w.show("n-1", e)
	w.have(ada, 1)
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 0 {
		t.Errorf("it is asked again: %+v", checks)
	}
}

// TestEnrolledAnew: a node that enrols anew may be another machine, and is asked again.
func TestEnrolledAnew(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.must(w.Records.Booted(t.Context(), "n-1")) // as its enrolment does
	w.Take(t.Context(), []store.Event{{Kind: "node.enrolled", NodeID: "n-1"}})
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 1 {
		t.Errorf("checks: %+v", checks)
	}
	_, err := w.ask(ada, api.NewAllocation{})
	w.refused("a claim", wire.CodeNoCapacity, err)
}

// checkPause is at least the time between two checks of a node.
const checkPause = 10 * time.Minute

// TestOtherGPUs: a node whose heartbeat shows other GPUs is checked again before anybody gets one. What it had when it comes back is
// cleaned
// by where it is.
func TestOtherGPUs(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a := w.have(ada, 1)
	other := machine("n-1", 2)
	var seen []api.GPU
	for i := range other.Facts.Accelerators {
		other.Facts.Accelerators[i].UUID = uuid("other", i)
		seen = append(seen, api.GPU{UUID: uuid("other", i)})
	}
	early := w.clock().Add(5 * time.Second)
	w.set("n-1", func(r *api.NodeRow) { r.Fresh, r.GPUs, r.ReadAt = true, seen, &early })
	w.pass(checkPause)
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 0 {
		t.Errorf("by a reading of about the same time: %+v", checks)
	}
	late := w.clock()
	w.set("n-1", func(r *api.NodeRow) { r.ReadAt = &late })
	w.Round(t.Context())
	_, err := w.ask(ada, api.NewAllocation{})
	w.refused("other GPUs", wire.CodeNoCapacity, err)
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 1 {
		t.Errorf("checks: %+v", checks)
	}
	w.show("n-1", other)
	w.Round(t.Context())
	if checks := w.sent(wire.TaskNodeCheck); len(checks) != 0 {
		t.Errorf("asked again: %+v", checks)
	}
	w.release(a)
	if got := w.state(a); got.State != api.AllocationReleased {
		t.Errorf("it is %+v", got)
	}
	w.agrees()
}

// TestTwins: a GPU that is on two nodes is given on neither of them, nor twice by the database.
func TestTwins(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.have(ada, 1)
	w.add("twin")
	w.show("twin", machine("n-1", 2))
	w.approve()
	_, err := w.ask(ada, api.NewAllocation{})
	w.refused("a GPU of two nodes", wire.CodeNoCapacity, err)
	if row, _ := w.row("twin"); row.Placement.Capacity != api.CapacityUnproven || !slices.ContainsFunc(row.Placement.Reasons,
		func(s string) bool { return strings.Contains(s, "n-1 too") }) {
		t.Errorf("the twin is %+v", row.Placement)
	}
	w.must(w.store.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: wire.StateActive, To: wire.StateRetired, At: start}))
	w.set("n-1", func(r *api.NodeRow) { r.State = wire.StateRetired })
	w.Round(t.Context())
	w.have(ada, 2)
	if w.events("allocation.lost") != 1 {
		t.Errorf("%d events", w.events("allocation.lost"))
	}
}

// TestChecksByHand: evidence that nobody of the gateway asked for changes nothing, and a check that ended in any way is asked for again.
func TestChecksByHand(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.must(w.TakeEvidence(t.Context(), store.Task{ID: wire.NewTaskID(), NodeID: "n-1", Type: wire.TaskNodeCheck, Status: store.TaskCompleted,
		CreatedBy: "account:bob", TaskEnd: store.TaskEnd{Values: `{"evidence":{}}`}}))
	w.have(ada, 1)
	started, err := w.Check(t.Context(), operator, "n-1", api.CheckRequest{}, anything)
	w.must(err)
	w.sent(wire.TaskNodeCheck)
	w.must(w.TakeEvidence(t.Context(), store.Task{ID: started.Task, NodeID: "n-1", Status: "canceled", CreatedBy: inventory.ByGateway}))
	if e, err := w.Evidence(t.Context(), "", "n-1"); err != nil || e.Pending != "" || !e.Current {
		t.Errorf("after a canceled one: %+v, %v", e, err)
	}
}

// TestFewerGPUs: fewer GPUs than the gateway expects are a fault, and no new inventory.
func TestFewerGPUs(t *testing.T) {
	t.Parallel()
	w := up(t, 8, "n-1")
	eight := 8
	w.set("n-1", func(r *api.NodeRow) { r.GPUsExpected = &eight })
	w.show("n-1", machine("n-1", 7))
	_, err := w.Decide(t.Context(), operator, api.SlotDecision{Selector: "provider=vast_ai"})
	w.refused("approval", wire.CodeIllegalMove, err)
	e, err := w.Evidence(t.Context(), "", "n-1")
	w.must(err)
	if len(e.Missing) != 1 || !strings.Contains(e.Missing[0], "7 of 8") {
		t.Errorf("missing: %q", e.Missing)
	}
}

// TestBars: a node that is drained, unavailable, silent or given back takes no claims and loses none.
func TestBars(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.NodeRow){
		"drained":     func(r *api.NodeRow) { r.State = wire.StateDrained },
		"unavailable": func(r *api.NodeRow) { r.State = wire.StateUnavailable; r.StateReasons = []string{wire.ReasonConflict} },
		"stale":       func(r *api.NodeRow) { r.Status = store.StatusStale },
		"not heard":   func(r *api.NodeRow) { r.Unheard = true },
	} {
		w := up(t, 2, "n-1")
		a := w.have(ada, 1)
		w.set("n-1", change)
		_, err := w.ask(ada, api.NewAllocation{})
		w.refused(name, wire.CodeNoCapacity, err)
		if a, err = w.Allocation(t.Context(), "", a.ID); err != nil || a.State != api.AllocationAllocated {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// TestDrainedBetween: a node that is drained while somebody chooses it is refused by the database, and the choice is made again.
func TestDrainedBetween(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1", "n-2")
	w.must(w.store.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: wire.StateActive, To: wire.StateDrained, At: start}))
	_, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h100", Selector: "name=n-1"}})
	w.refused("memory does not know it yet", wire.CodeNoCapacity, err)
	w.agrees()
}

// TestGone: what was allocated on a node that is given back is free of it.
func TestGone(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	a := w.have(ada, 1)
	w.must(w.store.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: wire.StateActive, To: wire.StateRetired, At: start}))
	w.set("n-1", func(r *api.NodeRow) { r.State = wire.StateRetired })
	w.Round(t.Context())
	a, err := w.Allocation(t.Context(), "", a.ID)
	w.must(err)
	row, _ := w.row("n-1")
	if a.State != api.AllocationReleased || row.Placement != nil {
		t.Errorf("%+v on %+v", a, row.Placement)
	}
	w.agrees()
}

// TestTakenBack: what was allocated on a node that was taken back by force is lost, and its owner is told. One that waits to be cleaned is
// free as well.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	for _, state := range []string{wire.StateCommissioned, wire.StateReady} {
		w := up(t, 2, "n-1")
		a, ended := w.have(ada, 1), w.have(ada, 1)
		_, err := w.Release(t.Context(), ada, ended.ID)
		w.must(err)
		w.must(w.store.MoveNode(t.Context(), store.Move{NodeID: "n-1", From: wire.StateActive, To: state, At: start}))
		w.set("n-1", func(r *api.NodeRow) { r.State = state })
		w.Round(t.Context())
		for _, id := range []string{a.ID, ended.ID} {
			got, err := w.Allocation(t.Context(), "", id)
			w.must(err)
			if got.State != api.AllocationReleased {
				t.Errorf("%s: %+v", state, got)
			}
		}
		if w.events("allocation.lost") == 0 {
			t.Error("nobody was told")
		}
		w.agrees()
	}
}

// use asks whether ada may have a program use GPUs.
func (w *world) use(node, allocation string, gpus []string, count int) error {
	return w.MayUse(node, &wire.WorkloadProcess{Allocation: allocation, GPUs: gpus, GPUCount: count}, ada.By)
}

// TestMayUse: work on GPUs that belong to somebody else is refused.
func TestMayUse(t *testing.T) {
	t.Parallel()
	w := up(t, 4, "n-1")
	w.must(w.use("n-1", "", []string{wire.AllGPUs}, 0))
	a := w.have(ada, 1)
	taken := a.Slots[0].GPUs[0]
	free := ""
	for i := range 4 {
		if uuid("n-1", i) != taken {
			free = uuid("n-1", i)
		}
	}
	w.must(w.use("n-1", a.ID, []string{taken}, 0))
	w.must(w.use("n-1", "", []string{free}, 0))
	w.must(w.use("n-1", "", nil, 0))
	w.must(w.use("unknown", "", []string{free}, 1))
	for name, err := range map[string]error{
		"a GPU of somebody":           w.use("n-1", "", []string{taken}, 0),
		"all GPUs":                    w.use("n-1", "", []string{wire.AllGPUs}, 0),
		"as many as the node chooses": w.use("n-1", "", nil, 1),
		"a GPU of no allocation":      w.use("n-1", a.ID, []string{free}, 0),
		"an allocation of elsewhere":  w.use("n-1", wire.NewTaskID(), nil, 0),
		"all by an allocation":        w.use("n-1", a.ID, []string{wire.AllGPUs}, 0),
	} {
		w.refused(name, wire.CodeIllegalMove, err)
	}
	w.refused("another's allocation", wire.CodeForbidden, w.MayUse("n-1", &wire.WorkloadLaunch{Allocation: a.ID, GPUs: []string{taken}},
		bob.By))
	clean := &wire.GPUClean{Allocation: a.ID, GPUs: []string{taken}}
	w.refused("cleaning what runs", wire.CodeIllegalMove, w.MayUse("n-1", clean, bob.By))
	_, err := w.Release(t.Context(), ada, a.ID)
	w.must(err)
	w.must(w.MayUse("n-1", clean, operator.By))
	w.refused("an allocation that has ended", wire.CodeIllegalMove, w.use("n-1", a.ID, []string{taken}, 0))
	w.refused("a GPU that is not clean", wire.CodeIllegalMove, w.use("n-1", "", []string{taken}, 0))
}
