// Package ship forwards the logs of nodes to sinks: it says which nodes ship what, takes their batches, keeps the lines of each rule in a
// buffer on disk, and pushes them to a Loki.
//
// A batch is answered when its lines are in the buffers, so a line is lost only if a buffer has no room, or where the sink refuses it;
// both are counted. A line may come to a sink twice: after a restart, or where an answer was lost. The lines of one node and source keep
// their order. Each rule has a goroutine and a buffer of its own, so one sink never waits for another.
package ship

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/spool"
	"muster/gateway/api"
	"muster/gateway/internal/label"
	"muster/gateway/internal/logs"
	"muster/store"
)

const (
	forgetEvery = time.Hour
	forgetAfter = 24 * time.Hour // a node that has shipped nothing

	// DefaultBound is the size of one rule's buffer if no setting says another.
	DefaultBound = 256 << 20
)

// Config says what a Service works with.
type Config struct {
	Store  *store.Store
	Folder string                                    // of the buffers
	Bound  int64                                     // bytes of each of them; 0: DefaultBound
	Node   func(id string) (n *api.NodeRow, ok bool) // as the fleet is now; it must not wait
	Count  func(picks func(*api.NodeRow) bool) int   // how many nodes are picked; nil: nobody knows
	Rand   func() float64                            // from 0 to 1, for pauses; nil: a random one
	Now    func() time.Time                          // nil: time.Now
	Wait   func(context.Context, time.Duration)      // between pushes; nil: it waits
	Logger *slog.Logger                              // nil: nothing is logged
}

// Service has the rules. It is safe for concurrent use.
type Service struct {
	Config
	changed chan struct{}
	rules   atomic.Pointer[[]*rule] // by name; a change makes another slice

	changing sync.Mutex // one change at a time

	mu    sync.Mutex
	nodes map[string]*node // those that have shipped, by id
	// Why nodes do not ship sources that a rule wants, by id and source. Nodes that ship all are not there.
	unshipped map[string]map[string]string
	rates     map[string]*rate // of tenants
	held      map[string]int64 // batches that were put off, by tenant
}

// rule is one that is in use. What the operator says does not change: another rule takes its place.
type rule struct {
	sealed
	terms []label.Term
	box   *spool.Spool
	sink  *sink
	state *state // the next rule of this name has it too

	stop context.CancelFunc // nil: nothing is pushed yet
	done chan struct{}
}

// Open makes a Service that goes on with the rules in the database and with what is in their buffers.
func Open(ctx context.Context, c Config) (*Service, error) {
	d := &Service{Config: c, changed: make(chan struct{}, 1), nodes: map[string]*node{},
		unshipped: map[string]map[string]string{}, rates: map[string]*rate{}, held: map[string]int64{}}
	d.complete()
	names, err := d.Store.Secrets(ctx, secretPrefix)
	if err != nil {
		return nil, err
	}
	rules := []*rule{}
	for _, name := range names {
		value, err := c.Store.Secret(ctx, secretPrefix+name)
		if err != nil {
			return nil, err
		}
		var s sealed
		if err := json.Unmarshal(value, &s); err != nil {
			return nil, fmt.Errorf("the rule of log shipping %s cannot be read: %w", name, err)
		}
		r, err := d.make(s)
		if err != nil {
			return nil, fmt.Errorf("the rule of log shipping %s: %w", name, err)
		}
		r.box = d.open(name)
		r.state = newState()
		rules = append(rules, r)
	}
	d.rules.Store(&rules)
	return d, nil
}

func (d *Service) complete() {
	d.Bound = cmp.Or(d.Bound, DefaultBound)
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Wait == nil {
		d.Wait = func(ctx context.Context, d time.Duration) { logs.Wait(ctx, d) }
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	if d.Count == nil {
		d.Count = func(func(*api.NodeRow) bool) int { return 0 }
	}
}

// make makes a rule that can be used, but for its buffer.
func (d *Service) make(s sealed) (*rule, error) {
	terms, err := label.ParseSelector(s.Selector)
	if err != nil {
		return nil, err
	}
	to, err := newSink(s)
	return &rule{sealed: s, terms: terms, sink: to}, err
}

func (d *Service) open(name string) *spool.Spool {
	return spool.Open(spool.Config{Dir: filepath.Join(d.Folder, name), Bound: d.Bound})
}

// Run pushes until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	defer d.end()
	for {
		d.start(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-d.changed:
		case <-forget.C:
			d.forget()
		}
	}
}

// start pushes for each rule for which nobody does.
func (d *Service) start(ctx context.Context) {
	d.changing.Lock()
	defer d.changing.Unlock()
	for _, r := range *d.rules.Load() {
		if r.stop != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		r.stop = cancel
		r.done = make(chan struct{})
		go func() {
			defer close(r.done)
			(&pusher{Service: d, rule: r}).run(own)
		}()
	}
}

// halt ends the pushing of a rule.
func (r *rule) halt() {
	if r.stop != nil {
		r.stop()
		<-r.done
	}
	r.sink.close()
}

// end closes all buffers. Nobody changes the rules any more.
func (d *Service) end() {
	d.changing.Lock()
	defer d.changing.Unlock()
	for _, r := range *d.rules.Load() {
		r.halt()
		if err := r.box.Close(); err != nil {
			d.Logger.Warn("the last log lines of a buffer may be lost with the power", "rule", r.Name, "error", err)
		}
	}
}

// find gives a rule; nil: there is none.
func (d *Service) find(name string) *rule {
	for _, r := range *d.rules.Load() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// swap puts a rule in the place of one, or adds or removes it.
func (d *Service) swap(before, after *rule) {
	rules := slices.DeleteFunc(slices.Clone(*d.rules.Load()), func(r *rule) bool { return r == before })
	if after != nil {
		rules = append(rules, after)
	}
	slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.Name, b.Name) })
	d.rules.Store(&rules)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// picks tells whether a node ships by a rule.
func (r *rule) picks(n *api.NodeRow) bool {
	return (r.Tenant == "" || r.Tenant == n.Tenant) && label.Matches(r.terms, n)
}
