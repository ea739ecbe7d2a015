package history

import (
	"context"
	"time"

	"muster/store/history"
)

// Close writes what waits, as at the end of Run.
func (b *Store) Close(ctx context.Context) error {
	b.write(ctx)
	return b.close()
}

// File is what the Store writes to.
func (b *Store) File() *history.File { return b.file }

// Waiting is how many samples wait, and how many were dropped.
func (b *Store) Waiting() (waiting, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.dropped
}

// Steady is for how long the clock was steady, after two readings of it.
func Steady(before time.Duration, last, now time.Time, passed time.Duration) time.Duration {
	return steady(before, last, now, passed)
}

// GiveCopies gives what waits for other gateways, as Run does beside its own work.
func (b *Store) GiveCopies(ctx context.Context) {
	for len(b.copies.waiting) > 0 {
		b.give(ctx, <-b.copies.waiting)
	}
}
