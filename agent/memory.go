package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// heapGrowth is by how many percent the heap may grow before it is collected. The agent allocates little and seldom, so an
	// early collection costs next to no time and keeps the node's memory free.
	heapGrowth = 25
	// mostCores bounds what the runtime keeps ready for each core: a node may have hundreds, and the agent has no use for them.
	mostCores = 2

	settled   = 15 * time.Second // after the start: joining takes more memory than reporting does
	giveEvery = time.Minute      // a collection takes about a millisecond
)

// beSmall keeps the runtime from spending a node's memory to save the agent time. What the environment says wins.
func beSmall(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(mostCores, runtime.GOMAXPROCS(0)))
	}
}

// giveMemoryBack returns to the system what the heap holds and does not use, now and then until the context ends: by itself
// the runtime keeps it for a rush that does not come.
func giveMemoryBack(ctx context.Context) error {
	timer := time.NewTimer(settled)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			debug.FreeOSMemory()
			timer.Reset(giveEvery)
		case <-ctx.Done():
			return nil
		}
	}
}
