package limit_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/httpserver/limit"
)

const year = 365 * 24 * time.Hour

var begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newMemory(bound int) *limit.Memory { return &limit.Memory{Bound: bound, Window: time.Minute} }

// take uses a nonce of a request that is made at a time, a window from when it could be accepted last.
func take(m *limit.Memory, nonce string, made, now time.Time) limit.Outcome {
	return m.Take(nonce, made, made.Add(time.Minute), now)
}

func TestNonces(t *testing.T) {
	m := newMemory(100)
	end := begin.Add(time.Minute)
	for _, c := range []struct {
		nonce string
		now   time.Time
		want  limit.Outcome
	}{
		{"a", begin, limit.Fresh}, {"a", begin, limit.Repeated}, {"b", begin, limit.Fresh}, {"", begin, limit.Fresh},
		{"", begin, limit.Repeated}, {"a", end, limit.Repeated}, {"a", end.Add(time.Second), limit.Fresh},
	} {
		if got := take(m, c.nonce, begin, c.now); got != c.want {
			t.Errorf("%q at %s: got %d, want %d", c.nonce, c.now.Sub(begin), got, c.want)
		}
	}
}

// TestBound fills a memory: nothing more is taken, what is in it stays known, and there is room when its time is over.
func TestNoncesBound(t *testing.T) {
	for _, bound := range []int{4096, 300_000} {
		m := newMemory(bound)
		until := begin.Add(time.Minute)
		taken := 0
		for take(m, fmt.Sprint(taken), begin, begin) == limit.Fresh {
			if taken++; taken > bound {
				t.Fatal("there is no bound")
			}
		}
		if taken != bound {
			t.Errorf("%d are remembered, want %d", taken, bound)
		}
		if got := take(m, "one more", begin, begin); got != limit.Full {
			t.Errorf("got %d, want full", got)
		}
		if got := take(m, "one more", until, until); got != limit.Full {
			t.Errorf("at the end of their time: got %d, want full", got)
		}
		if got := take(m, "0", until, until); got != limit.Repeated {
			t.Errorf("at the end of its time: got %d, want repeated", got)
		}
		pause := time.Duration(bound) * 100 * time.Nanosecond
		if got := take(m, "one more", until, until.Add(pause+time.Millisecond)); got != limit.Fresh {
			t.Errorf("when the others are forgotten: got %d, want fresh", got)
		}
	}
}

// TestClockIsSetBack: what was forgotten while the clock was ahead is not taken again when it is right.
func TestClockIsSetBack(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, 10 * time.Hour, 10 * year} {
		m := newMemory(4096)
		take(m, "used", begin, begin)
		take(m, "ahead", begin.Add(ahead), begin.Add(ahead))
		back := begin.Add(20 * time.Second)
		for _, c := range []struct {
			nonce string
			made  time.Duration
			want  limit.Outcome
		}{
			{"used", -20 * time.Second, limit.Repeated}, {"from before", -time.Second, limit.Repeated}, {"new", 0, limit.Fresh},
			{"new", 0, limit.Repeated}, {"ahead", 0, limit.Repeated}, {"of a clock that is a little slow", -time.Second, limit.Repeated},
		} {
			if got := take(m, c.nonce, back.Add(c.made), back); got != c.want {
				t.Errorf("ahead by %s: %s: got %d, want %d", ahead, c.nonce, got, c.want)
			}
		}
		later := back.Add(2 * time.Second)
		if got := take(m, "later", later.Add(-time.Second), later); got != limit.Fresh {
			t.Errorf("ahead by %s: seconds later: got %d", ahead, got)
		}
	}
}

// TestClockIsSetForward: after a step forward, only nonces are forgotten whose requests would be refused anyway. New requests are
// accepted.
func TestClockIsSetForward(t *testing.T) {
	m := newMemory(4096)
	take(m, "used", begin, begin)
	later := begin.Add(10 * year)
	if got := take(m, "new", later, later); got != limit.Fresh {
		t.Errorf("got %d, want fresh", got)
	}
}

// TestClockFarAhead: the nonces of a clock that was ahead make nobody wait until that time has come.
func TestClockFarAhead(t *testing.T) {
	m := newMemory(4096)
	far := begin.Add(10 * year)
	for i := range 4096 {
		take(m, strconv.Itoa(i), far, far)
	}
	if got := take(m, "now", begin, begin); got != limit.Fresh {
		t.Errorf("got %d, want fresh", got)
	}
}

// TestSmallSteps: a clock that is kept right goes back by less than a second now and then. No new request is refused because of that.
func TestSmallSteps(t *testing.T) {
	m := newMemory(4096)
	take(m, "a", begin, begin)
	if got := take(m, "b", begin.Add(-time.Minute), begin.Add(-time.Second)); got != limit.Fresh {
		t.Errorf("got %d, want fresh", got)
	}
}

// TestSideBySide: of many requests with one nonce, one is new.
func TestNoncesSideBySide(t *testing.T) {
	m := newMemory(4096)
	var group sync.WaitGroup
	var fresh atomic.Int64
	for range 8 {
		group.Go(func() {
			for i := range 100 {
				if take(m, strconv.Itoa(i), begin, begin) == limit.Fresh {
					fresh.Add(1)
				}
			}
		})
	}
	group.Wait()
	if fresh.Load() != 100 {
		t.Errorf("%d are new, want 100", fresh.Load())
	}
}
