package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

const (
	randomNodes = 4
	randomGPUs  = 4
	randomMost  = 6 // GPUs that a tenant may have at once
	randomSteps = 60
	randomHands = 4 // that work at once in one step
)

// random is a world in which several people and machines do at once what comes to their minds.
type random struct {
	*world
	rng    *rand.Rand
	round  sync.Mutex     // held by what Run alone does
	alive  []string       // nodes that are not retired
	seeds  map[string]int // how often a node has come back as another machine
	count  sync.Mutex     // guards what follows
	asked  []string       // ids of allocations
	done   map[string]int // how often each thing was done, and how often it was not refused
	tenant []Caller
}

// TestRandom: whatever is done at once and in whatever order, memory says what the database says, no GPU is given twice, no tenant has more
// than its quota, and in the end each GPU of a node that is there can be free again.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newRandom(t, seed).live()
		})
	}
}

func newRandom(t *testing.T, seed uint64) *random {
	r := &random{world: newWorld(t), rng: rand.New(rand.NewPCG(seed, 26)), seeds: map[string]int{}, done: map[string]int{}}
	for i := range randomNodes {
		r.alive = append(r.alive, fmt.Sprint("n-", i))
		r.add(r.alive[i])
		r.show(r.alive[i], machine(r.alive[i], randomGPUs))
	}
	r.approve()
	for _, name := range []string{"ada", "bob"} {
		r.tenant = append(r.tenant, Caller{Account: name, Tenant: "platform", By: store.Actor{Name: name}, Write: name == "bob"})
	}
	_, err := r.SetQuota(t.Context(), operator, "platform", api.QuotaRequest{GPUs: new(randomMost)})
	r.must(err)
	return r
}

func (r *random) live() {
	for range randomSteps {
		var hands sync.WaitGroup
		for range randomHands {
			name, do := r.next()
			hands.Go(func() { r.harmless(name, do()) })
		}
		hands.Wait()
		if r.rng.IntN(10) == 0 {
			r.done["restart"]++
			r.restart()
		}
		r.check()
		if r.t.Failed() {
			r.t.Fatalf("after %v", r.done)
		}
	}
	r.end()
	for _, name := range []string{"allocate ok", "release ok", "evidence ok", "drain ok", "held"} {
		if r.done[name] == 0 {
			r.t.Errorf("it never came to %q: %v", name, r.done)
		}
	}
}

// next chooses what is done. What comes of it depends on who is faster.
func (r *random) next() (string, func() error) {
	ctx := r.t.Context()
	who := r.tenant[r.rng.IntN(len(r.tenant))]
	r.count.Lock()
	defer r.count.Unlock()
	id, node := wire.NewTaskID(), r.alive[r.rng.IntN(len(r.alive))]
	if len(r.asked) > 0 && r.rng.IntN(4) > 0 {
		id = r.asked[max(0, len(r.asked)-1-r.rng.IntN(8))] // those of long ago have ended
	}
	priority := 0
	if who.Write {
		priority = r.rng.IntN(3)
	}
	q := api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100", Count: 1 + r.rng.IntN(3), Spread: r.rng.IntN(2) == 0},
		Wait: r.rng.IntN(4) == 0, TTLSeconds: 60 + r.rng.IntN(7200), Priority: priority}
	dirty, gone := r.rng.IntN(3) == 0, time.Duration(r.rng.IntN(1800))*time.Second
	switch n := r.rng.IntN(100); {
	case n < 35:
		return "allocate", func() error { return r.allocate(who, q) }
	case n < 50:
		return "release", func() error { _, err := r.Release(ctx, operator, id); return err }
	case n < 55:
		return "extend", func() error { _, err := r.Extend(ctx, operator, id, api.ExtendRequest{Seconds: 600}); return err }
	case n < 70:
		return "clean", r.alone(func() { r.sweep(dirty) })
	case n < 80:
		return "round", r.alone(func() { r.Round(ctx) })
	case n < 86:
		return "evidence", r.alone(func() { r.look(node, dirty) })
	case n < 90:
		return "approve", func() error {
			_, err := r.Decide(ctx, operator, api.SlotDecision{Selector: "provider=vast_ai"})
			return err
		}
	case n < 94:
		return "drain", func() error { return r.turn(node) }
	case n < 95 && len(r.alive) > 2:
		r.alive = r.alive[1:]
		return "retire", func() error { return r.retire(fmt.Sprint("n-", randomNodes-len(r.alive)-1)) }
	}
	return "time", func() error { r.pass(gone); return nil }
}

func (r *random) allocate(who Caller, q api.NewAllocation) error {
	a, _, err := r.Allocate(r.t.Context(), who, q, anything)
	if err == nil {
		r.count.Lock()
		defer r.count.Unlock()
		r.asked = append(r.asked, a.ID)
	}
	return err
}

// alone does what Run does: one thing at a time.
func (r *random) alone(do func()) func() error {
	return func() error {
		r.round.Lock()
		defer r.round.Unlock()
		do()
		return nil
	}
}

// harmless has no errors but refusals, and what somebody else has done first.
func (r *random) harmless(name string, err error) {
	r.count.Lock()
	defer r.count.Unlock()
	r.done[name]++
	if err == nil {
		r.done[name+" ok"]++
	}
	var refusal *wire.ErrorDetail
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, store.ErrConflict) {
		r.t.Errorf("%s: %v", name, err)
	}
}

// sweep has nodes end what they were sent to clean.
func (r *random) sweep(dirty bool) {
	if dirty {
		r.cleaned(wire.Left{What: "a process stays", Next: "end it"})
		return
	}
	r.cleaned()
}

// look has a node show itself; as another machine where it has changed.
func (r *random) look(id string, changed bool) {
	if changed {
		r.seeds[id]++
	}
	e := machine(id, randomGPUs)
	for i := range e.Facts.Accelerators {
		if r.seeds[id] > 0 && i == 0 {
			e.Facts.Accelerators[i].UUID = fmt.Sprintf("GPU-%08x-0000-0000-0000-%s", r.seeds[id], id)
		}
	}
	r.show(id, e)
}

// turn drains a node, or has it work again.
func (r *random) turn(id string) error {
	row, _ := r.row(id)
	to := wire.StateDrained
	if row.State == wire.StateDrained {
		to = wire.StateActive
	}
	err := r.store.MoveNode(r.t.Context(), store.Move{NodeID: id, From: row.State, To: to, At: r.clock()})
	if err == nil {
		r.set(id, func(n *api.NodeRow) { n.State = to })
	}
	return err
}

func (r *random) retire(id string) error {
	row, _ := r.row(id)
	err := r.store.MoveNode(r.t.Context(), store.Move{NodeID: id, From: row.State, To: wire.StateRetired, At: r.clock()})
	if err == nil {
		r.set(id, func(n *api.NodeRow) { n.State = wire.StateRetired })
	}
	return err
}

// check looks at what must always be so.
func (r *random) check() {
	r.agrees()
	held, err := r.Records.Holds(store.Fresh(r.t.Context()), nil)
	r.must(err)
	units, gpus := map[string]string{}, map[string]string{}
	for _, h := range held {
		if other := units[h.NodeID+h.Key] + gpus[h.UUID]; other != "" {
			r.t.Errorf("%s of %s is held by %s and %s", h.Key, h.NodeID, h.Allocation, other)
		}
		units[h.NodeID+h.Key], gpus[h.UUID] = h.Allocation, h.Allocation
	}
	r.done["held"] += len(held)
	if len(held) > randomMost {
		r.t.Errorf("the tenant has %d GPUs", len(held))
	}
	for _, id := range r.asked {
		if a, err := r.Allocation(store.Fresh(r.t.Context()), "", id); err == nil && a.State == api.AllocationAllocated {
			r.whole(a)
		}
	}
}

// whole checks that an allocation has all that it asked for, on nodes that are there.
func (r *random) whole(a api.Allocation) {
	got := 0
	for _, s := range a.Slots {
		got += len(s.GPUs)
	}
	row, _ := r.row(a.Slots[0].NodeID)
	if got < a.Wish.Count && row.State != wire.StateRetired && !a.Wish.Spread {
		r.t.Errorf("%d of %d GPUs are there: %+v", got, a.Wish.Count, a)
	}
}

// end releases everything and has it cleaned. Nothing may stay held, and nobody may wait.
func (r *random) end() {
	ctx := context.WithoutCancel(r.t.Context())
	for _, id := range r.asked {
		_, err := r.Release(ctx, operator, id)
		r.harmless("release", err)
	}
	for range 10 {
		r.Round(ctx)
		r.cleaned()
		r.pass(time.Hour)
	}
	r.check()
	if held, err := r.Records.Holds(store.Fresh(ctx), nil); err != nil || len(held) > 0 {
		r.t.Errorf("in the end there are the holds %+v, %v", held, err)
	}
	if list, err := r.Allocations(ctx, "", api.AllocationFilter{}); err != nil || list.Total > 0 {
		r.t.Errorf("in the end there are %+v, %v", list, err)
	}
}
