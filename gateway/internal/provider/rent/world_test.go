package rent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/lease"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const tick = 30 * time.Second

// world is both services on a database of its own, with a company whose machines become nodes, and clocks that the test sets.
type world struct {
	*Service
	t        testing.TB
	store    *store.Store
	records  rentals.Records   // without what goes wrong in those of the services
	accounts *provider.Service // adds up what is charged
	market   *market.Service
	company  *company
	leases   lease.Config
	config   Config

	mu      sync.Mutex
	now     time.Time
	up      time.Duration
	boot    time.Duration // of a machine
	nodes   map[string]*api.NodeRow
	bad     map[string]string // what is wrong with a host: "never" or "fails"
	minted  map[string]api.TokenRequest
	revoked map[string]bool
	fail    map[string]error // of what the gateway does
	over    map[string]bool  // allocations
	ends    map[string]time.Time
	busy    []string // what works on every node
}

func newWorld(t testing.TB, kind string) *world { return newWorldOf(t, kind, nil) }

// newWorldOf is newWorld with another company; nil: the usual one.
func newWorldOf(t testing.TB, kind string, other func(w *world) market.Cloud) *world {
	t.Helper()
	w := &world{t: t, now: start, boot: 2 * time.Minute, nodes: map[string]*api.NodeRow{}, bad: map[string]string{},
		minted: map[string]api.TokenRequest{}, revoked: map[string]bool{}, fail: map[string]error{}, over: map[string]bool{},
		ends: map[string]time.Time{}}
	w.company = &company{now: w.clock, machines: map[string]*machine{}, fails: map[string]error{}, onCreate: func(cloud.Order) {}}
	for i := range 12 {
		w.company.offers = append(w.company.offers, cloud.Offer{ID: fmt.Sprint("offer-", i), Host: fmt.Sprint("host-", i), GPU: "H100", GPUs: 1,
			Price: cloud.Dollar + cloud.Money(i), Region: "NO"})
	}
	asked := market.Cloud(w.company)
	if other != nil {
		asked = other(w)
	}
	w.store = storetest.Open(t, w.clock)
	w.records = rentals.New(w.store.Records())
	var err error
	always := func() bool { return true }
	w.accounts, err = provider.Open(t.Context(), provider.Config{Config: market.Config{Store: w.store, Records: w.records, Now: w.clock,
		Dial: func(string, market.Dial) (market.Cloud, error) { return asked, nil }},
		Ready: always, Nodes: func() []*api.NodeRow { return nil }})
	w.must(err)
	w.market = w.accounts.Market()
	_, err = w.market.Add(t.Context(), providers.Request{Kind: kind, Name: "acme", Tenant: "platform", Key: "secret", SSHKey: "key"},
		store.Actor{Name: "operator"})
	w.must(err)
	w.must(w.market.Sync(t.Context(), "acme"))
	move := func(state string) func(context.Context, string) error {
		return func(_ context.Context, id string) error { w.move(id, state); return nil }
	}
	w.leases = lease.Config{World: lease.World{Records: w.records, Ready: always, Market: w.market, Node: w.node, NodeOf: w.nodeFor,
		Now: w.clock, Elapsed: w.elapsed}, Nodes: func() []*api.NodeRow { return nil }, Busy: w.works,
		Drain: move(wire.StateDrained), Resume: move(wire.StateActive), Retire: move(wire.StateRetired)}
	w.config = Config{Named: w.named, Mint: w.mint, Revoke: w.revoke, Accept: w.prove, Accepted: w.proved, Allocation: w.allocation}
	w.restart()
	return w
}

// restart opens both services again, as a gateway that starts anew does.
func (w *world) restart() {
	w.config.Leases = lease.Open(w.leases)
	w.Service = Open(w.config)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

// step sets the clock.
func (w *world) step(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// pass lets time pass, with a list of the company and a round of each service at each tick.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	each := tick
	switch {
	case d >= 2*time.Hour: // nothing is to happen
		each = 10 * tick
	case d >= 20*time.Minute:
		each = 2 * tick
	}
	for ; d > 0; d -= each {
		w.mu.Lock()
		w.now, w.up = w.now.Add(each), w.up+each
		w.mu.Unlock()
		w.look()
	}
}

// look does each part in a goroutine of its own, since a fault may stop it at any place.
func (w *world) look() {
	for _, part := range []func(){
		func() { _ = w.market.Sync(w.t.Context(), "acme"); w.accounts.Round(w.t.Context()) },
		w.join,
		func() { w.config.Leases.Round(w.t.Context()) },
		func() { w.Round(w.t.Context()) },
	} {
		var one sync.WaitGroup
		one.Go(part)
		one.Wait()
	}
}

// join has machines that were booted become nodes, if their token is not void.
func (w *world) join() {
	for _, m := range w.company.there() {
		w.mu.Lock()
		id := "n-" + m.ID
		fine := m.State == cloud.Running && w.now.Sub(m.madeAt) >= w.boot && w.bad[m.Host] != "never" && w.nodes[id] == nil
		for token, q := range w.minted {
			if fine && strings.Contains(m.order.Script, token+"_secret") && !w.revoked[token] {
				w.nodes[id] = &api.NodeRow{ID: id, Name: q.Name, Tenant: q.Tenant, Provider: cloud.Vast, InstanceID: m.ID, Labels: q.Labels,
					State: wire.StateActive, Status: wire.StatusOnline, Fresh: true}
			}
		}
		w.mu.Unlock()
	}
}

func (w *world) move(id, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := *w.nodes[id]
	next.State = state
	w.nodes[id] = &next
}

func (w *world) works(string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}

func (w *world) node(id string) (*api.NodeRow, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, known := w.nodes[id]
	return n, known
}

func (w *world) named(name string) (*api.NodeRow, bool) {
	return w.find(func(n *api.NodeRow) bool { return n.Name == name && n.State != wire.StateRetired })
}

func (w *world) nodeFor(kind, instance string) (*api.NodeRow, bool) {
	return w.find(func(n *api.NodeRow) bool { return n.Provider == kind && n.InstanceID == instance })
}

func (w *world) find(is func(*api.NodeRow) bool) (*api.NodeRow, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		if n := w.nodes[id]; is(n) {
			return n, true
		}
	}
	return nil, false
}

func (w *world) mint(_ context.Context, q api.TokenRequest, _ store.Actor) (api.NewToken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.fail["mint"]; err != nil {
		return api.NewToken{}, err
	}
	id := fmt.Sprintf("mse_%d", len(w.minted)+1)
	w.minted[id] = q
	return api.NewToken{ID: id, Command: "MUSTER_TOKEN=" + id + "_secret sh -c 'curl https://gw/install.sh' --"}, nil
}

func (w *world) revoke(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revoked[id] = w.fail["revoke"] == nil || w.revoked[id]
	return w.fail["revoke"]
}

func (w *world) prove(context.Context, string, string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail["accept"]
}

func (w *world) proved(_ context.Context, id, _ string) (ok, done bool, why string) {
	for _, m := range w.company.there() {
		if "n-"+m.ID == id {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.bad[m.Host] != "fails", true, "a GPU is slow"
		}
	}
	return false, false, ""
}

func (w *world) allocation(_ context.Context, id string) (ends *time.Time, over bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.ends[id]; known {
		ends = &at
	}
	return ends, w.over[id], w.fail["allocation"]
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var ada = store.Actor{Name: "account:ada"}

// want is a request for so many machines.
func want(count int) providers.Renting {
	return providers.Renting{Provider: "acme", GPU: "H100", Count: count, MaxPrice: new(2.5), TTLSeconds: 8 * 3600,
		Labels: map[string]string{"batch": "x"}}
}

// rent rents what must be there.
func (w *world) rent(q providers.Renting) providers.Rented {
	w.t.Helper()
	r, _, err := w.Rent(w.t.Context(), q, ada)
	w.must(err)
	return r
}

// show is a request as it is now.
func (w *world) show(id string) providers.Rented {
	w.t.Helper()
	r, err := w.Rented(w.t.Context(), "platform", id)
	w.must(err)
	return r
}

// wantState checks the state of a request and how many machines the company has.
func (w *world) wantState(what, id, state string, there int) providers.Rented {
	w.t.Helper()
	r := w.show(id)
	if got := len(w.company.there()); r.State != state || got != there {
		w.t.Errorf("%s: the request is %s with %d machines (%s), want %s with %d", what, r.State, got, r.Why, state, there)
	}
	return r
}

func (w *world) refused(what, code string, err error) *wire.ErrorDetail {
	w.t.Helper()
	refusal := &wire.ErrorDetail{}
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Message == "" || refusal.Hint == "" {
		w.t.Errorf("%s: got %v, want %s with a hint", what, err, code)
	}
	return refusal
}

// events counts events of a kind.
func (w *world) events(kind string) int {
	w.t.Helper()
	all, err := w.store.Events(w.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	w.must(err)
	return len(all)
}

// maySpend is of who may spend money.
func maySpend() error { return nil }
