package audit

// This file deletes what is kept no longer: old events, tasks, sessions and uses of GPUs that ended as long ago, the scripts of bootstrap
// tokens that ended, the chains of certificates that did, and what is left of old releases' pointers and rollouts.

import (
	"context"
	"log/slog"
	"time"

	"muster/store"
	"muster/store/placement"
	"muster/store/releases"
	"muster/store/sessions"
)

const (
	every = time.Hour
	first = 10 * time.Minute // after the start, by when the clock of a machine that has just booted is right
	batch = 5000             // rows that go in one write
	tasks = 50               // tasks that go in one write: each may have a file of many MiB
)

// keepFor is how long the script of a bootstrap token stays after the token has ended, and the chain of a certificate after the
// certificate has; and what a retired node said of its updates, and the pointers and rollouts that later ones have replaced.
const keepFor = 30 * 24 * time.Hour

// Keeper deletes in the background. Its fields do not change while Run runs.
type Keeper struct {
	Store  *store.Store
	Events time.Duration // how long events, ended tasks, ended sessions and uses of GPUs are kept; 0: for ever
	Logger *slog.Logger
}

// Run looks every hour until ctx ends.
func (k Keeper) Run(ctx context.Context) error {
	clock := steadyClock{time.Now()}
	next := time.NewTimer(first)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			next.Reset(every)
			if now := time.Now(); clock.steady(now, now.Sub(clock.at)) {
				k.prune(ctx, now)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// steadyClock notices that the clock was set since the last look. Then nothing is deleted this time: where the clock is far ahead,
// everything looks old.
type steadyClock struct{ at time.Time } // the last look

// steady tells whether the clock has gone on since the last look as time has.
func (c *steadyClock) steady(now time.Time, passed time.Duration) bool {
	step := now.Round(0).Sub(c.at.Round(0)) - passed
	c.at = now
	return step.Abs() < time.Minute
}

func (k Keeper) prune(ctx context.Context, now time.Time) {
	before := now.Add(-keepFor)
	if k.Events > 0 {
		k.pruneEnded(ctx, now.Add(-k.Events), now)
	}
	k.report(ctx, "chains of old certificates are not dropped", inBatches(batch, func() (int, error) {
		return k.Store.DropChains(ctx, before, batch)
	}))
	k.report(ctx, "scripts of old bootstrap tokens are not dropped", k.Store.DropScripts(ctx, before))
	k.report(ctx, "what is left of old rollouts is not deleted", releases.New(k.Store.Records()).Prune(ctx, before, batch))
}

// pruneEnded deletes events, tasks, sessions and uses of GPUs that are older than they are kept. Each batch of events is an event itself.
func (k Keeper) pruneEnded(ctx context.Context, before, now time.Time) {
	note := store.Event{At: now, Kind: "events.pruned", Actor: "gateway", Outcome: store.OutcomeOK, Security: true}
	k.report(ctx, "old events are not deleted", inBatches(batch, func() (int, error) {
		return k.Store.PruneEvents(ctx, before, batch, note)
	}))
	k.report(ctx, "old tasks are not deleted", inBatches(tasks, func() (int, error) { return k.Store.PruneTasks(ctx, before, tasks) }))
	rows := sessions.New(k.Store.Records())
	uses := placement.New(k.Store.Records())
	k.report(ctx, "old uses of GPUs are not deleted", inBatches(batch, func() (int, error) { return uses.PruneUses(ctx, before, batch) }))
	k.report(ctx, "old sessions are not deleted", inBatches(batch, func() (int, error) { return rows.Prune(ctx, before, batch) }))
}

// inBatches deletes until one time less goes than a batch has.
func inBatches(size int, prune func() (int, error)) error {
	for {
		if n, err := prune(); err != nil || n < size {
			return err
		}
	}
}

func (k Keeper) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		k.Logger.Error(what, "error", err)
	}
}
