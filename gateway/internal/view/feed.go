package view

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"muster/agent/wire"
)

const (
	defaultLimit = 16384 // heartbeats: one round of the largest fleet that one gateway is measured with
	portion      = 256   // samples that are handed on at once
	share        = 8     // of so many processors the work here uses one at most

	late = 15 * time.Second // a heartbeat that waits for longer: the fleet writes a batch every few seconds
)

// Sample is one heartbeat as the fleet heard it. Nobody changes what its pointers lead to.
type Sample struct {
	NodeID     string
	Enrolment  string
	At         time.Time // when the gateway heard it
	RunID      string
	Counter    uint64
	Interval   time.Duration
	SkewMillis int64
	Address    string
	Notices    []string
	Agent      *wire.AgentInfo // nil: not said
	Cost       *wire.Cost      // nil: not said
	Hardware   *wire.Hardware  // nil: it brought no reading, and the last one stays
}

const (
	listLife = 15 * time.Minute               // an agent drops a list of processes that is older
	mostSkew = 10 * 365 * 24 * 60 * 60 * 1000 // of a clock that is allowed for, in milliseconds
)

// LookedAt returns when processes on a GPU were looked at, by the gateway's clock. Nobody looks again before each heartbeat.
func (s *Sample) LookedAt(p *wire.Processes) time.Time {
	if p.At.IsZero() {
		return s.At
	}
	at := p.At.Add(time.Duration(min(max(s.SkewMillis, -mostSkew), mostSkew)) * time.Millisecond)
	switch {
	case at.After(s.At):
		return s.At
	case at.Before(s.At.Add(-listLife)):
		return s.At.Add(-listLife)
	}
	return at
}

// FeedConfig says what a Feed works with. A zero field means the default.
type FeedConfig struct {
	Limit  int // heartbeats that may wait; 0: 16,384
	Now    func() time.Time
	Logger *slog.Logger
}

// Feed hands the nodes' heartbeats to those who look at them: the view of the fleet, history and health.
//
// The fleet gives the feed what it has written, a batch every few seconds. The feed hands it on away from all requests, and uses a small
// share of the processors at most. When heartbeats come faster than that, the oldest are dropped and counted, and the log says so: who
// looks on may be late, but never holds up the fleet. It is safe for concurrent use.
type Feed struct {
	FeedConfig
	takers []func(context.Context, []Sample)
	news   chan struct{} // holds one token while heartbeats wait

	mu      sync.Mutex
	waiting []Sample
	offered int64
	dropped int64
	behind  time.Time // since when heartbeats wait for too long, or are dropped; zero: they are not
	told    bool      // the log has it
}

// Lag says how far a feed is behind.
type Lag struct {
	Waiting int
	Offered int64     // since the start
	Dropped int64     // of Offered
	Since   time.Time // since when heartbeats wait for too long, or are dropped; zero: they are not
}

// NewFeed makes a Feed.
func NewFeed(c FeedConfig) *Feed {
	c.Limit = cmp.Or(c.Limit, defaultLimit)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Feed{FeedConfig: c, news: make(chan struct{}, 1)}
}

// Add adds a taker. It gets all samples in the order in which they were heard, after the takers that were added before it. It must not wait
// for the disk or the network: it would hold up the others. It may keep what the pointers of a sample lead to, and must not change that.
// Add is called before Run.
func (f *Feed) Add(take func(context.Context, []Sample)) { f.takers = append(f.takers, take) }

// Offer takes a batch of heartbeats. It never waits.
func (f *Feed) Offer(samples []Sample) {
	if len(samples) == 0 {
		return
	}
	f.mu.Lock()
	f.offered += int64(len(samples))
	f.waiting = append(f.waiting, samples...)
	if surplus := len(f.waiting) - f.Limit; surplus > 0 {
		f.waiting = append([]Sample(nil), f.waiting[surplus:]...)
		f.dropped += int64(surplus)
		if f.behind.IsZero() {
			f.behind = f.Now()
		}
	}
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// Behind says how far the feed is behind.
func (f *Feed) Behind() Lag {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notice()
	return Lag{Waiting: len(f.waiting), Offered: f.offered, Dropped: f.dropped, Since: f.behind}
}

// notice looks at how long the oldest heartbeat has waited. So it is known that the feed is late before anything is dropped. The caller
// holds the lock.
func (f *Feed) notice() {
	if now := f.Now(); f.behind.IsZero() && len(f.waiting) > 0 && now.Sub(f.waiting[0].At) > late {
		f.behind = now
	}
}

// Run hands heartbeats on until ctx ends, and then those that still wait.
func (f *Feed) Run(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	pause := time.Duration(max(share/runtime.GOMAXPROCS(0)-1, 0)) // times what the work took
	for {
		select {
		case <-ctx.Done():
		case <-f.news:
		}
		for began := f.Now(); f.handOn(work); began = f.Now() {
			_ = wait(ctx, pause*f.Now().Sub(began))
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// handOn hands one portion on. It reports false if nothing waits.
func (f *Feed) handOn(ctx context.Context) bool {
	samples := f.take()
	if len(samples) == 0 {
		return false
	}
	for _, take := range f.takers {
		take(ctx, samples)
	}
	return true
}

// take removes the oldest portion, and says in the log when the feed falls behind and when it has caught up.
func (f *Feed) take() []Sample {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notice()
	n := min(len(f.waiting), portion)
	samples := f.waiting[:n:n]
	f.waiting = f.waiting[n:]
	if len(f.waiting) == 0 {
		f.waiting = nil // the array goes too
	}
	switch {
	case f.behind.IsZero():
	case !f.told:
		f.Logger.Warn("heartbeats come faster than the console, history and health can take: these are late, or leave some out",
			"waiting", len(f.waiting), "dropped", f.dropped)
		f.told = true
	case len(f.waiting) == 0:
		f.Logger.Info("the console, history and health keep up again", "dropped", f.dropped, "since", f.behind)
		f.behind = time.Time{}
		f.told = false
	}
	return samples
}
