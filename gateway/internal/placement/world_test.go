package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory"
	"muster/store"
	records "muster/store/placement"
	"muster/store/storetest"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// world is a service on a database of its own, with nodes that the test sets, a clock that it moves, and tasks that it ends.
type world struct {
	*Service
	t      testing.TB
	store  *store.Store
	config Config

	mu     sync.Mutex
	now    time.Time
	rows   map[string]*api.NodeRow
	orders []inventory.Order
	refuse map[string]error // by type of task
	used   []string         // GPUs that processes use without an allocation
}

func newWorld(t testing.TB, nodes ...string) *world {
	t.Helper()
	w := &world{t: t, now: start, rows: map[string]*api.NodeRow{}, refuse: map[string]error{}}
	w.store = storetest.Open(t, w.clock)
	w.config = Config{Config: inventory.Config{Store: w.store, Records: records.New(w.store.Records()), Ready: func() bool { return true },
		Node:  w.row,
		Nodes: w.all, Placed: w.placed, Send: w.send, Cancel: w.cancel, Taken: w.taken, Now: w.clock}, TTL: 24 * time.Hour,
		Longest: 30 * 24 * time.Hour}
	for _, id := range nodes {
		w.add(id)
	}
	w.restart()
	return w
}

// restart opens another service on the same database, as a gateway that starts again does.
func (w *world) restart() {
	w.t.Helper()
	s, err := Open(w.t.Context(), w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Service = s
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
}

func (w *world) row(id string) (*api.NodeRow, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	row, known := w.rows[id]
	return row, known
}

func (w *world) all() []*api.NodeRow {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := slices.SortedFunc(maps.Values(w.rows), func(a, b *api.NodeRow) int { return len(a.Name) - len(b.Name) })
	return slices.DeleteFunc(rows, func(r *api.NodeRow) bool { return r.State == wire.StateRetired })
}

func (w *world) placed(id string, p *api.NodePlacement) {
	w.set(id, func(r *api.NodeRow) { r.Placement = p })
}

// set changes a node's row, which nobody may see half changed.
func (w *world) set(id string, change func(*api.NodeRow)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := *w.rows[id]
	change(&next)
	w.rows[id] = &next
}

func (w *world) send(_ context.Context, o inventory.Order) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuse[o.Type]; err != nil {
		return err
	}
	if !slices.ContainsFunc(w.orders, func(known inventory.Order) bool { return known.ID == o.ID }) {
		w.orders = append(w.orders, o)
	}
	return nil
}

func (w *world) cancel(ctx context.Context, task string, by store.Actor) error {
	return w.store.AskCancel(ctx, task, w.clock(), by)
}

func (w *world) taken(*api.NodeRow) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.used)
}

// sent are the orders of a type that are open, and closes them.
func (w *world) sent(kind string) (all []inventory.Order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = slices.DeleteFunc(w.orders, func(o inventory.Order) bool {
		if o.Type == kind {
			all = append(all, o)
		}
		return o.Type == kind
	})
	return all
}

// add makes a node that is active and online, with a rented provider.
func (w *world) add(id string) {
	w.t.Helper()
	n := store.Node{ID: id, Name: id, Tenant: "platform", Provider: "vast_ai", InstanceID: id, CreatedAt: start}
	w.must(w.store.CreateNode(w.t.Context(), n, nil))
	w.must(w.store.MoveNode(w.t.Context(), store.Move{NodeID: id, From: store.StateReady, To: wire.StateActive, At: start}))
	price := 16.0
	w.rows[id] = &api.NodeRow{ID: id, Name: id, Tenant: "platform", Provider: "vast_ai", State: wire.StateActive, Status: store.StatusOnline,
		PricePerHour: &price}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// refused checks that a call was refused with a code.
func (w *world) refused(what, code string, err error) {
	w.t.Helper()
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.Message == "" || refusal.Hint == "" {
		w.t.Errorf("%s: got %v, want %s with a hint", what, err, code)
	}
}

// machine is what a node with so many H100 shows.
func machine(id string, gpus int) wire.Evidence {
	e := wire.Evidence{BootID: "boot-1", At: start, Facts: wire.Facts{Contained: true, DriverVersion: "590.48.01",
		Accelerators: []wire.AcceleratorID{}}}
	for i := range gpus {
		memory := int64(81559)
		e.Facts.Accelerators = append(e.Facts.Accelerators, wire.AcceleratorID{UUID: uuid(id, i), Address: fmt.Sprintf("0000:%02x:00.0", i+1),
			Name: "NVIDIA H100 80GB HBM3", MemoryMiB: &memory})
	}
	for _, name := range wire.HostChecks() {
		e.Checks = append(e.Checks, wire.Check{Name: name, State: wire.CheckOK, Saw: "as it should be"})
	}
	return e
}

// uuid is that of a GPU of a node.
func uuid(id string, gpu int) string {
	sum := 0
	for _, c := range id {
		sum = sum*31 + int(c)
	}
	return fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", gpu, sum)
}

// show has a node end the check that it was sent with this evidence.
func (w *world) show(id string, e wire.Evidence) {
	w.t.Helper()
	value, err := json.Marshal(e)
	w.must(err)
	values, err := json.Marshal(wire.TaskValues{wire.ValueEvidence: value})
	w.must(err)
	at := w.clock()
	task := store.Task{ID: wire.NewTaskID(), NodeID: id, Type: wire.TaskNodeCheck, Status: store.TaskCompleted, FinishedAt: &at,
		CreatedBy: inventory.ByGateway,
		TaskEnd:   store.TaskEnd{Values: string(values)}}
	w.must(w.TakeEvidence(w.t.Context(), task))
	w.Tell()
}

// up has nodes of so many GPUs, all of whose slots are approved.
func up(t testing.TB, gpus int, nodes ...string) *world {
	t.Helper()
	w := newWorld(t, nodes...)
	for _, id := range nodes {
		w.show(id, machine(id, gpus))
	}
	if len(nodes) > 0 {
		w.approve()
	}
	return w
}

func (w *world) approve() {
	w.t.Helper()
	_, err := w.Decide(w.t.Context(), operator, api.SlotDecision{Selector: "provider=vast_ai"})
	w.must(err)
	w.Tell()
}

var (
	operator = Caller{Account: "operator:socket", By: store.Actor{Name: "operator:socket"}, Write: true}
	ada      = Caller{Account: "ada", Tenant: "platform", By: store.Actor{Name: "account:ada"}}
	bob      = Caller{Account: "bob", Tenant: "platform", By: store.Actor{Name: "account:bob"}}
)

func anything(string) error { return nil }

// ask asks for GPUs.
func (w *world) ask(who Caller, q api.NewAllocation) (api.Allocation, error) {
	if q.SKU == "" && q.GPU == "" {
		q.GPU = "h100"
	}
	a, _, err := w.Allocate(w.t.Context(), who, q, anything)
	return a, err
}

// have asks for GPUs that must be there.
func (w *world) have(who Caller, count int) api.Allocation {
	w.t.Helper()
	a, err := w.ask(who, api.NewAllocation{Wish: api.Wish{Count: count}})
	w.must(err)
	w.Tell()
	return a
}

// cleaned has nodes end what they were sent to clean; left is what they find in the way.
func (w *world) cleaned(left ...wire.Left) {
	w.t.Helper()
	for _, o := range w.sent(wire.TaskGPUClean) {
		w.ended(o, wire.Cleaning{Clean: len(left) == 0, Left: left}, store.TaskCompleted)
	}
}

// ended ends one order to clean.
func (w *world) ended(o inventory.Order, c wire.Cleaning, status string) {
	w.t.Helper()
	params, err := json.Marshal(o.Params)
	w.must(err)
	payload, err := json.Marshal(wire.TaskPayload{Params: params})
	w.must(err)
	value, err := json.Marshal(c)
	w.must(err)
	values, err := json.Marshal(wire.TaskValues{wire.ValueCleaning: value})
	w.must(err)
	w.must(w.takeCleaning(w.t.Context(), store.Task{ID: o.ID, NodeID: o.NodeID, Type: o.Type, Status: status, CreatedBy: o.By.Name,
		Payload: payload,
		TaskEnd: store.TaskEnd{Values: string(values)}}))
	w.Tell()
}

// states counts the slots of a shape by their states.
func (w *world) states(shape string) map[string]int {
	w.t.Helper()
	list, err := w.Slots(w.t.Context(), "", api.SlotFilter{})
	w.must(err)
	counts := map[string]int{}
	for _, one := range list.Slots {
		if one.Shape == shape {
			counts[one.State]++
		}
	}
	return counts
}

func (w *world) want(what string, got, want map[string]int) {
	w.t.Helper()
	if !maps.Equal(got, want) {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// agrees checks that memory says what the database says.
func (w *world) agrees() {
	w.t.Helper()
	held, err := w.Records.Holds(store.Fresh(w.t.Context()), nil)
	w.must(err)
	want := map[string]string{}
	for _, h := range held {
		want[h.NodeID+" "+h.Key] = h.Allocation + " " + h.State
	}
	got := map[string]string{}
	for _, h := range w.Holds() {
		got[h.NodeID+" "+h.Key] = h.Allocation + " " + h.State
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("memory has the holds %v, the database %v", got, want)
	}
}

// events counts the events of a kind.
func (w *world) events(kind string) int {
	w.t.Helper()
	all, err := w.store.Events(w.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	w.must(err)
	return len(all)
}
