package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// heapGrowth is by how many percent the heap may grow before the next garbage collection. The agent allocates little, so an early
	// collection costs almost no time, and it leaves more of the node's memory to others.
	heapGrowth = 25
	// mostCores bounds how many cores the runtime keeps memory for. A node may have hundreds, and the agent needs two.
	mostCores = 2

	settled   = 15 * time.Second // until the first time: an enrolment needs more memory than reports do
	giveEvery = time.Minute      // between two times: each takes about a millisecond
)

// beSmall keeps the runtime from using memory to save time. The variables GOGC and GOMAXPROCS win.
func beSmall(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(mostCores, runtime.GOMAXPROCS(0)))
	}
}

// giveMemoryBack returns unused memory of the heap to the system every minute until ctx is done. The runtime by itself keeps it for
// later, and the agent does not need it later.
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
