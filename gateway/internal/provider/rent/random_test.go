package rent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/store"
	"muster/store/engine"
	rentals "muster/store/provider"
)

const (
	randomTicks = 160
	randomQuiet = 90 * time.Minute // after which all is as it must be
	foreignCost = 5 * cloud.Dollar
)

// mortal is a database at which the gateway stops now and then, before a query or a write or after it.
type mortal struct {
	store.Engine
	mu   sync.Mutex
	rng  *rand.Rand
	wild bool
}

func (m *mortal) die() {
	m.mu.Lock()
	dies := m.wild && m.rng.IntN(150) == 0
	m.mu.Unlock()
	if dies {
		runtime.Goexit()
	}
}

func (m *mortal) Query(ctx context.Context, st engine.Statement) ([][]any, error) {
	m.die()
	return m.Engine.Query(ctx, st)
}

func (m *mortal) Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	m.die()
	results, err := m.Engine.Batch(ctx, statements)
	m.die()
	return results, err
}

// random is a world in which everything goes wrong that can.
type random struct {
	*world
	rng      *rand.Rand
	mortal   *mortal
	limit    cloud.Money
	requests []string
	foreign  map[string]bool // ids of machines that are not ours
	done     map[string]int
}

// TestRandom: whatever goes wrong and wherever the gateway stops, no order is made while another one for the same place may have come to
// something, no limit is passed by a millionth, nothing is touched that is not ours, and in the end all that is charged is on record with
// an end, and is gone after it.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newRandom(t, seed).live()
		})
	}
}

func newRandom(t *testing.T, seed uint64) *random {
	r := &random{world: newWorld(t, cloud.Vast), rng: rand.New(rand.NewPCG(seed, 27)), foreign: map[string]bool{}, done: map[string]int{}}
	r.mortal = &mortal{Engine: r.store.Records().Engine, rng: rand.New(rand.NewPCG(seed, 28))}
	mortals := rentals.New(store.Records{Engine: r.mortal})
	r.leases.Records = mortals
	r.company.rng = rand.New(rand.NewPCG(seed, 29))
	r.company.lag = 7 * time.Minute
	r.company.onCreate = r.checkOrder
	r.boot = 4 * time.Minute
	r.bad["host-1"], r.bad["host-3"], r.bad["host-4"] = "never", "fails", "fails"
	for range 2 {
		r.addForeign("muster-" + wire.NewTaskID()) // another gateway has the same account
		r.addForeign("")
	}
	r.must(r.market.Sync(t.Context(), "acme"))
	r.step(r.company.lag)
	r.must(r.market.Sync(t.Context(), "acme"))
	r.limit = 4*foreignCost + 6*cloud.Dollar + 20 // six machines, and some millionths
	r.must(r.records.SetLimit(t.Context(), "acme", new(int64(r.limit)), start, "ada"))
	r.restart()
	return r
}

func (r *random) addForeign(name string) {
	r.company.set(func() {
		r.foreign[r.company.add(cloud.Order{Name: name, Offer: cloud.Offer{Price: foreignCost}})] = true
	})
}

// checkOrder is called before an order comes to something.
func (r *random) checkOrder(o cloud.Order) {
	ctx := context.Background()
	rental := func(name string) *rentals.Rental {
		id, ours := strings.CutPrefix(name, rentals.NamePrefix)
		found, err := r.records.Rentals(ctx, rentals.RentalQuery{ID: id})
		if !ours || err != nil || len(found) != 1 {
			return nil
		}
		return &found[0]
	}
	own := rental(o.Name)
	if own == nil || own.State != providers.RentalIntended || own.AskedAt == nil {
		r.t.Errorf("the company is asked for %s, and the record is %+v", o.Name, own)
		return
	}
	sum := o.Offer.Price
	for _, m := range r.company.there() {
		if m.twin {
			continue // nobody could know of it
		}
		if m.State != cloud.Stopped {
			sum += *m.Price
		}
		other := rental(m.Name)
		if other == nil || other.Request != own.Request || other.Number != own.Number {
			continue
		}
		l, err := r.records.Lease(ctx, "acme", m.ID)
		taken := other.State == providers.RentalFailed && l.Rental == "" // by a person who has extended its lease
		if err != nil || l.State == providers.LeaseLive && !taken {
			r.t.Errorf("%s is ordered while %s of the same place is there, with the lease %+v, %v", o.Name, m.Name, l, err)
		}
	}
	if sum > r.limit {
		r.t.Errorf("with %s all costs %d, and the limit is %d", o.Name, sum, r.limit)
	}
}

func (r *random) live() {
	r.wild(true)
	for range randomTicks {
		var hand sync.WaitGroup
		hand.Go(r.act)
		hand.Wait()
		r.pass(tick)
		if r.rng.IntN(6) == 0 {
			r.done["restart"]++
			r.restart()
		}
		r.checkForeign()
		if r.t.Failed() {
			r.t.Fatalf("after %v", r.done)
		}
	}
	r.wild(false)
	r.restart()
	r.pass(randomQuiet)
	r.checkKept()
	for _, m := range r.company.there() {
		if !r.foreign[m.ID] {
			_, err := r.config.Leases.End(r.t.Context(), lease.Ending{Account: "acme", Instance: m.ID, Act: providers.ActDestroy})
			r.must(err)
		}
	}
	r.pass(randomQuiet / 3)
	for _, m := range r.company.there() {
		if !r.foreign[m.ID] {
			r.t.Errorf("%s (%s) is left", m.ID, m.Name)
		}
	}
	r.checkForeign()
	if r.done["rent"] < 2 || r.done["ready"] == 0 || r.company.orderCount() < 5 {
		r.t.Errorf("it never came to much: %v, and %d orders", r.done, r.company.orderCount())
	}
}

func (r *random) wild(on bool) {
	r.company.set(func() { r.company.wild = on })
	r.mortal.mu.Lock()
	defer r.mortal.mu.Unlock()
	r.mortal.wild = on
}

// act does what a person may do.
func (r *random) act() {
	ctx := r.t.Context()
	switch n := r.rng.IntN(100); {
	case n < 12:
		q := want(1 + r.rng.IntN(3))
		q.ID = wire.NewTaskID()
		r.requests = append(r.requests, q.ID)
		for range 1 + r.rng.IntN(2) { // it may be asked twice
			if _, _, err := r.Rent(ctx, q, ada); err == nil {
				r.done["rent"]++
			}
		}
	case n < 16:
		all := r.company.there()
		m := all[r.rng.IntN(len(all))]
		if !r.foreign[m.ID] {
			_, _ = r.config.Leases.End(ctx, lease.Ending{Account: "acme", Instance: m.ID, Hurry: r.rng.IntN(2) == 0, Act: providers.ActDestroy})
			r.done["end"]++
		}
	case n < 20:
		all := r.company.there()
		m := all[r.rng.IntN(len(all))]
		if _, err := r.config.Leases.SetLease(ctx, "", providers.LeaseRequest{Provider: "acme", Instance: m.ID, AddSeconds: 600},
			ada, maySpend); err == nil {
			r.done["extend"]++
		}
	case n < 22 && len(r.requests) > 0:
		if _, err := r.GiveUp(ctx, "", r.requests[r.rng.IntN(len(r.requests))], ada); err == nil {
			r.done["give up"]++
		}
	case n < 26:
		by := time.Duration(r.rng.IntN(600)-300) * time.Second
		r.step(by)
		r.step(-by)
		r.done["clock"]++
	}
}

// checkForeign checks that nothing was touched that is not ours.
func (r *random) checkForeign() {
	r.company.mu.Lock()
	defer r.company.mu.Unlock()
	for _, id := range r.company.ended {
		if r.foreign[id] {
			r.t.Errorf("the foreign machine %s was touched", id)
		}
	}
}

// checkKept checks that each machine that is there is one that somebody has, with an end, and that each request has what it says.
func (r *random) checkKept() {
	r.t.Helper()
	ctx := r.t.Context()
	there := map[string]int{} // machines, by request
	for _, m := range r.company.there() {
		if r.foreign[m.ID] {
			continue
		}
		found, err := r.records.Rentals(ctx, rentals.RentalQuery{Account: "acme", Instance: m.ID})
		r.must(err)
		l, err := r.records.Lease(ctx, "acme", m.ID)
		if len(found) != 1 || found[0].State != providers.RentalReady || err != nil || l.State != providers.LeaseLive ||
			m.Name != nameOf(found[0]) {
			r.t.Errorf("%s (%s) is there, with the rentals %+v and the lease %+v, %v", m.ID, m.Name, found, l, err)
			continue
		}
		there[found[0].Request]++
	}
	for _, id := range r.requests {
		found, err := r.records.Requests(ctx, rentals.RequestQuery{ID: id})
		r.must(err)
		if len(found) == 0 {
			continue // the gateway stopped before it was on record
		}
		shown := r.show(id)
		if shown.State == providers.RentedRenting || shown.Ready != there[id] || there[id] > shown.Count {
			r.t.Errorf("the request %+v has %d machines", shown, there[id])
		}
		r.done["ready"] += shown.Ready
	}
}
