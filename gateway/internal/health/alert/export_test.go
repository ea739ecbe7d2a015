package alert

import (
	"context"
	"time"
)

// Send tells receivers what is due, and waits until they have answered. Nothing is written.
func (d *Service) Send(ctx context.Context) {
	d.send(ctx)
	d.busy.Wait()
}

// Begin tells receivers what is due, and does not wait.
func (d *Service) Begin(ctx context.Context) { d.send(ctx) }

// Settle waits until receivers have answered.
func (d *Service) Settle() { d.busy.Wait() }

// Flush writes what has changed.
func (d *Service) Flush(ctx context.Context) { d.flush(ctx) }

// Prune forgets what is old.
func (d *Service) Prune(ctx context.Context) { d.prune(ctx) }

// Pause is how long to wait after so many failures.
func Pause(tries int, chance float64) time.Duration { return pause(tries, chance) }

const (
	LongestPause = longestPause
	MostPause    = mostPause
	FirstPause   = firstPause
)
