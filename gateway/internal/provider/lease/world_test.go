package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
	"muster/store/storetest"
)

// company is one whose machines are in memory.
type company struct {
	mu       sync.Mutex
	machines map[string]*cloud.Instance
	calls    []string
	fail     map[string]error // by call
	deaf     bool             // it says that it destroys, and does not
}

func (c *company) call(name, id string) error {
	c.calls = append(c.calls, name+" "+id)
	return c.fail[name]
}

func (c *company) List(_ context.Context, take func([]cloud.Instance)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("list", ""); err != nil {
		return err
	}
	var all []cloud.Instance
	for _, i := range c.machines {
		all = append(all, *i)
	}
	take(all)
	return nil
}

func (c *company) Get(_ context.Context, id string) (cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("get", id); err != nil {
		return cloud.Instance{}, err
	}
	if i := c.machines[id]; i != nil {
		return *i, nil
	}
	return cloud.Instance{}, &cloud.Error{Kind: cloud.NoSuch, Status: 404, Text: "no such instance"}
}

func (c *company) Start(context.Context, string) error { return errors.New("nobody starts here") }

func (c *company) Stop(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("stop", id); err != nil {
		return err
	}
	if i := c.machines[id]; i != nil && !c.deaf {
		i.State = cloud.Stopped
	}
	return nil
}

func (c *company) Destroy(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("destroy", id); err != nil {
		return err
	}
	if !c.deaf {
		delete(c.machines, id)
	}
	return nil
}

func (c *company) Offers(context.Context, cloud.Want) ([]cloud.Offer, error) { return nil, nil }

func (c *company) Create(context.Context, cloud.Order) (string, error) {
	return "", errors.New("nothing is rented here")
}

func (c *company) Rejoin(context.Context, string, string) error { return nil }

// set changes the company.
func (c *company) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// asked is how often the company was asked to do something with a machine.
func (c *company) asked(call string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if one == call {
			n++
		}
	}
	return n
}

// world is a service on a database of its own, with a company, nodes and clocks that the test sets.
type world struct {
	*Service
	t       testing.TB
	store   *store.Store
	market  *market.Service
	company *company
	config  Config

	mu    sync.Mutex
	now   time.Time
	up    time.Duration
	nodes map[string]*api.NodeRow
	busy  map[string][]string
	fail  map[string]error // of what is done with nodes
	done  []string
}

func newWorld(t testing.TB, kind string) *world {
	t.Helper()
	w := &world{t: t, now: start, nodes: map[string]*api.NodeRow{}, busy: map[string][]string{}, fail: map[string]error{}}
	w.company = &company{machines: map[string]*cloud.Instance{}, fail: map[string]error{}}
	w.store = storetest.Open(t, w.clock)
	records := rentals.New(w.store.Records())
	var err error
	w.market, err = market.Open(t.Context(), market.Config{Store: w.store, Records: records, Now: w.clock,
		Dial: func(string, market.Dial) (market.Cloud, error) { return w.company, nil }})
	w.must(err)
	_, err = w.market.Add(t.Context(), providers.Request{Kind: kind, Name: "acme", Tenant: "platform", Key: "secret"},
		store.Actor{Name: "operator"})
	w.must(err)
	w.config = Config{World: World{Records: records, Ready: func() bool { return true }, Market: w.market, Node: w.row, NodeOf: w.nodeFor,
		Now: w.clock, Elapsed: w.elapsed}, Nodes: w.all, Busy: w.works, Drain: w.act("drain", wire.StateDrained),
		Resume: w.act("resume", wire.StateActive), Retire: w.act("retire", wire.StateRetired)}
	w.restart()
	return w
}

func (w *world) restart() { w.Service = Open(w.config) }

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

// pass lets time pass, with a list of the company and a round each half minute, or each minute where it is long.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	each := 30 * time.Second
	if d >= 10*time.Minute {
		each = time.Minute
	}
	for ; d > 0; d -= each {
		w.mu.Lock()
		w.now, w.up = w.now.Add(each), w.up+each
		w.mu.Unlock()
		w.look()
	}
}

func (w *world) look() {
	_ = w.market.Sync(w.t.Context(), "acme") // where it fails, the last list stays
	w.Round(w.t.Context())
}

func (w *world) all() (rows []*api.NodeRow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.State != wire.StateRetired {
			rows = append(rows, n)
		}
	}
	return rows
}

func (w *world) row(id string) (*api.NodeRow, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, known := w.nodes[id]
	return n, known
}

func (w *world) nodeFor(kind, instance string) (*api.NodeRow, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.Provider == kind && n.InstanceID == instance {
			return n, true
		}
	}
	return nil, false
}

func (w *world) works(id string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy[id]
}

// act moves a node to a state.
func (w *world) act(what, state string) func(context.Context, string) error {
	return func(_ context.Context, id string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, what+" "+id)
		if err := w.fail[what]; err != nil {
			return err
		}
		next := *w.nodes[id]
		next.State = state
		w.nodes[id] = &next
		return nil
	}
}

// add makes a machine that runs, with a node that is online.
func (w *world) add(id string) {
	w.company.set(func() { w.company.machines[id] = &cloud.Instance{ID: id, State: cloud.Running, Raw: "running"} })
	w.nodes["n-"+id] = &api.NodeRow{ID: "n-" + id, Name: "node-" + id, Tenant: "platform", Provider: cloud.Vast, InstanceID: id,
		State: wire.StateActive, Status: wire.StatusOnline, Fresh: true}
	w.look()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var ada = store.Actor{Name: "account:ada"}

// set changes the lease of a machine, which must work.
func (w *world) put(q providers.LeaseRequest) providers.Lease {
	w.t.Helper()
	l, err := w.SetLease(w.t.Context(), "platform", q, ada, maySpend)
	w.must(err)
	return l
}

// lease is the lease of a machine on record.
func (w *world) lease(id string) rentals.Lease {
	w.t.Helper()
	l, err := w.Records.Lease(store.Fresh(w.t.Context()), "acme", id)
	w.must(err)
	return l
}

func (w *world) wantState(what, id, want string) {
	w.t.Helper()
	if l := w.lease(id); l.State != want {
		w.t.Errorf("%s: the lease is %s (%s), want %s", what, l.State, l.Why, want)
	}
}

func (w *world) refused(what, code string, err error) {
	w.t.Helper()
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Message == "" || refusal.Hint == "" {
		w.t.Errorf("%s: got %v, want %s with a hint", what, err, code)
	}
}

// did is true if this was done with a node.
func (w *world) did(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.done, what)
}

// events are the kinds of the events of leases, the oldest first.
func (w *world) events() string {
	w.t.Helper()
	all, err := w.store.Events(w.t.Context(), store.EventQuery{Limit: 1000, Ascending: true})
	w.must(err)
	var kinds []string
	for _, e := range all {
		if strings.HasPrefix(e.Kind, "lease.") {
			kinds = append(kinds, strings.TrimPrefix(e.Kind, "lease."))
		}
	}
	return strings.Join(kinds, " ")
}

// maySpend is of who may spend money.
func maySpend() error { return nil }
