// Package fleet keeps the fleet's nodes: who they are, where they are in their life, when they were last heard.
//
// The database is the truth. Two things live in memory beside it. Heartbeats wait there for the next flush, a few seconds
// at most; a crash loses that much of last_seen and nothing else. Identities are cached because every request of a node
// needs one; each change of a node drops its entries before the change is answered.
package fleet

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"muster/gateway/internal/limit"
	"muster/gateway/internal/replay"
	"muster/gateway/internal/timeline"
	"muster/store"
)

const (
	defaultFlush  = 2 * time.Second
	usualInterval = 30 * time.Second // of heartbeats
)

// Config says what a Fleet works with. Zero fields mean the usual.
type Config struct {
	Store      *store.Store
	Now        func() time.Time
	Elapsed    func() time.Duration // since any moment, as no setting of the clock changes it; nil: Now's monotonic readings tell
	FlushEvery time.Duration        // how long a heartbeat may live in memory alone; 2 s
	RenewGrace time.Duration        // how long an expired certificate may still renew; 0: not at all
	Logger     *slog.Logger
	// CountAgain counts an event that is like one of the last minute, and tells so; the others are recorded. Nil: all are recorded.
	CountAgain func(context.Context, store.Event) bool
}

// Fleet is safe for concurrent use.
type Fleet struct {
	store *store.Store
	clock timeline.Clock
	now   func() time.Time // of the clock
	flush time.Duration
	grace time.Duration
	log   *slog.Logger
	again func(context.Context, store.Event) bool

	beats struct {
		sync.Mutex
		live map[string]*live // by node id
	}
	replays struct {
		sync.Mutex
		byNode map[string]*replay.Memory
	}
	strays   *limit.Limiter // uses of ancient certificates that are put on record, by fingerprint
	flushing sync.Mutex     // one flush at a time, so that a reader can wait for it
	cache    identityCache
}

// Open makes a Fleet on a store.
func Open(ctx context.Context, c Config) (*Fleet, error) {
	r := &Fleet{store: c.Store, flush: c.FlushEvery, grace: c.RenewGrace, log: c.Logger, again: c.CountAgain}
	r.clock.Wall = c.Now
	r.clock.Elapsed = c.Elapsed
	r.now = r.clock.Now
	if r.flush == 0 {
		r.flush = defaultFlush
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.beats.live = map[string]*live{}
	r.replays.byNode = map[string]*replay.Memory{}
	r.cache.init()
	r.strays = limit.New(limit.Config{Burst: 1, Every: strayPause, Keys: strayKeys, Now: r.now})
	return r, r.begin(ctx)
}

// begin takes over from the gateway before, whose clock may have been ahead of this one.
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
	ahead, err := f.store.Ahead(ctx, f.now())
	if err != nil || !ahead {
		return err
	}
	return f.store.SetBack(ctx, store.SetBack{Now: f.now(), RecoveryKind: recoveryAllowed})
}

// cameBack is for a gateway that was away, or whose predecessor's clock was behind: both look the same.
func (f *Fleet) cameBack(ctx context.Context, gap time.Duration) error {
	if gap < timeline.StepGap {
		return nil
	}
	return errors.Join(f.store.SetForward(ctx, gap), f.noteAbsences(ctx))
}

// Run flushes heartbeats until ctx ends, and once more then. Now and then it sweeps.
func (f *Fleet) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.flush)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-ticker.C:
			if err := f.Flush(ctx); err != nil && ctx.Err() == nil {
				f.log.Error("heartbeats wait in memory: the database takes no writes", "error", err)
			}
			if tick%sweepEvery != 0 {
				continue
			}
			if err := f.Sweep(ctx); err != nil && ctx.Err() == nil {
				f.log.Error("nodes whose certificates end were not looked for", "error", err)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return f.Flush(last)
		}
	}
}

// ref is what statuses are computed against now.
func (f *Fleet) ref() store.StatusRef { return f.clock.Ref() }
