package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Bounds of a back-off. Every wait is at least leastWait, the first one at most firstWait, and none is longer than MaxWait.
const (
	MaxWait   = 5 * time.Minute
	firstWait = 2 * time.Second
	leastWait = 200 * time.Millisecond
)

// Backoff draws growing waits with full jitter, so that many nodes do not come back at one moment. The zero value is ready. One goroutine
// uses it.
type Backoff struct {
	failures int
}

// Next returns how long to wait before the next try: at random up to a bound that doubles with each call, until it is MaxWait.
func (b *Backoff) Next() time.Duration { return b.NextOf(1) }

// NextOf does what Next does, for a caller that tries gateways gateways in turn: the bound doubles when each of them was tried.
func (b *Backoff) NextOf(gateways int) time.Duration {
	bound := min(firstWait<<min(b.failures/max(gateways, 1), 20), MaxWait)
	b.failures++
	return leastWait + rand.N(bound-leastWait)
}

// After returns Next after a failure, but at least the time that the gateway asks for.
func (b *Backoff) After(err error) time.Duration {
	wait := b.Next()
	var refusal *Refusal
	if errors.As(err, &refusal) {
		wait = max(wait, time.Duration(refusal.RetryAfter)*time.Second)
	}
	return wait
}

// Reset starts from the beginning, after a success.
func (b *Backoff) Reset() { b.failures = 0 }

// Sleep waits. It reports false if the context was done before the end.
func Sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
