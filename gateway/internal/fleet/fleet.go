// Package fleet keeps the fleet's nodes: who they are, which state they are in, and when they were last heard.
//
// The database is the truth. Two things live in memory beside it. Heartbeats wait there for the next flush, a few seconds
// at most. Readings are stored when more than their figures has changed, or after ten minutes: see package report. A crash loses
// these seconds of last_seen, the figures of these minutes, and nothing else. Identities are cached because every request of a node
// needs one. Each change of a node drops its entries before the change is answered.
//
// Locks nest in one order: flushing first, then the lock of beats or of the cache. Nobody calls watch while holding a lock,
// because watch may take flushing.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/httpserver/limit/uptime"
	"muster/gateway/internal/view"
	"muster/store"
)

const defaultFlush = 2 * time.Second

// Config says what a Fleet works with. A zero field means the default.
type Config struct {
	Store      *store.Store
	Now        func() time.Time
	Elapsed    func() time.Duration // time since any fixed moment; setting the clock must not change it; nil: from Now's monotonic readings
	FlushEvery time.Duration        // how long a heartbeat may live in memory alone; 0: 2 s
	RenewGrace time.Duration        // how long an expired certificate may still renew; 0: not at all
	Logger     *slog.Logger
	// CountAgain counts an event that comes too often, and then returns true: the Fleet does not record it. Nil: the Fleet
	// records every event.
	CountAgain func(context.Context, store.Event) bool
	Written    func([]view.Sample) // gets each batch of heartbeats after it is in the database, and must not wait; nil: nobody
}

// Fleet is safe for concurrent use.
type Fleet struct {
	store *store.Store
	clock uptime.Clock
	stood atomic.Bool      // the gateway stood still, and the database does not have that absence yet
	now   func() time.Time // clock.Now
	flush time.Duration
	grace time.Duration
	log   *slog.Logger
	again func(context.Context, store.Event) bool
	wrote func([]view.Sample)

	counts func(nodeID string, interval time.Duration, words []string, detail map[string]string) []string // as CountBy says

	beats struct {
		sync.Mutex
		live map[string]*live // by node id
	}
	replays struct {
		sync.Mutex
		byNode map[string]*limit.Memory
	}
	strays   *limit.Limiter // limits the events about uses of long expired certificates, by fingerprint
	flushing sync.Mutex     // one flush at a time; who holds it knows that no flush writes what was heard earlier
	cache    identityCache
}

// Open makes a Fleet on a store.
func Open(ctx context.Context, c Config) (*Fleet, error) {
	f := &Fleet{store: c.Store, flush: c.FlushEvery, grace: c.RenewGrace, log: c.Logger, again: c.CountAgain, wrote: c.Written}
	f.clock.Wall = c.Now
	f.clock.Elapsed = c.Elapsed
	f.now = f.clock.Now
	f.flush = cmp.Or(f.flush, defaultFlush)
	f.log = cmp.Or(f.log, slog.New(slog.DiscardHandler))
	f.beats.live = map[string]*live{}
	f.replays.byNode = map[string]*limit.Memory{}
	f.cache.init()
	f.strays = limit.New(limit.Config{Burst: 1, Every: strayPause, Keys: strayKeys, Now: f.now})
	return f, f.begin(ctx)
}

// CountBy sets the function that says which words of a heartbeat count against work on a node now, with earlier words that still count. It
// is called at each heartbeat of a node that has looked, and must not wait. Without it the words of the last heartbeat count. CountBy is
// called before the first heartbeat.
func (f *Fleet) CountBy(counts func(nodeID string, interval time.Duration, words []string, detail map[string]string) []string) {
	f.counts = counts
}

// begin compares this start with what the previous run of the gateway left in the database. The clock of that run may have
// been ahead: then the database holds times that are in the future now.
func (f *Fleet) begin(ctx context.Context) error {
	alive, err := f.store.Meta(ctx, store.MetaAliveAt)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var aliveAt time.Time
	if millis, err := strconv.ParseInt(alive, 10, 64); err == nil {
		aliveAt = time.UnixMilli(millis)
	}
	away, err := f.store.Meta(ctx, metaAbsences)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	gap := f.clock.Begin(aliveAt, away)
	if steps := f.clock.Take(); len(steps) > 0 {
		return f.mend(ctx, steps)
	}
	if err := f.cameBack(ctx, gap); err != nil {
		return err
	}
	ahead, err := f.store.ClockAhead(ctx, f.now())
	if err != nil || !ahead {
		return err
	}
	return f.store.ClockSetBack(ctx, store.ClockStep{Now: f.now(), RecoveryKind: recoveryAllowed})
}

// cameBack handles a gap between the previous run and this one. The gateway was away, or the clock of the previous run was
// behind: both look the same from here.
func (f *Fleet) cameBack(ctx context.Context, gap time.Duration) error {
	if gap < uptime.StepGap {
		return nil
	}
	return errors.Join(f.store.ClockSetForward(ctx, gap), f.noteAbsences(ctx))
}

// Run flushes heartbeats until ctx ends, and once more after that. With every few flushes it sweeps.
func (f *Fleet) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { f.attend(ctx) })
	defer beside.Wait()
	ticker := time.NewTicker(f.flush)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-ticker.C:
			if err := errors.Join(f.Flush(ctx), f.keepAbsences(ctx)); err != nil && ctx.Err() == nil {
				f.log.Error("heartbeats wait in memory: the database cannot be written", "error", err)
			}
			if tick%sweepEvery != 0 {
				continue
			}
			if err := f.Sweep(ctx); err != nil && ctx.Err() == nil {
				f.log.Error("the search for certificates that end soon failed", "error", err)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // ctx has ended already
			defer cancel()
			return errors.Join(f.flushNow(last, true), f.keepAbsences(last))
		}
	}
}
