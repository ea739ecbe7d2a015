package daemon

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, made uint64
		want       int
	}{
		{0, 0, most}, {1, 0, most}, {4 * mib, 900 * mib, most}, {16 * mib, 0, 400}, // few nodes
		{16 * mib, 900 * mib, 500}, {64 * mib, 900 * mib, 200}, {640 * mib, 900 * mib, 110}, {64 << 30, 64 << 30, 100}, // in a rush
		{64 * mib, 0, 100}, {640 * mib, 2 * mib, 10}, {640 * mib, 20 * mib, 50}, {64 << 30, 0, least}, // at an easy pace
	} {
		if got := percent(c.live, c.made); got != c.want {
			t.Errorf("%d MiB live, %d MiB made in a look: %d percent, want %d", c.live/mib, c.made/mib, got, c.want)
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
		go func() { done <- Collect(ctx) }()
		synctest.Wait()
		if got := debug.SetGCPercent(most); got != most {
			t.Errorf("at the start: %d percent, want %d", got, most)
		}
		kept := make([]byte, 256<<20)
		debug.FreeOSMemory() // a collection
		time.Sleep(2 * look)
		synctest.Wait()
		if got := debug.SetGCPercent(usual); got > 30 {
			t.Errorf("with 256 MiB live, and nothing new: %d percent", got)
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
