package health

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
)

const (
	roundEvery = 15 * time.Second // between two looks at what no heartbeat tells
	portion    = 256              // changes in one write: others must not wait long for the writer
	mostTracks = 256              // things of one node that are followed at once
)

// Config says what a Service works with.
type Config struct {
	Records records.Records

	// These functions know the nodes. They must not wait.
	Ready func() bool                          // all nodes are known
	Node  func(id string) (*api.NodeRow, bool) // as it is known now
	Nodes func() []*api.NodeRow                // all that are not retired

	Tell func(id string, f []api.Finding) // gets a node's findings when they have changed, and must not wait; nil: nobody

	// Judge moves a node by reasons.
	Judge func(ctx context.Context, id string, add map[string]string, remove []string) error

	RetireAfter time.Duration // a node is retired that is silent for so long; 0: none is
	Retire      func(ctx context.Context, id string, after time.Duration) (bool, error)

	// CountAgain counts an event that comes too often, and then returns true: the event is not recorded. Nil: every event is recorded.
	CountAgain func(context.Context, store.Event) bool
	Now        func() time.Time // nil: time.Now
	Logger     *slog.Logger     // nil: nothing is logged
}

// Service looks at all nodes. It is safe for concurrent use.
type Service struct {
	Config
	rules    []rule
	settings atomic.Pointer[settings]

	reading sync.Mutex    // held while the settings is read
	wake    chan struct{} // holds one token while changes wait
	again   chan struct{} // holds one token while a round is wanted

	retirement retirement

	mu      sync.Mutex
	nodes   map[string]*watch
	changes map[records.Place]change // that are not written yet
	failing bool                     // the last write failed
}

// watch is what is kept of one node.
type watch struct {
	sampled time.Time // when the last rows of GPUs were read, by the node's clock
	tracks  map[key]*condition.Track
	old     bool // the node was stale when its findings were told last
}

type key struct{ rule, gpu string }

// change is a finding that was opened or closed.
type change struct {
	records.Change
	name, tenant string
	at           time.Time
	why          string // of a closed one that was not cured; "": it was
}

// Open makes a Service that goes on with the findings and the settings in the database.
func Open(ctx context.Context, c Config) (*Service, error) {
	d := &Service{Config: c, rules: rules(), wake: make(chan struct{}, 1), again: make(chan struct{}, 1), nodes: map[string]*watch{},
		changes: map[records.Place]change{}}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Tell == nil {
		d.Tell = func(string, []api.Finding) {}
	}
	if d.CountAgain == nil {
		d.CountAgain = func(context.Context, store.Event) bool { return false }
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	if err := d.readSettings(ctx); err != nil {
		return nil, err
	}
	open, err := d.Records.Findings(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range open {
		if d.rule(f.Rule) == nil { // of another version
			continue
		}
		d.watch(f.NodeID).tracks[key{f.Rule, f.GPU}] = &condition.Track{Open: true, Since: f.Since, Text: f.Text}
	}
	for id := range d.nodes {
		d.Tell(id, d.findings(id))
	}
	return d, nil
}

// node is a node as it is known now; empty: it is not known.
func (d *Service) node(id string) (n *api.NodeRow, known bool) {
	if n, known = d.Node(id); !known {
		n = &api.NodeRow{}
	}
	return n, known
}

// watch gives what is kept of a node. The caller holds the lock, or is alone.
func (d *Service) watch(id string) *watch {
	w := d.nodes[id]
	if w == nil {
		w = &watch{tracks: map[key]*condition.Track{}}
		d.nodes[id] = w
	}
	return w
}

// Take looks at heartbeats. It keeps what they change in memory, for Run to write.
func (d *Service) Take(_ context.Context, samples []view.Sample) {
	if !d.Ready() {
		return
	}
	for i := range samples {
		n, known := d.Node(samples[i].NodeID)
		if known && isJudged(n) {
			d.mu.Lock()
			d.judge(n, &samples[i])
			d.mu.Unlock()
		}
	}
}

// isJudged is false for a node that is gone, and for one that two machines claim to be: nobody knows which of them speaks.
func isJudged(n *api.NodeRow) bool {
	return n.State != wire.StateRetired && !slices.Contains(n.StateReasons, wire.ReasonConflict)
}

// judge looks at one heartbeat by all rules. The caller holds the lock.
func (d *Service) judge(n *api.NodeRow, s *view.Sample) {
	w := d.watch(n.ID)
	b := *d.settings.Load()
	gap := gapOf(s)
	isFresh := w.isFresh(s.Hardware) || hasNoGPU(s.Hardware)
	for i := range d.rules {
		r, off := b.of(&d.rules[i], n)
		switch {
		case off:
			d.close(w, n, r, "the rule is switched off")
		case r.Name == condition.NodeStale, r.Word: // Round and Counts look for these
		case !r.GPU:
			d.see(w, n, r, "", r.ofNode(n, s), s.At, gap)
		case r.Name == condition.XidCritical:
			d.judgeXids(w, n, r, s, gap)
		case isFresh:
			d.judgeGPUs(w, n, r, s, gap)
		}
	}
}

// isFresh is true if a reading has rows of GPUs that were not looked at yet. A reading may repeat the rows of an earlier look.
func (w *watch) isFresh(h *wire.Hardware) bool {
	if h == nil || h.Probe.SampledAt == nil || h.Probe.SampledAt.Equal(w.sampled) {
		return false
	}
	w.sampled = *h.Probe.SampledAt
	return true
}

// judgeGPUs looks at each GPU. One that is not there any more, in a look that missed none, was taken out.
func (d *Service) judgeGPUs(w *watch, n *api.NodeRow, r *rule, s *view.Sample, gap time.Duration) {
	gpus := s.Hardware.GPUs
	if hasNoGPU(s.Hardware) {
		gpus = nil // rows of an earlier look
	}
	for i := range gpus {
		g := &gpus[i]
		l := r.ofGPU(n, g, s)
		if l.Verdict == bad {
			l.Text = "GPU " + strconv.Itoa(g.Index) + ": " + l.Text
		}
		d.see(w, n, r, g.UUID, l, s.At, gap)
	}
	for k := range w.tracks {
		if k.rule == r.Name && isRemoved(s.Hardware, k.gpu) {
			d.see(w, n, r, k.gpu, look{Verdict: good}, s.At, gap)
		}
	}
}

// see takes one look at one thing. Only what is bad, or was, is followed. That a node is silent is seen however much else is wrong with it.
func (d *Service) see(w *watch, n *api.NodeRow, r *rule, gpu string, l look, at time.Time, gap time.Duration) {
	k := key{r.Name, gpu}
	t := w.tracks[k]
	if t == nil {
		if l.Verdict != bad || len(w.tracks) >= mostTracks && r.Name != condition.NodeStale {
			return
		}
		t = &condition.Track{}
		w.tracks[k] = t
	}
	if t.See(l, at, gap, r.Found, r.Cured) {
		d.note(n, k, t, "")
	}
	if t.Idle() {
		delete(w.tracks, k)
	}
}

// close ends the findings of a rule for another reason than that they are cured.
func (d *Service) close(w *watch, n *api.NodeRow, r *rule, why string) {
	for k, t := range w.tracks {
		if k.rule != r.Name {
			continue
		}
		if t.Open {
			t.Open = false
			d.note(n, k, t, why)
		}
		delete(w.tracks, k)
	}
}

// note keeps a change for the next write. The later change of one finding takes the place of the earlier.
func (d *Service) note(n *api.NodeRow, k key, t *condition.Track, why string) {
	place := records.Place{NodeID: n.ID, Rule: k.rule, GPU: k.gpu}
	d.changes[place] = change{name: n.Name, tenant: n.Tenant, at: d.Now(), why: why,
		Change: records.Change{Cured: !t.Open, Finding: records.Finding{Place: place, Since: t.Since, Text: t.Text}}}
	d.nudge(d.wake)
}

// nudge leaves a token, unless one is there.
func (d *Service) nudge(tokens chan struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}
