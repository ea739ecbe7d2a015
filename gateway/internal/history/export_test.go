package history

import (
	"context"
	"time"

	"muster/store/history"
)

// Close writes what waits, as at the end of Run.
func (b *Book) Close(ctx context.Context) error {
	b.write(ctx)
	return b.close()
}

// File is what the Book writes to.
func (b *Book) File() *history.File { return b.file }

// Waiting is how many samples wait, and how many were dropped.
func (b *Book) Waiting() (waiting, dropped int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, b.dropped
}

// WasSet tells whether the clock was set between two readings of it.
func WasSet(last, now time.Time, passed time.Duration) bool { return wasSet(last, now, passed) }
