package placement_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/store"
	"muster/store/placement"
)

// TestClaim: a claim holds all units of its slots, and the allocation is on record with its event.
func TestClaim(t *testing.T) {
	t.Parallel()
	r, s := open(t, "n-1")
	ready(t, r, "n-1", 3)
	waiting := asked("a-1")
	must(t, r.Add(t.Context(), waiting))
	wantConflict(t, "its id is taken", r.Add(t.Context(), waiting))
	c := claim("a-1", "n-1-g0", "n-1-g2")
	c.New = nil
	event := store.Event{At: start, Kind: "allocation.claimed", Outcome: store.OutcomeOK}
	must(t, r.Claim(t.Context(), c, event))
	got := allocation(t, r, "a-1")
	holds := []placement.Hold{
		{Allocation: "a-1", NodeID: "n-1", SlotID: "n-1-g0", Unit: unit("n-1", 0), State: placement.Held},
		{Allocation: "a-1", NodeID: "n-1", SlotID: "n-1-g2", Unit: unit("n-1", 2), State: placement.Held},
	}
	wantSame(t, "holds", got.Holds, holds)
	if got.State != placement.Allocated || !got.ClaimedAt.Equal(start) || !got.EndsAt.Equal(after(time.Hour)) ||
		got.Owner != waiting.Owner || got.TTL != time.Hour || got.EndedAt != nil {
		t.Errorf("got %+v", got)
	}
	if events, err := s.Events(t.Context(), store.EventQuery{Kind: event.Kind}); err != nil || len(events) != 1 {
		t.Errorf("events %v, %v", events, err)
	}
	again := claim("a-1", "n-1-g1")
	wantConflict(t, "a new one with its id", r.Claim(t.Context(), again))
	again.New = nil
	again.Want = 2 // as many as it has
	wantConflict(t, "it has its slots", r.Claim(t.Context(), again))
	wantSame(t, "holds", live(t, r), map[string]string{"n-1/" + key(0): "a-1 held", "n-1/" + key(2): "a-1 held"})
}

// TestClaimLost: each condition by itself loses the claim, and nothing is left of it.
func TestClaimLost(t *testing.T) {
	t.Parallel()
	part := func(gpu int, name string) placement.Unit {
		return placement.Unit{Key: key(gpu) + "/" + name, UUID: name}
	}
	none := func(testing.TB, placement.Records, *store.Store, *placement.Claim) {}
	for what, change := range map[string]func(testing.TB, placement.Records, *store.Store, *placement.Claim){
		"": none,
		"a unit is held": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			must(t, r.Claim(t.Context(), claim("other", "n-1-g1")))
		},
		"a unit is held with the whole node": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			c := claim("other", "n-1-all")
			c.Want = 2
			must(t, r.Claim(t.Context(), c))
		},
		"a unit is not clean": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			must(t, r.Claim(t.Context(), claim("other", "n-1-g1")))
			must(t, r.Release(t.Context(), placement.Release{ID: "other", At: start}))
		},
		"a slot twice": func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) { c.Slots[1] = c.Slots[0] },
		"slots that share a unit": func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) {
			c.Slots[1].SlotID = "n-1-all"
			c.Want = 3
		},
		"another number of units": func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) { c.Want = 1 },
		"no slot":                 func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) { c.Slots, c.Want = nil, 0 },
		"an unknown slot": func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) {
			c.Slots[1].SlotID = "n-none"
		},
		"chosen for another digest": func(_ testing.TB, _ placement.Records, _ *store.Store, c *placement.Claim) { c.Slots[1].Digest = "d0" },
		"a slot is disabled": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			_, err := r.Decide(t.Context(), placement.Decision{IDs: []string{"n-1-g1"}, To: placement.Disabled, At: start})
			must(t, err)
		},
		"the node has booted": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			must(t, r.Booted(t.Context(), "n-1"))
		},
		"a check failed": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			e := evidence("n-1", "t-2", "d1")
			e.Ready = false
			must(t, r.PutEvidence(t.Context(), e, ruled(singles("n-1", 2))))
		},
		"drift": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d2"), singles("n-1", 2)))
		},
		"the node is drained": func(t testing.TB, _ placement.Records, s *store.Store, _ *placement.Claim) {
			move(t, s, "n-1", "active", "drained")
		},
		"the node is unavailable": func(t testing.TB, _ placement.Records, s *store.Store, _ *placement.Claim) {
			move(t, s, "n-1", "active", "unavailable")
		},
		"the node is retired": func(t testing.TB, _ placement.Records, s *store.Store, _ *placement.Claim) {
			move(t, s, "n-1", "active", store.StateRetired)
		},
		"over the quota": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			one := int64(1)
			must(t, r.SetQuota(t.Context(), "platform", &one, start, "account:ops"))
		},
		"a part of the card is held": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			slots := ruled([]placement.Proposal{{ID: "part", Units: []placement.Unit{part(1, "MIG-1")}}})
			must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d1"), slots))
			must(t, r.Claim(t.Context(), claim("other", "part")))
			must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-3", "d1"), ruled(singles("n-1", 2))))
		},
		"the GPU is held at another address": func(t testing.TB, r placement.Records, _ *store.Store, _ *placement.Claim) {
			moved := unit("n-1", 1)
			moved.Key = key(7)
			slots := ruled([]placement.Proposal{{ID: "moved", Units: []placement.Unit{moved}}})
			must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d1"), slots))
			must(t, r.Claim(t.Context(), claim("other", "moved")))
			must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-3", "d1"), ruled(singles("n-1", 2))))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, s := open(t, "n-1")
			ready(t, r, "n-1", 2)
			c := claim("a-1", "n-1-g0", "n-1-g1")
			change(t, r, s, &c)
			before := live(t, r)
			err := r.Claim(t.Context(), c, store.Event{At: start, Kind: "allocation.claimed"})
			if what == "" {
				must(t, err)
				return
			}
			wantConflict(t, "the claim", err)
			if _, err := r.Allocation(t.Context(), "a-1"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an allocation is left: %v", err)
			}
			wantSame(t, "holds", live(t, r), before)
			if events, err := s.Events(t.Context(), store.EventQuery{Kind: "allocation.claimed"}); err != nil || len(events) != 0 {
				t.Errorf("events %v, %v", events, err)
			}
			c.New = nil
			must(t, r.Add(t.Context(), asked("a-1")))
			wantConflict(t, "the claim of one that waits", r.Claim(t.Context(), c))
			if a := allocation(t, r, "a-1"); a.State != placement.Waiting || len(a.Holds) != 0 {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// TestClaimParts: two parts of one card can be held at once; the whole card, and a card with a like address, are another matter.
func TestClaimParts(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	proposals := ruled([]placement.Proposal{
		{ID: "p1", Units: []placement.Unit{{Key: "0000:01:00.0/MIG-1", UUID: "MIG-1"}}},
		{ID: "p2", Units: []placement.Unit{{Key: "0000:01:00.0/MIG-2", UUID: "MIG-2"}}},
		{ID: "far", Units: []placement.Unit{{Key: "0000:01:00.01", UUID: ""}}},
		{ID: "unnamed", Units: []placement.Unit{{Key: "0000:02:00.0", UUID: ""}}},
	})
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-1", "d1"), proposals))
	for _, id := range []string{"p1", "p2", "far", "unnamed"} {
		must(t, r.Claim(t.Context(), claim("a-"+id, id)))
	}
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-2", "d1"), ruled(singles("n-1", 1))))
	wantConflict(t, "the whole card", r.Claim(t.Context(), claim("a", "n-1-g0")))
	for i, id := range []string{"p1", "p2"} {
		must(t, r.Release(t.Context(), placement.Release{ID: "a-" + id, At: start}))
		must(t, r.Clean(t.Context(), "a-"+id, "n-1", []string{proposals[i].Units[0].Key}, start))
	}
	must(t, r.Claim(t.Context(), claim("a", "n-1-g0")))
	must(t, r.PutEvidence(t.Context(), evidence("n-1", "t-3", "d1"), proposals))
	wantConflict(t, "a part of a card that is held", r.Claim(t.Context(), claim("b", "p1")))
}

// TestRace: of 200 claims of the last slot one wins.
func TestRace(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "n-1")
	ready(t, r, "n-1", 1)
	errs := make([]error, 200)
	var racers sync.WaitGroup
	for i := range errs {
		racers.Go(func() { errs[i] = r.Claim(t.Context(), claim(fmt.Sprint("a-", i), "n-1-g0")) })
	}
	racers.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			wantSame(t, "the winner", live(t, r), map[string]string{"n-1/" + key(0): fmt.Sprintf("a-%d held", i)})
		} else if !errors.Is(err, store.ErrConflict) {
			t.Error(err)
		}
	}
	all, _, total, err := r.Allocations(t.Context(), placement.AllocationQuery{All: true})
	if won != 1 || err != nil || total != 1 || len(all) != 1 {
		t.Errorf("%d have won, %d allocations are on record, %v", won, total, err)
	}
}

// BenchmarkClaim claims single slots of 10,000, for 20 tenants with quotas, from many callers at once. When all are taken it frees them
// outside of the measured time.
func BenchmarkClaim(b *testing.B) {
	const nodes, gpus, tenants = 1250, 8, 20
	r, s := open(b)
	for i := range nodes {
		node := fmt.Sprintf("n-%04d", i)
		addNodes(b, s, node)
		must(b, r.PutEvidence(b.Context(), evidence(node, "check-"+node, "d1"), ruled(singles(node, gpus))))
	}
	share := int64(nodes * gpus / tenants)
	for i := range tenants {
		must(b, r.SetQuota(b.Context(), fmt.Sprint("t-", i), &share, start, ""))
	}
	var mu sync.Mutex
	next := 0
	turn := func() int {
		mu.Lock()
		defer mu.Unlock()
		if next > 0 && next%(nodes*gpus) == 0 {
			b.StopTimer()
			run(b, s, "UPDATE holds SET freed_at = 1 WHERE freed_at IS NULL")
			b.StartTimer()
		}
		next++
		return next - 1
	}
	b.SetParallelism(16) // times GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := turn()
			slot := fmt.Sprintf("n-%04d-g%d", i%nodes, i/nodes%gpus)
			c := claim(fmt.Sprint("a-", i), slot)
			c.New.Tenant = fmt.Sprint("t-", i%tenants)
			if err := r.Claim(b.Context(), c, store.Event{At: start, Kind: "allocation.claimed"}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}
