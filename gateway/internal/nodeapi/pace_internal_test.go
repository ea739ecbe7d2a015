package nodeapi

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	p := &pace{every: time.Minute}
	for i := range paceBurst + 5 {
		if got, want := p.take("a", now), i < paceBurst; got != want {
			t.Errorf("number %d in a row: %v, want %v", i+1, got, want)
		}
	}
	if !p.take("b", now) {
		t.Error("another node is held up")
	}
	if now = now.Add(time.Minute); !p.take("a", now) || p.take("a", now) {
		t.Error("after a minute it is one more, and one only")
	}
	if now = now.Add(time.Hour); !p.take("a", now) || len(p.full) != 1 {
		t.Errorf("after an hour %d nodes are remembered", len(p.full))
	}
	if free := (&pace{}); !free.take("a", now) || free.full != nil {
		t.Error("no bound remembers nothing")
	}
}

// TestPaceWhenTheClockIsSet: what was taken by a clock that was ahead holds no node up until that time has come.
func TestPaceWhenTheClockIsSet(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{10 * time.Hour, 10 * 365 * 24 * time.Hour} {
		p := &pace{every: time.Minute}
		for range paceBurst {
			p.take("a", now.Add(ahead))
		}
		for i := range paceBurst + 2 {
			if got, want := p.take("a", now), i < paceBurst; got != want {
				t.Errorf("ahead by %s: number %d: %v, want %v", ahead, i+1, got, want)
			}
		}
	}
}
