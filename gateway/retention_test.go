package main

import (
	"testing"
	"time"
)

// TestSteadyClock: a clock that was set since the last look deletes nothing.
func TestSteadyClock(t *testing.T) {
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c := steadyClock{begin}
	now := begin
	for i, step := range []struct {
		passed, set time.Duration
		want        bool
	}{
		{time.Hour, 0, true}, {time.Hour, 3 * time.Second, true}, {time.Hour, 10 * 365 * 24 * time.Hour, false}, {time.Hour, 0, true},
		{time.Hour, -10 * time.Hour, false}, {time.Hour, 0, true},
	} {
		now = now.Add(step.passed + step.set)
		if got := c.steady(now, step.passed); got != step.want {
			t.Errorf("look %d: got %v, want %v", i, got, step.want)
		}
	}
}
