package rollout

import (
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/store/releases"
)

// WatchTime is how long a node is watched after its rollout was done or, if that was later, after it took the release.
const WatchTime = time.Hour

// An agent's memory has grown too much where it is so many times what it was, and no small number. An idle agent takes 13 MiB, and one
// that carries many sessions takes some times that.
const (
	tooMuchGrowth  = 5
	leastTooMuch   = 100 << 10 // KiB
	crashCountSlip = time.Minute
)

// Vitals is how a node's agent does, as its heartbeats say.
type Vitals struct {
	Crashes   int    // within wire.StartsWindow; 0 also if it does not say
	Crashed   string // how the last run that crashed ended; "": it does not say
	MemoryKiB int64  // that it did not fall below in its last heartbeats; 0: not known
}

// watches tells whether it counts how a node does with the release.
func (r *round) watches(row releases.Node) bool {
	switch {
	case row.State != Committed:
		return false
	case r.o.EndedAt == nil:
		return true
	}
	since := *r.o.EndedAt
	if row.ChangedAt.After(since) {
		since = row.ChangedAt
	}
	return r.o.State == releases.Done && r.Now.Sub(since) < WatchTime
}

// ill says what is not well with a node since it took the release; "": it is well.
func ill(row releases.Node, n Standing) string {
	crashes := n.Crashes
	if n.Seen.Sub(row.ChangedAt) < wire.StartsWindow+crashCountSlip { // those before the commit are still among them
		crashes -= row.Crashes
	}
	switch {
	case crashes > 0 && n.Crashed != "":
		return fmt.Sprintf("since then its agent ended by itself (%d): %s", crashes, n.Crashed)
	case crashes > 0:
		return fmt.Sprintf("since then its agent ended by itself (%d), and left no word", crashes)
	case n.Severe != "":
		return "with it came " + n.Severe
	case row.MemoryKiB > 0 && n.MemoryKiB >= max(tooMuchGrowth*row.MemoryKiB, leastTooMuch):
		return fmt.Sprintf("its agent's memory grew from %d to %d MiB", row.MemoryKiB>>10, n.MemoryKiB>>10)
	}
	return ""
}
