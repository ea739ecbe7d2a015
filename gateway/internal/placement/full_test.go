package placement

import (
	"fmt"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/pick"
	"muster/store"
)

// TestQueueFull: so many wait of an owner and of a tenant, and no more. The same request again is none more.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	w := up(t, 1, "n-1")
	w.have(ada, 1)
	var last api.NewAllocation
	for i := range mostOfTenant {
		name := fmt.Sprintf("person-%d", i/mostOfOwner)
		who := Caller{Account: name, Tenant: "platform", By: store.Actor{Name: "account:" + name}}
		last = api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100"}, Wait: true}
		_, err := w.ask(who, last)
		w.must(err)
		if i+1 == mostOfOwner {
			_, err = w.ask(who, api.NewAllocation{Wait: true})
			w.refused("one more of an owner", wire.CodeOverQuota, err)
		}
		if i+1 == mostOfTenant {
			_, err = w.ask(who, last)
			w.must(err)
		}
	}
	_, err := w.ask(bob, api.NewAllocation{Wait: true})
	w.refused("one more of a tenant", wire.CodeOverQuota, err)
	w.Round(t.Context())
}

// TestEqualWishes: of equal wishes a pass tries one alone, once it has failed, and tells all of them why.
func TestEqualWishes(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	first, second := w.have(ada, 1), w.have(ada, 1)
	large := w.wait(ada, 2, 0)
	small := []api.Allocation{w.wait(ada, 1, 0), w.wait(bob, 1, 0), w.wait(bob, 1, 0)}
	w.release(first)
	looks := 0
	w.config.Node = func(id string) (*api.NodeRow, bool) {
		looks++
		return w.row(id)
	}
	w.restart()
	w.must(w.serve(t.Context()))
	few := looks
	for range 20 {
		w.wait(bob, 1, 0)
	}
	looks = 0
	w.must(w.serve(t.Context()))
	if looks != few {
		t.Errorf("with 20 more it looks %d times, and %d without", looks, few)
	}
	for _, a := range small {
		if got := w.state(a); !strings.Contains(got.WaitsFor, "ahead") {
			t.Errorf("it waits for %q", got.WaitsFor)
		}
	}
	w.release(second)
	if got := w.state(large); got.State != api.AllocationAllocated {
		t.Errorf("the large one: %+v", got)
	}
	w.release(large)
	for i, want := range []string{api.AllocationAllocated, api.AllocationAllocated, api.AllocationWaiting} {
		if got := w.state(small[i]); got.State != want {
			t.Errorf("the small one %d: %+v", i, got)
		}
	}
	w.agrees()
}

// TestQuotaKeepsNobody: who waits for the quota alone keeps nobody back, and a dry run says what it would wait for.
func TestQuotaKeepsNobody(t *testing.T) {
	t.Parallel()
	w := up(t, 8, "n-1")
	three := 3
	_, err := w.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{GPUs: &three})
	w.must(err)
	first := w.have(ada, 1)
	large := w.wait(ada, 3, 0)
	if large.State != api.AllocationWaiting || !strings.HasPrefix(large.WaitsFor, overQuota) {
		t.Errorf("the large one: %+v", large)
	}
	dry, err := w.ask(bob, api.NewAllocation{Wish: api.Wish{Count: 3}, DryRun: true})
	if err != nil || !strings.HasPrefix(dry.WaitsFor, overQuota) || len(dry.Slots) != 0 {
		t.Errorf("a dry run of more than is left: %+v, %v", dry, err)
	}
	w.have(bob, 1)
	w.wait(ada, 2, 0)
	for _, q := range []api.NewAllocation{{Wish: api.Wish{Count: 4}, Wait: true}, {Wish: api.Wish{Count: 4}, DryRun: true},
		{Wish: api.Wish{SKU: "h100-sxm-baremetal-8g"}, Wait: true}} {
		_, err = w.ask(ada, q)
		w.refused(fmt.Sprintf("%+v, which the quota never allows", q.Wish), wire.CodeOverQuota, err)
	}
	w.Round(t.Context())
	if last := w.have(bob, 1); w.state(large).State != api.AllocationWaiting {
		t.Errorf("%+v is there beside the large one", last)
	}
	w.release(first)
	w.agrees()
}

// TestDryRunAhead: a dry run says that others are ahead.
func TestDryRunAhead(t *testing.T) {
	t.Parallel()
	w := up(t, 2, "n-1")
	w.have(ada, 1)
	w.wait(ada, 2, 0)
	if dry, err := w.ask(bob, api.NewAllocation{DryRun: true}); err != nil || !strings.Contains(dry.WaitsFor, "ahead") || len(dry.Slots) != 0 {
		t.Errorf("it says %+v, %v", dry, err)
	}
	if choice := pickBeside(pick.Taken{}, nil, api.Wish{GPU: "h100"}); len(choice.Slots) != 0 {
		t.Errorf("of nothing it picks %+v", choice)
	}
}
