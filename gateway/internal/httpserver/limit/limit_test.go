package limit_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/httpserver/limit"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// clock is set by the test.
type clock struct{ now time.Time }

func (c *clock) limiter(burst int, every time.Duration, keys int) *limit.Limiter {
	return limit.New(limit.Config{Burst: burst, Every: every, Keys: keys, Now: func() time.Time { return c.now }})
}

// allowed is how many of a number of calls in a row are let in.
func allowed(l *limit.Limiter, key string, calls int) (n int) {
	for range calls {
		if l.Take(key) == 0 {
			n++
		}
	}
	return n
}

func TestTake(t *testing.T) {
	c := &clock{start}
	l := c.limiter(10, 6*time.Second, 0)
	if got := allowed(l, "a", 30); got != 10 {
		t.Errorf("%d in a row, want 10", got)
	}
	if got := l.Take("a"); got != 6*time.Second {
		t.Errorf("it has to wait %s, want 6s", got)
	}
	if l.Over("b") {
		t.Error("another caller is held up")
	}
	c.now = start.Add(5 * time.Second)
	if got := l.Take("a"); got != time.Second {
		t.Errorf("5 s later it has to wait %s, want 1s", got)
	}
	c.now = start.Add(6 * time.Second)
	if got := allowed(l, "a", 5); got != 1 {
		t.Errorf("after the interval: %d, want 1", got)
	}
	c.now = start.Add(time.Hour)
	if got := allowed(l, "a", 30); got != 10 {
		t.Errorf("after a long while: %d, want 10", got)
	}
}

// TestOnce: a burst of one is once in each interval.
func TestOnce(t *testing.T) {
	c := &clock{start}
	l := c.limiter(1, time.Minute, 0)
	for _, at := range []struct {
		after time.Duration
		over  bool
	}{{0, false}, {0, true}, {59 * time.Second, true}, {time.Minute, false}, {time.Minute, true}} {
		c.now = start.Add(at.after)
		if got := l.Over("a"); got != at.over {
			t.Errorf("after %s: over is %v", at.after, got)
		}
	}
}

func TestMinute(t *testing.T) {
	c := &clock{start}
	l := limit.Minute(20, 2, func() time.Time { return c.now })
	if got := allowed(l, "a", 50); got != 20 {
		t.Errorf("%d at once, want 20", got)
	}
	c.now = start.Add(30 * time.Second)
	if got := allowed(l, "a", 50); got != 10 {
		t.Errorf("%d half a minute later, want 10", got)
	}
	allowed(l, "b", 1)
	if got := allowed(l, "c", 12) + allowed(l, "d", 12); got != 20 {
		t.Errorf("the third and the fourth key have %d together, want 20", got)
	}
}

func TestNoLimit(t *testing.T) {
	l := (&clock{start}).limiter(1, 0, 0)
	if got := allowed(l, "a", 100); got != 100 {
		t.Errorf("%d of 100", got)
	}
}

// TestClockIsSet: after the clock was ahead and is set back, no caller waits until that time. After the clock is set forward, no caller
// loses its allowance.
func TestClockIsSet(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, 10 * time.Hour, 10 * 365 * 24 * time.Hour, -time.Hour, -10 * 365 * 24 * time.Hour} {
		c := &clock{start}
		l := c.limiter(10, time.Minute, 0)
		allowed(l, "a", 20)
		c.now = start.Add(step)
		if got := allowed(l, "a", 20); got != 10 {
			t.Errorf("set by %s: %d, want 10", step, got)
		}
		if got := allowed(l, "b", 20); got != 10 {
			t.Errorf("set by %s: another caller: %d, want 10", step, got)
		}
	}
}

// TestKeysAreBounded: callers beyond the number that is remembered share one allowance, those that are known keep theirs, and all
// of them have room again when the others' allowances are whole.
func TestKeysAreBounded(t *testing.T) {
	c := &clock{start}
	l := c.limiter(10, 6*time.Second, 100)
	for i := range 100 {
		if l.Over(strconv.Itoa(i)) {
			t.Fatalf("caller %d is held up", i)
		}
	}
	late := 0
	for i := range 50 {
		if !l.Over("late" + strconv.Itoa(i)) {
			late++
		}
	}
	if late != 10 {
		t.Errorf("%d of those beyond the bound are let in, want 10", late)
	}
	if got := allowed(l, "7", 20); got != 9 {
		t.Errorf("one that is known has %d left, want 9", got)
	}
	c.now = start.Add(7 * time.Second)
	if got := allowed(l, "late", 20); got != 10 {
		t.Errorf("when there is room again: %d, want 10", got)
	}
	if got := allowed(l, "7", 20); got != 1 {
		t.Errorf("one that used its allowance up got %d, want 1", got)
	}
}

func TestSideBySide(t *testing.T) {
	l := limit.New(limit.Config{Burst: 100, Every: time.Hour})
	var group sync.WaitGroup
	var taken atomic.Int64
	for range 8 {
		group.Go(func() { taken.Add(int64(allowed(l, "a", 50))) })
	}
	group.Wait()
	if taken.Load() != 100 {
		t.Errorf("%d were let in, want 100", taken.Load())
	}
}
