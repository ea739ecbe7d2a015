package screen

import (
	"testing"
	"time"
)

func TestPrice(t *testing.T) {
	for price, want := range map[float64]string{0: "0.00", 3: "3.00", 0.5: "0.50", 1.99: "1.99", 0.625: "0.625", 1.0 / 3: "0.3333", 1234.5: "1234.50"} {
		if got := Price(&price); got != want {
			t.Errorf("%v: got %q, want %q", price, got, want)
		}
	}
	if got := Price(nil); got != Unknown {
		t.Errorf("unknown: got %q", got)
	}
}

// TestWhen: an end that was two hours away a moment ago is still in two hours; what has passed is rounded down.
func TestWhen(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		2*time.Hour - time.Second: "in 2h", 90 * time.Minute: "in 1h", time.Hour - time.Millisecond: "in 1h",
		59*time.Minute + 59*time.Second: "in 59m", time.Millisecond: "in 1s", 7*24*time.Hour - time.Minute: "in 7d",
		36 * time.Hour: "in 1d", 0: "0s ago", -2*time.Hour + time.Second: "1h ago",
	} {
		if got := When(now, now.Add(d)); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
