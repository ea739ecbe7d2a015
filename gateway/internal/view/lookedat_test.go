package view_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view"
)

// TestLookedAt: by the gateway's clock, never after the heartbeat that tells it, and never longer ago than an agent keeps a list.
func TestLookedAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		said   time.Time
		skew   int64 // milliseconds
		before time.Duration
	}{
		"not said":               {time.Time{}, 0, 0},
		"as it is":               {at.Add(-3 * time.Minute), 0, 3 * time.Minute},
		"of a slow clock":        {at.Add(-time.Hour), (57 * time.Minute).Milliseconds(), 3 * time.Minute},
		"of a fast clock":        {at.Add(time.Hour), -(63 * time.Minute).Milliseconds(), 3 * time.Minute},
		"in the future":          {at.Add(time.Minute), 0, 0},
		"long ago":               {at.Add(-time.Hour), 0, 15 * time.Minute},
		"with an absurd skew":    {at.Add(-3 * time.Minute), wire.MaxSkewMillis, 0},
		"with one the other way": {at.Add(-3 * time.Minute), -wire.MaxSkewMillis, 15 * time.Minute},
	} {
		s := view.Sample{At: at, SkewMillis: c.skew}
		if got := at.Sub(s.LookedAt(&wire.Processes{At: c.said})); got != c.before {
			t.Errorf("%s: %v before the heartbeat, want %v", name, got, c.before)
		}
	}
}
