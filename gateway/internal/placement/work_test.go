package placement

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	"muster/store/engine"
	records "muster/store/placement"
)

// TestWorkEndsBeforeCleaning: a task that an allocation has not ended yet is canceled before its GPUs are cleaned, and others are not.
func TestWorkEndsBeforeCleaning(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	mine, other := w.have(ada, 1), w.have(bob, 1)
	_, err := w.store.Records().Batch(t.Context(), []engine.Statement{engine.Do("UPDATE nodes SET enrolment_id = 'e'")})
	w.must(err)
	task := func(allocation string) string {
		params, err := json.Marshal(wire.WorkloadProcess{Allocation: allocation, Name: "train", Command: []string{"train"}})
		w.must(err)
		payload, err := json.Marshal(wire.TaskPayload{Params: params})
		w.must(err)
		id := wire.NewTaskID()
		w.must(w.store.CreateTask(t.Context(), store.Task{ID: id, NodeID: "n-1", EnrolmentID: "e", Type: wire.TaskWorkloadProcess,
			Payload:   payload,
			CreatedAt: start, ExpiresAt: start.Add(time.Hour)}))
		return id
	}
	late, theirs := task(mine.ID), task(other.ID)
	_, err = w.Release(t.Context(), ada, mine.ID)
	w.must(err)
	w.Round(t.Context())
	if sent := w.sent(wire.TaskGPUClean); len(sent) != 0 {
		t.Errorf("cleaned while a task waits: %+v", sent)
	}
	for id, want := range map[string]string{late: store.TaskCanceled, theirs: store.TaskQueued} {
		got, err := w.store.Task(t.Context(), "", id)
		w.must(err)
		if got.Status != want {
			t.Errorf("the task %s is %s, want %s", id, got.Status, want)
		}
	}
	w.Round(t.Context())
	if sent := w.sent(wire.TaskGPUClean); len(sent) != 1 {
		t.Errorf("%d cleanings, want 1", len(sent))
	}
}

// TestTakenGPU: a GPU that a process uses without an allocation is given to nobody, and its slot says why.
func TestTakenGPU(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.used = []string{uuid("n-1", 0)}
	if _, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{Count: 2}}); err == nil {
		t.Error("both GPUs were given")
	}
	got := w.have(ada, 1)
	if gpus := got.Slots[0].GPUs; len(gpus) != 1 || gpus[0] != uuid("n-1", 1) {
		t.Errorf("got %v", gpus)
	}
	list, err := w.Slots(t.Context(), "", api.SlotFilter{State: api.SlotApproved})
	w.must(err)
	if len(list.Slots) != 1 || !strings.Contains(list.Slots[0].Reason, "no allocation") {
		t.Errorf("the slots that are left: %+v", list.Slots)
	}
	w.used = nil
	w.have(bob, 1)
}

// unsure is a database whose answers get lost.
type unsure struct {
	store.Engine
	lost, dark atomic.Bool // of the next write; of all reads after it
}

var errLost = errors.New("the answer got lost")

func (u *unsure) Batch(ctx context.Context, all []engine.Statement) ([]engine.Result, error) {
	done, err := u.Engine.Batch(ctx, all)
	if err == nil && u.lost.CompareAndSwap(true, false) {
		u.dark.Store(true)
		return nil, errLost
	}
	return done, err
}

func (u *unsure) Query(ctx context.Context, st engine.Statement) ([][]any, error) {
	if u.dark.Load() {
		return nil, errLost
	}
	return u.Engine.Query(ctx, st)
}

// TestDoubtfulClaim: a claim of which nobody knows whether it was written keeps its slots until that is read.
func TestDoubtfulClaim(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	u := &unsure{Engine: w.store.Records().Engine}
	w.config.Records = records.New(store.Records{Engine: u})
	w.restart()
	u.lost.Store(true)
	id := wire.NewTaskID()
	if _, err := w.ask(ada, api.NewAllocation{ID: id}); !errors.Is(err, errLost) {
		t.Fatalf("the claim: %v", err)
	}
	u.dark.Store(false)
	if _, err := w.ask(bob, api.NewAllocation{}); err == nil {
		t.Error("its GPU was given again before anybody has read it")
	}
	w.Round(t.Context())
	if list, err := w.Slots(t.Context(), "", api.SlotFilter{State: api.SlotAllocated}); err != nil || len(list.Slots) == 0 {
		t.Errorf("after it was read: %+v, %v", list, err)
	}
	again, err := w.ask(ada, api.NewAllocation{ID: id})
	w.must(err)
	w.release(again)
	w.have(bob, 1)
}

// TestSupplied: what no node has waits where something could get it, and what it waits for is what that says. A dry run hears the same.
func TestSupplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var asked []Wanted
	never := wire.Refuse(wire.CodeNoCapacity, "there is no account to rent from", "add one")
	w.SupplyBy(func(_ context.Context, a Wanted) (bool, error) {
		if a.Rent {
			return false, never
		}
		return a.GPU == "h200", nil
	},
		func(_ context.Context, a Wanted) string { asked = append(asked, a); return "a machine" })
	if _, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "b200"}, Wait: true}); err == nil {
		t.Error("what nobody could get waits")
	}
	if _, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "b200", Rent: true, MaxPrice: new(2.5)}}); !errors.Is(err, never) {
		t.Errorf("what can never be rented: %v", err)
	}
	a, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h200"}, DryRun: true})
	if err != nil || a.WaitsFor != "a machine" || len(asked) != 1 || !asked[0].DryRun {
		t.Errorf("a dry run: %+v, %v, asked for %+v", a, err, asked)
	}
	if w.supplyAll(t.Context()); len(asked) != 1 {
		t.Errorf("a dry run was queued: %+v", asked)
	}
	asked = nil
	a, err = w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h200", Count: 8}, Wait: true})
	w.must(err)
	w.supplyAll(t.Context())
	if got := w.state(a).WaitsFor; got != "a machine" {
		t.Errorf("it waits for %q", got)
	}
	if len(asked) != 1 || asked[0].ID != a.ID || asked[0].GPUs != 8 || asked[0].Machines != 1 || asked[0].Rent || asked[0].DryRun {
		t.Errorf("asked for %+v", asked)
	}
}

// TestSuppliedWithinQuota: nothing is got that a tenant may not have, also beside what is got for others of it.
func TestSuppliedWithinQuota(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	_, err := w.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{GPUs: new(4)})
	w.must(err)
	w.have(ada, 2)
	var asked []string
	w.SupplyBy(func(context.Context, Wanted) (bool, error) { return true, nil },
		func(_ context.Context, a Wanted) string { asked = append(asked, a.ID); return "a machine" })
	dry, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h200", Count: 3}, DryRun: true})
	if err != nil || !strings.HasPrefix(dry.WaitsFor, overQuota) {
		t.Errorf("a dry run: %+v, %v", dry, err)
	}
	var all []api.Allocation
	for _, count := range []int{3, 2, 1} {
		a, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h200", Count: count}, Wait: true})
		w.must(err)
		all = append(all, a)
	}
	w.supplyAll(t.Context())
	if !slices.Equal(asked, []string{all[1].ID}) {
		t.Errorf("got for %v of %v", asked, all)
	}
	for i, says := range []string{overQuota, "a machine", overQuota} {
		if got := w.state(all[i]).WaitsFor; !strings.HasPrefix(got, says) {
			t.Errorf("%d waits for %q", all[i].Wish.Count, got)
		}
	}
}

// TestSuppliedAtOnce: what begins to wait is got at once, and not at the next look.
func TestSuppliedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := make(chan string)
	w.SupplyBy(func(context.Context, Wanted) (bool, error) { return true, nil },
		func(_ context.Context, a Wanted) string { asked <- a.ID; return "a machine" })
	a, err := w.ask(ada, api.NewAllocation{Wish: api.Wish{GPU: "h200"}, Wait: true})
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Supply(ctx) }()
	if got := <-asked; got != a.ID {
		t.Errorf("first for %s", got)
	}
	begun := time.Now()
	w.Take(t.Context(), []store.Event{{Kind: "allocation.waiting"}})
	if got := <-asked; got != a.ID || time.Since(begun) > supplyEvery/2 {
		t.Errorf("for %s after %s", got, time.Since(begun))
	}
	cancel()
	w.must(<-done)
}
