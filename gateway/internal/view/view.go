// Package view keeps the fleet in memory: of each node what lists, tiles and the live stream show.
//
// It is loaded from the database, node by node, after the gateway has begun to serve. From then on it follows the heartbeats, by its Feed,
// and the events, by the audit log's Tail: a node that an event names is read again. All nodes are read again, slowly, round after round,
// so that nothing which was missed stays wrong. The view decides nothing: the database is the truth.
package view

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/store"
)

// Config says what a Fleet works with.
type Config struct {
	Store  *store.Store
	Ref    func() store.StatusRef // what statuses are computed from at this moment
	Logger *slog.Logger           // nil: nothing is logged
}

// Fleet is safe for concurrent use.
type Fleet struct {
	Config
	today func(nodeID string) *api.Today // as ShowCosts says
	wake  chan struct{}                  // holds one token while nodes are to be read again

	reading sync.Mutex // held from before nodes are read until they are in the view, so that the newest state comes last

	mu      sync.RWMutex
	ready   bool
	nodes   map[string]*node
	order   []*node // by name, then by id
	sorted  bool
	version uint64        // one more with each replaced row
	changes list.List     // of nodes; the one that changed last comes first
	told    uint64        // the version that watchers were told of
	news    chan struct{} // closed when the version has grown
	again   map[string]bool

	allAgain bool                     // all nodes are to be read again
	found    map[string][]api.Finding // by node
	placed   map[string]*api.NodePlacement
	down     map[string]float64 // as Down says
}

// Open makes a Fleet. It reads nothing yet: Run does.
func Open(c Config) *Fleet {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Fleet{Config: c, today: func(string) *api.Today { return nil }, wake: make(chan struct{}, 1), nodes: map[string]*node{},
		sorted: true, news: make(chan struct{}),
		again: map[string]bool{}, allAgain: true, found: map[string][]api.Finding{}, placed: map[string]*api.NodePlacement{}}
}

// ShowCosts sets today, which returns what a node has cost on this day, if that is known. today must not ask the view. ShowCosts is called
// before Run.
func (p *Fleet) ShowCosts(today func(nodeID string) *api.Today) { p.today = today }

// Ready reports whether all nodes are loaded.
func (p *Fleet) Ready() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.ready
}

// Row returns what the view has of a node.
func (p *Fleet) Row(nodeID string) (*api.NodeRow, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	n := p.nodes[nodeID]
	if n == nil {
		return nil, false
	}
	return n.row, true
}

// Take takes heartbeats. It reads a node that is not in the view yet from the database.
func (p *Fleet) Take(_ context.Context, samples []Sample) {
	ref := p.Ref()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range samples {
		p.take(samples[i], ref)
	}
	p.tell()
}

func (p *Fleet) take(s Sample, ref store.StatusRef) {
	n := p.nodes[s.NodeID]
	if n == nil || n.row.LastSeen != nil && n.row.LastSeen.After(s.At) {
		p.reread(s.NodeID)
		return
	}
	was := n.row
	next := *was
	n.row = &next
	n.hear(s)
	n.look(ref)
	next.Today = p.today(s.NodeID)
	if expected := next.GPUsExpected; !n.said && next.Fresh && len(next.GPUs) > 0 && (expected == nil || *expected < len(next.GPUs)) {
		p.reread(s.NodeID) // the heartbeat has raised the record
	}
	reshaped := n.reshaped
	p.changed(n)
	if !next.Reshaped(was) {
		n.reshaped = reshaped
	}
}

// Changed takes events. It has the nodes that they name read again.
func (p *Fleet) Changed(_ context.Context, events []store.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		switch {
		case e.Kind == clockStepped:
			p.allAgain = true
			p.nudge()
		case e.NodeID != "" && !strings.HasPrefix(e.Kind, "task."): // a task changes nothing of its node
			p.reread(e.NodeID)
		}
	}
}

// Moved has a node that was just changed read at once. If that fails, the event of the change has it read again.
func (p *Fleet) Moved(ctx context.Context, n store.Node) {
	_ = p.alone(ctx, func(ctx context.Context) error { return p.read(ctx, []string{n.ID}) })
}

// clockStepped is the kind of the event that follows when times in the database were corrected.
const clockStepped = "clock.stepped"

// reread has a node read again. The caller holds the lock.
func (p *Fleet) reread(nodeID string) {
	p.again[nodeID] = true
	p.nudge()
}

func (p *Fleet) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Findings takes all findings of a node; the view puts the severe first.
func (p *Fleet) Findings(nodeID string, findings []api.Finding) {
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b api.Finding) int {
		return cmp.Compare(api.SeverityRank(b.Severity), api.SeverityRank(a.Severity))
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(sorted) == 0 {
		delete(p.found, nodeID)
	} else {
		p.found[nodeID] = sorted
	}
	p.replace(nodeID, func(next *api.NodeRow) { next.Findings = p.findings(nodeID) })
}

// replace gives a node that is there another row, which differs from the one before. The caller holds the lock.
func (p *Fleet) replace(nodeID string, differ func(next *api.NodeRow)) {
	if n := p.nodes[nodeID]; n != nil {
		n.row = new(*n.row)
		differ(n.row)
		p.changed(n)
		p.tell()
	}
}

// Placed takes a node's place in the fleet's capacity; nil: it has none. Nobody changes it after that.
func (p *Fleet) Placed(nodeID string, placement *api.NodePlacement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if placement == nil {
		delete(p.placed, nodeID)
	} else {
		p.placed[nodeID] = placement
	}
	p.replace(nodeID, func(next *api.NodeRow) { next.Placement = placement })
}

// Down takes what the nodes cost an hour that do not run, as their companies say: all of them. Nobody changes it after that.
func (p *Fleet) Down(costs map[string]float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.down
	p.down = costs
	show := func(id string) { p.replace(id, func(next *api.NodeRow) { next.DownCost = p.downCost(id) }) }
	for id, cost := range was {
		if now, still := costs[id]; !still || now != cost {
			show(id)
		}
	}
	for id := range costs {
		if _, known := was[id]; !known {
			show(id)
		}
	}
}

// downCost is what a node costs that does not run; nil: it may run.
func (p *Fleet) downCost(nodeID string) *float64 {
	cost, known := p.down[nodeID]
	if !known {
		return nil
	}
	return &cost
}

// findings is never nil, because a list in the API is never null.
func (p *Fleet) findings(nodeID string) []api.Finding {
	if found := p.found[nodeID]; found != nil {
		return found
	}
	return []api.Finding{}
}

// tick looks at what changes with time alone.
func (p *Fleet) tick() {
	ref := p.Ref()
	today := ref.Now.UTC().Format(time.DateOnly)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.order {
		isOver := n.row.Today != nil && n.row.Today.Day != today
		if !isOver && !n.due(ref) {
			continue
		}
		n.row = new(*n.row)
		n.look(ref)
		if isOver {
			n.row.Today = nil // until the next heartbeat
		}
		p.changed(n)
	}
	p.tell()
}

// put adds a node, or replaces what is there of it. The caller holds the lock.
func (p *Fleet) put(n *node) {
	id := n.row.ID
	n.row.Findings = p.findings(id)
	n.row.Placement = p.placed[id]
	n.row.DownCost = p.downCost(id)
	was := p.nodes[id]
	if was == nil {
		n.place = len(p.nodes)
		n.row.Today = p.today(id)
		p.nodes[id] = n
		p.order = append(p.order, n)
		p.sorted = false
		p.changed(n)
		return
	}
	n.row.Today = was.row.Today
	if !sameTime(was.row.LastSeen, n.row.LastSeen) { // the row has a heartbeat that the view did not hear
		n.row.Today = p.today(id)
	}
	same := reflect.DeepEqual(was.row, n.row)
	p.sorted = p.sorted && was.row.Name == n.row.Name
	n.place = was.place
	n.version = was.version
	n.reshaped = was.reshaped
	n.change = was.change
	*was = *n // its place in the order and in the list stays
	if !same {
		p.changed(was)
	}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// changed notes that a node's row was replaced. The lock is held.
func (p *Fleet) changed(n *node) {
	p.version++
	n.version = p.version
	n.reshaped = p.version
	if n.change == nil {
		n.change = p.changes.PushFront(n)
	} else {
		p.changes.MoveToFront(n.change)
	}
}

// tell wakes the watchers where there is something new. The caller holds the lock.
func (p *Fleet) tell() {
	if !p.sorted {
		slices.SortFunc(p.order, byName)
		p.sorted = true
	}
	if p.told == p.version {
		return
	}
	p.told = p.version
	close(p.news)
	p.news = make(chan struct{})
}

func byName(a, b *node) int {
	return cmp.Or(cmp.Compare(a.row.Name, b.row.Name), cmp.Compare(a.row.ID, b.row.ID))
}
