package main

import (
	"context"
	"time"

	"muster/store"
)

// pruneEvery is how often old events are looked for; pruneBatch is how many go in one batch.
const (
	pruneEvery = time.Hour
	pruneFirst = 10 * time.Minute // after the start, by when the clock of a machine that has just booted is right
	pruneBatch = 5000
)

// keepFor is how long the script of a bootstrap token stays after the token's end, for who asks for it is then told why it is gone,
// and the chain of a certificate after the certificate's.
const keepFor = 30 * 24 * time.Hour

// settleEvery is how often the numbers of what was too much to be recorded one by one are.
const settleEvery = 20 * time.Second

// keepHouse deletes what is kept no longer, and records what was only counted, until ctx ends.
func (g *gateway) keepHouse(ctx context.Context) {
	hour, often := time.NewTicker(pruneEvery), time.NewTicker(settleEvery)
	defer hour.Stop()
	defer often.Stop()
	first, clock := time.NewTimer(pruneFirst), steadyClock{time.Now()}
	defer first.Stop()
	look := func() {
		if now := time.Now(); clock.steady(now, now.Sub(clock.at)) {
			g.prune(ctx, now)
		}
	}
	for {
		select {
		case <-first.C:
			look()
		case <-hour.C:
			look()
		case <-often.C:
			g.bootstrap.Settle(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// steadyClock keeps what a clock that was just set says from deleting anything: far ahead, it makes all of it look old.
type steadyClock struct{ at time.Time } // the last look

// steady tells whether the clock has gone on since the last look as time has.
func (c *steadyClock) steady(now time.Time, passed time.Duration) bool {
	step := now.Round(0).Sub(c.at.Round(0)) - passed
	c.at = now
	return step.Abs() < time.Minute
}

// prune deletes events that are older than the operator keeps them, each batch of which is an event itself, the scripts of
// tokens that ended long ago, and the chains of certificates that did.
func (g *gateway) prune(ctx context.Context, now time.Time) {
	if g.settings.retention != 0 {
		if err := g.pruneOnce(ctx, now); err != nil && ctx.Err() == nil {
			g.log.Error("old events are not deleted", "error", err)
		}
	}
	if err := g.dropChains(ctx, now.Add(-keepFor)); err != nil && ctx.Err() == nil {
		g.log.Error("chains of old certificates are not dropped", "error", err)
	}
	if err := g.store.DropScripts(ctx, now.Add(-keepFor)); err != nil && ctx.Err() == nil {
		g.log.Error("scripts of old bootstrap tokens are not dropped", "error", err)
	}
}

func (g *gateway) dropChains(ctx context.Context, before time.Time) error {
	for {
		n, err := g.store.DropChains(ctx, before, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}

func (g *gateway) pruneOnce(ctx context.Context, now time.Time) error {
	before := now.Add(-time.Duration(g.settings.retention))
	note := store.Event{At: now, Kind: "events.pruned", Actor: "gateway", Outcome: store.OutcomeOK, Security: true}
	for {
		n, err := g.store.PruneEvents(ctx, before, pruneBatch, note)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
