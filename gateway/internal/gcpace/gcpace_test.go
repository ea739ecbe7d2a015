package gcpace

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: most, 1: most, 4 << 20: most, 16 << 20: 500, 64 << 20: 200, 640 << 20: 110, 64 << 30: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d MiB live: %d percent, want %d", live>>20, got, want)
		}
	}
}

// TestRun: the pace is set while Run goes on, follows what is live, and is given back.
func TestRun(t *testing.T) {
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Run(ctx) }()
		synctest.Wait()
		if got := debug.SetGCPercent(most); got != most {
			t.Errorf("at the start: %d percent, want %d", got, most)
		}
		kept := make([]byte, 256<<20)
		debug.FreeOSMemory() // a collection
		time.Sleep(2 * look)
		synctest.Wait()
		if got := debug.SetGCPercent(usual); got > 130 {
			t.Errorf("with 256 MiB live: %d percent", got)
		}
		kept[0] = 1
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("afterwards: %d percent, want what was set before", got)
	}
}
