// Package gcpace sets how much garbage the program lets gather before the collector runs.
//
// By itself Go lets as much gather as there is live memory. A gateway with few nodes keeps little, and its requests leave much behind:
// the collector would run many times a second, and shrink the stacks of all connections each time. With 128 nodes that was seen to
// cost a third of the heartbeats.
package gcpace

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	look   = time.Second
	usual  = 100      // percent of the live memory, Go's own setting
	most   = 800      // percent: what grows in the second until the next look stays within bounds
	always = 64 << 20 // bytes that may gather besides, however little is live
	step   = 20       // percent: smaller changes are not worth the short stop that each costs
)

// Run sets the pace by what is live, again and again until ctx ends. Then it sets the pace that was there before.
func Run(ctx context.Context) error {
	now := most
	before := debug.SetGCPercent(now)
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if next := percent(live()); next > now+step || next < now-step {
				debug.SetGCPercent(next)
				now = next
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// live is how many bytes the last collection left.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percent is the garbage that may gather, in percent of the live memory.
func percent(live uint64) int {
	if live == 0 { // nothing was collected yet
		return most
	}
	return min(most, usual+int(usual*always/live))
}
