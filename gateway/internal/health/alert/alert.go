// Package alert tells people what is wrong: it looks at the fleet, keeps one alert for each cause and subject, and tells receivers of it.
//
// It looks at memory every few seconds, and at the log of events as it grows. A cause must last for a short time before it fires, and must
// be gone for a short time before it is resolved. What is not known changes nothing.
//
// For each alert and receiver there is one record: what the receiver is to be told, and what it was told. So an outage of a receiver never
// makes a backlog, and no receiver hears that something began after it heard that it ended. What was told is written after it was told: a
// receiver may hear a thing twice, with the same key, and never not at all.
package alert

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/httpserver/post"
	"muster/store"
	records "muster/store/alerts"
)

const (
	roundEvery = 5 * time.Second
	sendEvery  = time.Second
	pruneEvery = time.Hour

	keepFor      = 30 * 24 * time.Hour // a resolved alert
	mostResolved = 1000                // that are kept
)

// Fact is what is wrong with something that is not a node.
type Fact struct {
	Condition string // one of the table
	Subject   string // a channel, a rule of log shipping, ...
	Tenant    string // "": it is about the whole fleet
	Since     time.Time
	Text      string
	Next      string // what to do; "": what the table says
	Unknown   bool   // nothing is known of the condition now: its alerts stay as they are
}

// Config says what a Service works with.
type Config struct {
	Store *store.Store

	// These functions know the fleet. They must not wait.
	Ready func() bool                          // all nodes are known
	Nodes func() []*api.NodeRow                // all that are not retired
	Node  func(id string) (*api.NodeRow, bool) // one of them
	Facts func() []Fact                        // nil: there never is one

	URL    func() string    // of the gateway, for links; nil: there are none
	Roots  *x509.CertPool   // vouch for receivers; nil: those of the system
	Rand   func() float64   // from 0 to 1, for pauses; nil: a random one
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: nothing is logged
}

// Service keeps the alerts. It is safe for concurrent use.
type Service struct {
	Config
	records records.Records
	client  *post.Client
	writing sync.Mutex // one write at a time, so that none overtakes another

	table   map[string]*condition.Condition // what makes an alert, by its name
	ofNodes []*condition.Condition          // those of them that are about one node

	mu         sync.Mutex
	tracks     map[key]*track
	alerts     map[string]*alert // by id
	groups     []*alert          // those that are about many nodes
	deliveries map[place]*delivery
	receivers  map[string]*receiver // by name
	silences   []silence
	misuses    map[string]*misuse // by tenant
	events     []store.Event      // that are not written yet
	round      int
	unwritten  bool // the last write failed
	busy       sync.WaitGroup
}

// key is a cause and what it is about.
type key struct{ cause, subject string }

// place is an alert and a receiver.
type place struct{ alert, receiver string }

// alert is one on record, or one that will be.
type alert struct {
	records.Alert
	next  string // what to do; "": what the cause says
	dirty bool   // the record does not say what this says
	kept  bool   // a silence kept it back so far
}

// delivery is one on record, or one that will be.
type delivery struct {
	records.Delivery
	dirty, stored, busy bool
}

// Open makes a Service that goes on with what is in the database.
func Open(ctx context.Context, c Config) (*Service, error) {
	d := &Service{Config: c, records: records.New(c.Store.Records()), tracks: map[key]*track{}, alerts: map[string]*alert{},
		deliveries: map[place]*delivery{}, receivers: map[string]*receiver{}, misuses: map[string]*misuse{},
		table: map[string]*condition.Condition{}}
	for _, c := range condition.All() {
		if !c.IsTold() {
			continue
		}
		d.table[c.Name] = &c
		if !c.Fleet {
			d.ofNodes = append(d.ofNodes, &c)
		}
	}
	d.complete()
	d.client = newClient(c.Roots)
	if err := d.readAlerts(ctx); err != nil {
		return nil, err
	}
	if err := d.readSilences(ctx); err != nil {
		return nil, err
	}
	return d, d.readReceivers(ctx)
}

func (d *Service) complete() {
	if d.Facts == nil {
		d.Facts = func() []Fact { return nil }
	}
	if d.URL == nil {
		d.URL = func() string { return "" }
	}
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
}

// readAlerts goes on with the alerts of the last run. An open one of a cause that this version does not know stays as it is.
func (d *Service) readAlerts(ctx context.Context) error {
	rows, err := d.records.Alerts(ctx, mostResolved)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if d.table[row.Cause] == nil {
			continue
		}
		a := &alert{Alert: row}
		d.alerts[row.ID] = a
		if row.ResolvedAt == nil {
			d.goOn(a)
		}
	}
	deliveries, err := d.records.Deliveries(ctx)
	for _, row := range deliveries {
		a := d.alerts[row.Alert]
		if a == nil {
			continue
		}
		v := &delivery{Delivery: row, stored: true}
		if a.ResolvedAt != nil && (v.Told != "" || !v.GaveUp) { // the last run ended before it wrote this
			v.wants(Resolved, d.Now())
		}
		d.deliveries[place{row.Alert, row.Receiver}] = v
	}
	return err
}

// goOn follows what an open alert is about.
func (d *Service) goOn(a *alert) {
	if len(a.Members) == 0 {
		d.tracks[key{a.Cause, a.Subject}] = &track{alert: a, Track: condition.Track{Open: true, Since: a.Since, Text: a.Text}}
		return
	}
	latest := a.FiredAt.Add(joinWithin) // no member was heard after this and turned stale then
	for _, id := range a.Members {
		d.tracks[key{a.Cause, id}] = &track{group: a, Track: condition.Track{Open: true, Since: latest}, tenant: a.Tenant}
	}
	d.groups = append(d.groups, a)
}

// Run looks and tells until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	look := time.NewTicker(roundEvery)
	defer look.Stop()
	send := time.NewTicker(sendEvery)
	defer send.Stop()
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		select {
		case <-look.C:
			d.Round()
		case <-send.C:
			d.flush(ctx)
			d.send(ctx)
		case <-prune.C:
			d.prune(ctx)
		case <-ctx.Done():
			d.busy.Wait() // requests end with ctx
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			d.flush(last)
			return nil
		}
	}
}

// prune forgets what was resolved long ago.
func (d *Service) prune(ctx context.Context) {
	before := d.Now().Add(-keepFor)
	if err := d.records.Prune(ctx, before, mostResolved); err != nil && ctx.Err() == nil {
		d.Logger.Warn("old alerts are not deleted", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, a := range d.settled() {
		if i >= mostResolved || a.ResolvedAt.Before(before) {
			delete(d.alerts, a.ID)
		}
	}
	for p := range d.deliveries {
		if d.alerts[p.alert] == nil {
			delete(d.deliveries, p)
		}
	}
}

// settled are the resolved alerts of which there is nothing more to tell or to write, the newest first.
func (d *Service) settled() []*alert {
	pending := map[string]bool{}
	for p, v := range d.deliveries {
		if v.busy || v.dirty || v.Told != v.Want && !v.GaveUp {
			pending[p.alert] = true
		}
	}
	var all []*alert
	for id, a := range d.alerts {
		if a.ResolvedAt != nil && !a.dirty && !pending[id] {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *alert) int { return b.ResolvedAt.Compare(*a.ResolvedAt) })
	return all
}
