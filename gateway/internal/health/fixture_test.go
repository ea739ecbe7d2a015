package health_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
)

var (
	start    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	operator = store.Actor{Name: "operator:socket", Address: "socket"}
)

const pace = 30 * time.Second

// world is a desk on a database of its own, with nodes that the test sets and a clock that it moves.
type world struct {
	*health.Service
	t       testing.TB
	store   *store.Store
	now     time.Time
	ready   bool
	nodes   map[string]*api.NodeRow
	told    map[string]int // how often a node's findings were told
	judged  []string       // "n-1 +gpu_hot -disk_full" in the order of the calls
	broken  error          // of every move
	retired []string
	words   []string // that every node says against work on it
	config  health.Config
}

func newWorld(t testing.TB, nodes ...string) *world {
	t.Helper()
	d := &world{t: t, now: start, ready: true, nodes: map[string]*api.NodeRow{}, told: map[string]int{}}
	d.store = kit.Store(t, d.clock)
	for _, id := range nodes {
		d.add(id)
	}
	d.config = health.Config{
		Records: records.New(d.store.Records()), Ready: func() bool { return d.ready }, Node: d.node, Nodes: d.all, Judge: d.judge,
		Tell: func(id string, _ []api.Finding) { d.told[id]++ }, Now: d.clock,
		Retire: func(_ context.Context, id string, _ time.Duration) (bool, error) {
			d.retired = append(d.retired, id)
			d.nodes[id].State = wire.StateRetired
			return true, nil
		},
	}
	d.restart()
	return d
}

// restart opens another desk on the same database, as a gateway that starts again does.
func (d *world) restart() {
	d.t.Helper()
	desk, err := health.Open(d.t.Context(), d.config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.Service = desk
}

func (d *world) clock() time.Time { return d.now }

func (d *world) add(id string) *api.NodeRow {
	d.t.Helper()
	row := store.Node{ID: id, Name: "name-" + id, Tenant: "platform", CreatedAt: start}
	if err := d.store.CreateNode(d.t.Context(), row, nil); err != nil {
		d.t.Fatal(err)
	}
	n := &api.NodeRow{ID: id, Name: "name-" + id, Tenant: "platform", State: wire.StateActive,
		Status: wire.StatusOnline, Labels: map[string]string{}}
	d.nodes[id] = n
	return n
}

func (d *world) node(id string) (*api.NodeRow, bool) {
	n := d.nodes[id]
	if n == nil {
		return nil, false
	}
	seen := *n
	return &seen, true
}

func (d *world) all() (rows []*api.NodeRow) {
	for _, id := range slices.Sorted(maps.Keys(d.nodes)) {
		n, _ := d.node(id)
		rows = append(rows, n)
	}
	return rows
}

// judge moves a node as the fleet does.
func (d *world) judge(_ context.Context, id string, add map[string]string, remove []string) error {
	if d.broken != nil {
		return d.broken
	}
	n := d.nodes[id]
	if n == nil {
		return nil
	}
	for _, reason := range slices.Sorted(maps.Keys(add)) {
		if !slices.Contains(n.StateReasons, reason) {
			n.StateReasons = append(n.StateReasons, reason)
			d.judged = append(d.judged, id+" +"+reason)
		}
	}
	for _, reason := range remove {
		if at := slices.Index(n.StateReasons, reason); at >= 0 {
			n.StateReasons = slices.Delete(n.StateReasons, at, at+1)
			d.judged = append(d.judged, id+" -"+reason)
		}
	}
	return nil
}

// hear lets one interval pass, gives the desk a heartbeat, and has it written. A reading without a time has one of now.
func (d *world) hear(id string, s view.Sample) {
	d.t.Helper()
	d.now = d.now.Add(pace)
	d.take(id, s)
	d.flush()
}

func (d *world) take(id string, s view.Sample) {
	s.NodeID = id
	s.At = d.now
	s.Interval = pace
	if s.Hardware != nil && s.Hardware.Probe.SampledAt == nil {
		h := *s.Hardware
		at := d.now
		h.Probe.SampledAt = &at
		s.Hardware = &h
	}
	d.Take(d.t.Context(), []view.Sample{s})
	d.says(id, d.words...)
}

// says has the node say words against work on it, and moves the node by what counts of them, as the fleet does.
func (d *world) says(id string, words ...string) {
	detail := map[string]string{}
	for _, word := range words {
		detail[word] = "GPU 3 is gone"
	}
	counted := d.Counts(id, pace, words, detail)
	n := d.nodes[id]
	if n == nil {
		return
	}
	n.StateReasons = slices.DeleteFunc(n.StateReasons, func(reason string) bool { return isWord(reason) && !slices.Contains(counted, reason) })
	for _, word := range counted {
		if !slices.Contains(n.StateReasons, word) {
			n.StateReasons = append(n.StateReasons, word)
		}
	}
}

func isWord(name string) bool {
	c := condition.Named(name)
	return c != nil && c.Word
}

// found are the conditions that rules find.
func found() []condition.Condition {
	return slices.DeleteFunc(condition.All(), func(c condition.Condition) bool { return !c.IsFound() })
}

func (d *world) flush() {
	d.t.Helper()
	if err := d.Flush(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// rules are the names of the rules that have findings on a node.
func (d *world) rules(id string) []string {
	var names []string
	for _, f := range d.Findings(id) {
		names = append(names, f.Rule)
	}
	return names
}

func (d *world) events(kind string) []store.Event {
	d.t.Helper()
	events, err := d.store.Events(d.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	if err != nil {
		d.t.Fatal(err)
	}
	return events
}

func to[T any](v T) *T { return &v }

// reading is a good look at one GPU, changed by what the caller says.
func reading(change func(h *wire.Hardware, g *wire.GPU)) view.Sample {
	g := wire.GPU{Index: 3, UUID: "GPU-3", Name: "H100", MemorySource: wire.MemoryDevice, UtilizationPercent: to(90.0),
		TemperatureCelsius: to(60.0), Clocks: &wire.Clocks{Reasons: []string{"sw_power_cap"}},
		PCIe: &wire.PCIe{Generation: to(5), GenerationMax: to(5), Width: to(16), WidthMax: to(16)},
		ECC:  &wire.ECC{UncorrectedVolatile: to(int64(0))}, RemappedRows: &wire.Remaps{Pending: to(false), Failure: to(false)},
		RecoveryAction: to("none"), Fabric: &wire.Fabric{State: to("completed"), Status: to("success")},
		NVLinks: &wire.NVLinks{Total: to(18), Down: to(0)}}
	h := wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK}, DiskUsedMiB: to(int64(500)), DiskTotalMiB: to(int64(1000)),
		Load1: to(2.0), CPUs: to(16), MemoryUsedMiB: to(int64(10)), MemoryTotalMiB: to(int64(100)),
		Xids: &wire.Xids{State: wire.KernelRead}}
	if change != nil {
		change(&h, &g)
	}
	h.GPUs = append(h.GPUs, g)
	return view.Sample{Hardware: &h, Agent: &wire.AgentInfo{ReleaseEnds: to(start.AddDate(1, 0, 0))},
		Cost: &wire.Cost{Starts: &wire.Starts{Crashes: to(0)}}}
}

func hot(celsius float64) view.Sample {
	return reading(func(_ *wire.Hardware, g *wire.GPU) { g.TemperatureCelsius = &celsius })
}
