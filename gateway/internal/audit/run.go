package audit

import (
	"context"
	"time"
)

const (
	settleEvery = 20 * time.Second
	lastSettle  = 5 * time.Second // for the last numbers, when the program ends
)

// Run settles now and then until ctx ends, and then settles everything that is left.
func (t *Trail) Run(ctx context.Context) error {
	often := time.NewTicker(settleEvery)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			t.Settle(ctx, false)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSettle)
			defer cancel()
			t.Settle(last, true)
			return nil
		}
	}
}
