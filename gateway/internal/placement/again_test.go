package placement

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
)

// equipped asks for a user and a workload.
func equipped() api.NewAllocation {
	return api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100"}, Wait: true, User: &api.AllocationUser{Name: "ada",
		Keys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFQdCtVEWnPYm9mMhyqOtqAhTrZ6U9oy8WZYtQ7kTyk1 ada"}},
		Launch: &api.Launch{Type: wire.TaskWorkloadProcess, Params: []byte(`{"name":"train","command":["python","train.py"]}`)}}
}

// TestCallerGone: a caller who goes away leaves a whole allocation, or one that waits and gets its turn.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	ctx, cancel := context.WithCancel(t.Context())
	w.config.Send = func(ctx context.Context, o inventory.Order) error {
		cancel()
		return w.send(ctx, o)
	}
	w.config.Node = func(id string) (*api.NodeRow, bool) {
		cancel()
		return w.row(id)
	}
	w.restart()
	first, _, err := w.Allocate(ctx, ada, equipped(), anything)
	w.must(err)
	if users, launches := w.sent(wire.TaskProvisionUser), w.sent(wire.TaskWorkloadProcess); len(users) != 1 || len(launches) != 1 {
		t.Errorf("the first has the users %+v and the workloads %+v", users, launches)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	second, _, err := w.Allocate(ctx, ada, equipped(), anything)
	w.must(err)
	w.release(first)
	if got := w.state(second); got.State != api.AllocationAllocated {
		t.Errorf("the second: %+v", got)
	}
	if _, _, err = w.Allocate(ctx, ada, equipped(), anything); !errors.Is(err, context.Canceled) {
		t.Errorf("who had gone before got %v", err)
	}
}

// TestEquippedLater: what could not be made at once is made by a round, but not for an allocation that has ended.
func TestEquippedLater(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.refuse[wire.TaskWorkloadProcess] = errors.New("the database does not answer")
	stays, err := w.ask(ada, equipped())
	w.must(err)
	ends, err := w.ask(ada, equipped())
	w.must(err)
	w.Round(t.Context())
	if _, err = w.Release(t.Context(), ada, ends.ID); err != nil {
		t.Fatal(err)
	}
	delete(w.refuse, wire.TaskWorkloadProcess)
	w.Round(t.Context())
	if orders := w.sent(wire.TaskWorkloadProcess); len(orders) != 1 || stays.State != api.AllocationAllocated {
		t.Errorf("of two, of which one has ended: %+v", orders)
	}
}

// TestSameAgainEnds: the same request again ends what the first has not ended.
func TestSameAgainEnds(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	q := equipped()
	_, err := w.ask(ada, q)
	w.must(err)
	w.sent(wire.TaskWorkloadProcess)
	w.sent(wire.TaskProvisionUser)
	first, err := w.ask(ada, q)
	w.must(err)
	if users, launches := w.sent(wire.TaskProvisionUser), w.sent(wire.TaskWorkloadProcess); len(users) != 1 || len(launches) != 1 {
		t.Errorf("again it has the users %+v and the workloads %+v", users, launches)
	}
	w.pass(2 * time.Hour)
	if _, err = w.ask(ada, q); err != nil || len(w.sent(wire.TaskProvisionUser)) != 0 {
		t.Errorf("two hours later it is equipped, %v", err)
	}
	q.ID = wire.NewTaskID()
	wanted, err := w.read(ada, q, anything)
	w.must(err)
	w.must(w.Records.Add(t.Context(), wanted.Allocation))
	if _, err = w.ask(ada, q); err != nil || len(w.queued) != 1 {
		t.Errorf("it waits %d times, %v", len(w.queued), err)
	}
	if _, err = w.ask(ada, q); err != nil || len(w.queued) != 1 {
		t.Errorf("again it waits %d times, %v", len(w.queued), err)
	}
	w.release(first)
	if got := w.state(api.Allocation{ID: q.ID}); got.State != api.AllocationAllocated {
		t.Errorf("it has %+v", got)
	}
	w.must(w.enqueue(t.Context(), q.ID, ""))
	if len(w.queued) != 0 {
		t.Error("what has its GPUs waits")
	}
	if err := w.enqueue(t.Context(), wire.NewTaskID(), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none waits with %v", err)
	}
}

// TestCheckLaunch: the image of a container may be named by its tag, as the gateway adds the digest.
func TestCheckLaunch(t *testing.T) {
	t.Parallel()
	for params, code := range map[string]string{`{"name":"train","image":"pytorch/pytorch:2.9"}`: "",
		`{"name":"train","image":"not an image"}`: wire.CodeTaskParamsInvalid, `{"name":"train"}`: wire.CodeTaskParamsInvalid} {
		err := checkLaunch(api.Launch{Type: wire.TaskWorkloadLaunch, Params: []byte(params)})
		var refusal *wire.ErrorDetail
		if errors.As(err, &refusal) != (code != "") || refusal != nil && refusal.Code != code {
			t.Errorf("%s: %v, want %q", params, err, code)
		}
	}
	if err := checkLaunch(api.Launch{Type: "workload.none", Params: []byte("{}")}); err == nil {
		t.Error("an unknown type is taken")
	}
}

// TestInWords: whole days are written as such.
func TestInWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{30 * 24 * time.Hour: "30d", 24 * time.Hour: "1d", 90 * time.Minute: "1h30m0s",
		25 * time.Hour: "25h0m0s", time.Minute: "1m0s"} {
		if got := inWords(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestSameAtOnce: the same request many times at once gives one allocation, whether it waits or not.
func TestSameAtOnce(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	for _, state := range []string{api.AllocationAllocated, api.AllocationWaiting} {
		q := api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100"}, Wait: true}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := w.ask(ada, q); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.Round(t.Context())
		if got := w.state(api.Allocation{ID: q.ID}); got.State != state {
			t.Errorf("it is %+v; want %s", got, state)
		}
	}
	w.agrees()
}
