package condition_test

import (
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// TestSilence: what a silent node costs is said by its price, unless its company says that it does not run.
func TestSilence(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	heard := now.Add(-90 * time.Minute)
	const (
		since = "not heard from since 2026-11-29T10:30:00Z (1h30m)"
		down  = since + ", and its company says that it does not run: it costs "
	)
	price, disk, nothing := 2.0, 0.0024, 0.0
	for want, n := range map[string]*api.NodeRow{
		"never heard from": {PricePerHour: &price},
		since:              {LastSeen: &heard},
		"silent and still billing: " + since + ", and that has cost 3.00 at 2 an hour": {LastSeen: &heard, PricePerHour: &price},
		down + "0.0024 an hour now": {LastSeen: &heard, DownCost: &disk, PricePerHour: &price},
		down + "0 an hour now":      {LastSeen: &heard, DownCost: &nothing},
	} {
		if got := condition.Silence(n, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
