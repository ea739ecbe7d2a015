package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// fake is a company of functions.
type fake struct {
	market.Cloud // what is not asked
	all          []cloud.Instance
	fails        error
}

func (f *fake) List(_ context.Context, take func([]cloud.Instance)) error {
	for page := range slices.Chunk(f.all, 25) {
		take(page)
	}
	return f.fails
}

func (f *fake) Get(context.Context, string) (cloud.Instance, error) {
	return cloud.Instance{}, &cloud.Error{Kind: cloud.NoSuch}
}

func to[T any](v T) *T { return &v }

var operator = store.Actor{Name: "operator:socket"}

// house is a Service on a store of its own, with an account "vast" and a clock that the test sets.
type house struct {
	down map[string]float64
	*provider.Service
	t       testing.TB
	store   *store.Store
	records rentals.Records
	cloud   *fake
	now     time.Time
	ready   bool
	nodes   []*api.NodeRow
	costs   map[string]map[string]*api.NodeCost // what nodes cost by themselves, by day and node
	log     bytes.Buffer
}

func newHouse(t testing.TB, nodes ...*api.NodeRow) *house {
	t.Helper()
	h := &house{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), ready: true, nodes: nodes,
		cloud: &fake{}, costs: map[string]map[string]*api.NodeCost{}}
	h.store = kit.Store(t, func() time.Time { return h.now })
	h.records = rentals.New(h.store.Records())
	for _, n := range nodes {
		h.must(h.store.CreateNode(t.Context(), store.Node{ID: n.ID, Name: n.Name, Tenant: n.Tenant, CreatedAt: n.CreatedAt}, nil))
	}
	h.open()
	_, err := h.AddProvider(t.Context(), providers.Request{Kind: cloud.Vast, Name: "vast", Tenant: "lab", Key: "k-secret"}, operator)
	h.must(err)
	return h
}

func (h *house) open() {
	h.t.Helper()
	var err error
	h.Service, err = provider.Open(h.t.Context(), provider.Config{
		Config: market.Config{Store: h.store, Records: h.records, Now: func() time.Time { return h.now },
			Dial:   func(string, market.Dial) (market.Cloud, error) { return h.cloud, nil },
			Logger: slog.New(slog.NewTextHandler(&h.log, nil))},
		Down:  func(costs map[string]float64) { h.down = costs },
		Ready: func() bool { return h.ready }, Nodes: func() []*api.NodeRow { return h.nodes },
		NodeCosts: func(_ context.Context, from, to time.Time, nodes func(string) bool) (map[string]*api.NodeCost, error) {
			if !from.Equal(to) {
				return nil, errors.New("more than a day")
			}
			all := map[string]*api.NodeCost{}
			for id, c := range h.costs[from.Format(time.DateOnly)] {
				if nodes(id) {
					all[id] = c
				}
			}
			return all, nil
		},
	})
	h.must(err)
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// shows has the company show instances from now on.
func (h *house) shows(all ...cloud.Instance) { h.cloud.all = all }

// pass lets time pass, and has the account and the fleet looked at once.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	h.now = h.now.Add(d)
	if _, err := h.SyncProvider(h.t.Context(), "vast"); err != nil {
		h.Round(h.t.Context())
	}
}

// plan says what is found: kinds and subjects, the worst first.
func (h *house) plan() string {
	h.t.Helper()
	p, err := h.Plan(h.t.Context(), "")
	h.must(err)
	var words []string
	for _, f := range p.Findings {
		words = append(words, strings.TrimSuffix(f.Kind+" "+f.Instance, " "))
	}
	return strings.Join(words, ", ")
}

// events are those of a kind, as "finding instance", the oldest first.
func (h *house) events(kind string) string {
	h.t.Helper()
	all, err := h.store.Events(h.t.Context(), store.EventQuery{Kind: kind, Ascending: true, Limit: 1000})
	h.must(err)
	var words []string
	for _, e := range all {
		words = append(words, strings.TrimSpace(e.Detail["finding"]+" "+e.Detail["instance"]))
	}
	return strings.Join(words, ", ")
}

// machine is one that runs for some dollars an hour.
func machine(id string, dollars float64, change ...func(*cloud.Instance)) cloud.Instance {
	i := cloud.Instance{ID: id, State: cloud.Running, Raw: "running", GPUs: 2, Price: to(cloud.Money(dollars * float64(cloud.Dollar)))}
	for _, c := range change {
		c(&i)
	}
	return i
}

// stopped costs its disk.
func stopped(i *cloud.Instance) { i.State, i.Price = cloud.Stopped, to(cloud.Dollar/10) }

// node is one that is heard, and is an instance.
func node(id, instance string) *api.NodeRow {
	long := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	return &api.NodeRow{ID: id, Name: id, Tenant: "lab", Provider: cloud.Vast, InstanceID: instance, State: wire.StateActive,
		Status: wire.StatusOnline, LastSeen: &long, CreatedAt: long, StateSince: long, Labels: map[string]string{}}
}

// prices are those that nodes were given, one after the other, by node.
func (h *house) prices() map[string]string {
	h.t.Helper()
	all, err := h.store.Events(h.t.Context(), store.EventQuery{Kind: "node.labelled", Ascending: true})
	h.must(err)
	prices := map[string]string{}
	for _, e := range all {
		prices[e.NodeName] += e.Detail["set.price_per_hour"] + " "
	}
	return prices
}

// replace changes a node: rows are never changed.
func (h *house) replace(id string, change func(*api.NodeRow)) {
	for i, n := range h.nodes {
		if n.ID == id {
			row := *n
			change(&row)
			h.nodes[i] = &row
		}
	}
}

// working has so many GPUs, which are seen now, and of which the first are idle.
func working(gpus, idle int) func(*api.NodeRow) {
	return func(n *api.NodeRow) {
		n.Fresh, n.GPUs = true, make([]api.GPU, gpus)
		for i := range n.GPUs {
			if n.GPUs[i].Use = api.UseBusy; i < idle {
				n.GPUs[i].Use, n.GPUs[i].IdleSince = api.UseIdle, &n.CreatedAt
			}
		}
	}
}

// mute makes that nobody knows whether the first GPUs of a node work.
func mute(gpus int) func(*api.NodeRow) {
	return func(n *api.NodeRow) {
		n.GPUs = slices.Clone(n.GPUs)
		for i := range gpus {
			n.GPUs[i].Use, n.GPUs[i].IdleSince = "", nil
		}
	}
}

func expects(gpus int) func(*api.NodeRow) { return func(n *api.NodeRow) { n.GPUsExpected = &gpus } }

func silent(n *api.NodeRow) { n.Status = wire.StatusStale }
func heard(n *api.NodeRow)  { n.Status = wire.StatusOnline }

func code(err error) string {
	var d *wire.ErrorDetail
	if errors.As(err, &d) {
		return d.Code
	}
	return fmt.Sprint(err)
}
