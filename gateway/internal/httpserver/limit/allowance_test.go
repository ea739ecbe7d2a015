package limit_test

import (
	"testing"
	"time"

	"muster/gateway/internal/httpserver/limit"
)

// TestAllowance: five at once, then one in each pause; a clock that is set back takes nothing away for ever.
func TestAllowance(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var a limit.Allowance
	take := func(after time.Duration) (n int) {
		now = now.Add(after)
		for a.Take(now, time.Minute) {
			n++
		}
		return n
	}
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 5}, {59 * time.Second, 0}, {time.Second, 1}, {2 * time.Minute, 2}, {time.Hour, 5}, {-48 * time.Hour, 5}, {time.Minute, 1}} {
		if got := take(c.after); got != c.want {
			t.Errorf("step %d: %d are let through, want %d", i, got, c.want)
		}
	}
}
