package release

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/label"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/releases"
)

// Service is safe for concurrent use.
type Service struct {
	Config
	records releases.Records
	remote  *build.Remote
	restore store.Restoration // the last one; zero: none
	// settling is how long nodes first say what they have obeyed, where the gateway was restored.
	settling time.Duration
	loaded   chan struct{} // closed when the nodes are read

	// changing keeps changes of channels apart from what nodes say: the first hold it alone, the others share it. Whoever holds it alone
	// may read the records and replace what is in memory.
	changing sync.RWMutex

	mu       sync.Mutex // guards all below; never held over a query
	releases map[string]releases.Release
	channels map[string]*channel
	pointers map[address]releases.Pointer
	pins     map[string]releases.Pin
	nodes    map[string]*node
	upSince  time.Time // since when the gateway has been at work without a pause
	looked   time.Time // when the last round was
	forgot   time.Time // when retired nodes were last looked for
	aliveAt  time.Time // when nodes were last heard before upSince
}

// address is the place of a pointer.
type address struct {
	channel  string
	sequence int64
}

// channel is what memory has of a channel.
type channel struct {
	releases.Channel
	rollout  *releases.Rollout // the newest; nil: there was none. It is replaced, never changed.
	plan     Plan
	waves    rollout.Waves
	rows     map[string]releases.Node // of the rollout
	halting  *releases.Rollout        // as it is on record, where it was halted in memory alone and the next round stores that; nil: no
	reported int64                    // the highest number that a node says it has obeyed, where a restore does not know of it; 0: none
	claimed  int64                    // the highest number above Last that a node says it has obeyed, at any time; 0: none
}

// node is what memory has of a node.
type node struct {
	Node
	seen    time.Time
	heard   bool // since upSince
	able    bool // its agent can update itself
	channel string
	label   string // of its maintenance window
	window  label.Window
	bad     string             // why the label cannot be read; "": it can
	said    releases.Update    // without the log
	later   *releases.Update   // what it said, and is not recorded yet; nil: nothing
	notes   limit.Allowance    // bounds what it has recorded
	quiet   bool               // its last heartbeat said nothing of an update, and nothing waits to be recorded
	obeyed  int64              // the highest number of its channel, as it says
	memory  [steadyLooks]int64 // of its agent, in KiB, in its last heartbeats
}

// steadyLooks is in how many heartbeats an agent must have taken so much memory. Less, and it may have been at some work.
const steadyLooks = 3

// vitals are how the node's agent does.
func (n *node) vitals() rollout.Vitals {
	v := n.Vitals
	v.MemoryKiB = slices.Min(n.memory[:])
	return v
}

// Open reads where the channels stand. Calls about nodes wait until Load has read the nodes.
func Open(ctx context.Context, c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		c.Report = func(string) {}
	}
	d := &Service{Config: c, records: releases.New(c.Store.Records()), nodes: map[string]*node{}, loaded: make(chan struct{})}
	d.remote = build.NewRemote(build.RemoteConfig{Transport: c.Transport, Now: c.Now})
	d.upSince = c.Now()
	d.settling = settling
	d.looked = d.upSince
	if restored, err := c.Store.Restoration(ctx); err == nil {
		d.restore = restored
	}
	return d, d.reload(ctx)
}

// Load reads the nodes. Whoever waits for them goes on then. With many nodes it takes seconds, and the gateway serves meanwhile. Run calls
// it first. Whoever does not run a Service calls it once.
func (d *Service) Load(ctx context.Context) error {
	if err := d.readNodes(ctx); err != nil {
		return err
	}
	close(d.loaded)
	return nil
}

// ready waits until the nodes are read.
func (d *Service) ready(ctx context.Context) error {
	select {
	case <-d.loaded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readNodes reads what the database knows of the nodes, so that a rollout that goes on after a restart knows how many there are.
func (d *Service) readNodes(ctx context.Context) error {
	known, err := d.records.Known(ctx)
	if err != nil {
		return err
	}
	said, err := d.records.Updates(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	for _, k := range known {
		n := &node{Node: Node{ID: k.ID, Name: k.Name, Tenant: k.Tenant, Interval: k.Interval}, able: true} // its heartbeat says if not
		var agent wire.AgentInfo
		if json.Unmarshal([]byte(k.Agent), &agent) == nil {
			n.OS = agent.OS
			n.Arch = agent.Arch
			n.Digest = agent.Digest
		}
		if k.LastSeen != nil {
			n.seen = *k.LastSeen
			d.settling = max(d.settling, rollout.Span(k.Interval))
		}
		if n.seen.After(d.aliveAt) {
			d.aliveAt = n.seen
		}
		d.nodes[k.ID] = n
	}
	for _, u := range said {
		if n := d.nodes[u.NodeID]; n != nil {
			n.said = u
		}
	}
	d.mu.Unlock()
	return d.readLabels(ctx, "")
}

// readLabels reads the labels of one node ("": of all) that say how it is updated.
func (d *Service) readLabels(ctx context.Context, nodeID string) error {
	labels, err := d.records.Labels(ctx, wire.LabelChannel, wire.LabelWindow, nodeID)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, n := range d.nodes {
		if nodeID == "" || id == nodeID {
			n.take(labels[id])
		}
	}
	return nil
}

// take takes a node's labels. A window that cannot be read holds the node, so that it is not updated by mistake.
func (n *node) take(labels [2]string) {
	if name := cmp.Or(labels[0], wire.DefaultChannel); n.channel != name {
		n.channel = name
		n.obeyed = 0 // its heartbeats say it of the other channel
	}
	if n.label == labels[1] {
		return
	}
	n.label = labels[1]
	n.bad = ""
	var err error
	if n.window, err = label.ParseWindow(n.label); err != nil {
		n.bad = err.Error()
	}
}

// reload reads releases, channels, pointers, pins and rollouts. The caller holds changing alone.
func (d *Service) reload(ctx context.Context) error {
	all, err := d.records.Releases(ctx)
	if err != nil {
		return err
	}
	channels, err := d.readChannels(ctx)
	if err != nil {
		return err
	}
	pointers, err := d.records.Pointers(ctx)
	if err != nil {
		return err
	}
	pins, err := d.records.Pins(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releases = map[string]releases.Release{}
	for _, one := range all {
		d.releases[one.Digest] = one
	}
	for name, c := range channels {
		c.reported = c.Reported
		before := d.channels[name]
		if before == nil {
			continue
		}
		c.claimed = before.claimed
		if before.reported > max(c.reported, c.Last) {
			c.reported = before.reported // the next round stores it
		}
	}
	d.channels = channels
	d.pointers = map[address]releases.Pointer{}
	for _, p := range pointers {
		d.pointers[address{p.Channel, p.Sequence}] = p
	}
	d.pins = map[string]releases.Pin{}
	for _, p := range pins {
		d.pins[p.NodeID] = p
	}
	for _, c := range channels {
		d.stop(c)
	}
	return nil
}

func (d *Service) readChannels(ctx context.Context) (map[string]*channel, error) {
	rows, err := d.records.Channels(ctx)
	if err != nil {
		return nil, err
	}
	channels := map[string]*channel{}
	for _, row := range rows {
		channels[row.Channel] = &channel{Channel: row, rows: map[string]releases.Node{}}
	}
	rollouts, err := d.records.Rollouts(ctx)
	if err != nil {
		return nil, err
	}
	for i, o := range rollouts {
		c := channels[o.Channel]
		c.rollout = &rollouts[i]
		if c.plan, c.waves, err = rollout.ReadPlan(o.Plan); err != nil {
			return nil, err
		}
		nodes, err := d.records.RolloutNodes(ctx, o.Number)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			c.rows[n.NodeID] = n
		}
	}
	return channels, nil
}

// names are the channels' names in order.
func (d *Service) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.channels))
}

// lookEvery is how often rollouts are moved on.
const lookEvery = 2 * time.Second

// Run moves the rollouts on, and refreshes pointers before they expire, until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	if err := d.Load(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := d.Look(ctx); err != nil && ctx.Err() == nil {
				d.Logger.Error("releases do not move on", "error", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// event is an event about a channel or a release. One about what nodes run belongs to security.
func (d *Service) event(kind string, by store.Actor, security bool, detail map[string]string) store.Event {
	return store.Event{At: d.Now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Security: security,
		Detail: detail}
}

// gatewayActor is who does what the gateway does by itself.
func gatewayActor() store.Actor { return store.Actor{Name: "gateway"} }
