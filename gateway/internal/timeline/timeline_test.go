package timeline_test

import (
	"testing"
	"time"

	"muster/gateway/internal/timeline"
)

// TestRealClock: with the machine's own clock, which nobody sets here, nothing is noticed, by however many at once.
func TestRealClock(t *testing.T) {
	var c timeline.Clock
	c.Begin(time.Time{}, "")
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			var last time.Duration
			for range 10_000 {
				_, up := c.Read()
				if up < last {
					t.Errorf("the time that has passed went back from %s to %s", last, up)
				}
				last = up
			}
		}()
	}
	for range 4 {
		<-done
	}
	if !c.Settled() {
		t.Errorf("got steps %+v", c.Take())
	}
}
