package livestream

import (
	"context"
	"slices"
	"time"

	"muster/gateway/internal/audit"
)

// Guard waits while somebody may still read an answer that goes on, and returns why that is over: the error of still, or of ctx. It looks
// again after each event about accounts, and now and then besides.
func Guard(ctx context.Context, log *audit.Tail, still func() error) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	after := log.Last()
	for {
		events, lost, news := log.After(after)
		if len(events) > 0 {
			after = events[len(events)-1].ID
		}
		if lost {
			after = log.Last()
		}
		if lost || slices.ContainsFunc(events, endsAccounts) {
			if err := still(); err != nil {
				return err
			}
		}
		select {
		case <-news:
		case <-ticker.C:
			if err := still(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
