package main

import (
	"context"
	"time"

	"muster/store"
)

// pruneEvery is how often old events are looked for; pruneBatch is how many go in one batch.
const (
	pruneEvery = time.Hour
	pruneBatch = 5000
)

// prune deletes events that are older than the operator keeps them, now and then until ctx ends. Each batch is an event itself.
func (g *gateway) prune(ctx context.Context) {
	if g.settings.retention == 0 {
		return
	}
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if err := g.pruneOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			g.log.Error("old events are not deleted", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (g *gateway) pruneOnce(ctx context.Context, now time.Time) error {
	before := now.Add(-time.Duration(g.settings.retention))
	note := store.Event{At: now, Kind: "events.pruned", Actor: "gateway", Outcome: "ok", Security: true}
	for {
		n, err := g.store.PruneEvents(ctx, before, pruneBatch, note)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}
