package daemon

// This file sets how much garbage the program lets gather before the collector runs.
//
// By itself Go lets as much gather as there is live memory. That is too little for a gateway with few nodes: it keeps little, and its
// requests leave much behind. The collector would run many times a second, and shrink the stacks of all connections each time. With
// 128 nodes that was seen to cost a third of the heartbeats. It is too much for a gateway with many nodes that report at their usual
// pace: half of its memory would be garbage. So the pace goes by how fast garbage comes.

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	look   = time.Second / 4
	usual  = 100      // percent of the live memory, Go's own setting
	most   = 800      // percent: what grows until the next look stays within bounds
	least  = 10       // percent: with less the collector would run too often, and each run costs in proportion to the live memory
	always = 64 << 20 // bytes that may gather however little is live
	apart  = 16       // looks from one collection to the next, where garbage comes slowly: each marks the memory of all nodes again
	step   = 8        // a change by less than this part is not worth the short stop that it costs
)

// Collect sets the pace by what is live, again and again until ctx ends. Then it sets the pace that was there before.
func Collect(ctx context.Context) error {
	now := most
	before := debug.SetGCPercent(now)
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	made := read(allocated)
	for {
		select {
		case <-ticker.C:
			last := made
			made = read(allocated)
			if next := percent(read(live), made-last); next > now+now/step || next < now-now/step {
				debug.SetGCPercent(next)
				now = next
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// What runtime/metrics tells, in bytes.
const (
	live      = "/gc/heap/live:bytes"   // what the last collection left
	allocated = "/gc/heap/allocs:bytes" // since the program started
)

func read(metric string) uint64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percent is the garbage that may gather, in percent of the live memory. made is what was allocated since the last look.
func percent(live, made uint64) int {
	if live == 0 { // nothing was collected yet
		return most
	}
	garbage := max(always, min(apart*made, always+live*usual/100))
	return int(min(most, max(least, 100*garbage/live)))
}
