// Package timeline tells the time to a gateway whose clock may be set, and whose machine may sleep.
package timeline

import (
	"sync"
	"time"

	"muster/store"
)

const (
	// StepLeast is from how much on a clock that disagrees with the time that has passed counts as set.
	StepLeast = time.Second
	// StepGap is from how much on a step forward could make nodes look silent that are not.
	StepGap = 15 * time.Second
	// startGrace is the agents' longest back-off plus one interval: until then a node that has not come back after the
	// gateway's own absence is no news.
	startGrace = 6 * time.Minute
)

// Clock is the machine's clock, and beside it the time that has passed, which no setting of the clock changes. Where the two part,
// the clock was set, or the machine slept. The zero value is ready. It is safe for concurrent use.
type Clock struct {
	Wall    func() time.Time     // nil: time.Now
	Elapsed func() time.Duration // since any moment; nil: what Wall's monotonic readings tell

	mu      sync.Mutex
	origin  time.Time     // the first reading
	base    time.Duration // elapsed then
	up      time.Duration // passed since, as of the latest reading
	lost    time.Duration // what a clock without monotonic readings went back by
	offset  time.Duration // how far the clock was set since the first reading
	jumped  time.Time     // by the clock as it is now: when it was last set forward; zero: never
	start   time.Time     // of this gateway, or of its presence after a gap
	aliveAt time.Time     // when it was last at work before that; zero: never
	away    absences
	steps   []Step // that are not settled
}

// Step is one setting of the clock.
type Step struct {
	At     time.Time // by the clock as it is since
	By     time.Duration
	Logged bool // for who settles it
}

// Read gives the time by the clock, and how much has passed since the first reading.
func (c *Clock) Read() (now time.Time, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, up = c.sample()
	if up < c.up {
		c.lost += c.up - up
		up = c.up
	}
	c.up = up
	by := now.Round(0).Sub(c.origin.Round(0)) - up - c.offset
	if by.Abs() >= StepLeast {
		c.offset += by
		c.set(now.Round(0), by)
	}
	return now, up
}

func (c *Clock) sample() (now time.Time, up time.Duration) {
	now = time.Now()
	if c.Wall != nil {
		now = c.Wall()
	}
	if c.Elapsed != nil {
		up = c.Elapsed()
	}
	if c.origin.IsZero() {
		c.origin = now
		c.base = up
	}
	if c.Elapsed != nil {
		return now, up - c.base
	}
	return now, now.Sub(c.origin) + c.lost
}

// set takes over a step. Forward it is as if the gateway had been away: nobody could be heard in the time that was left out.
func (c *Clock) set(now time.Time, by time.Duration) {
	c.steps = append(c.steps, Step{At: now, By: by})
	if by < 0 {
		for _, at := range []*time.Time{&c.start, &c.aliveAt, &c.jumped} {
			*at = SetBack(*at, now, -by)
		}
		c.away = c.away.until(now)
		return
	}
	c.jumped = now
	if before := now.Add(-by); by >= StepGap {
		c.aliveAt = c.livedAt(before)
		c.start = now
		c.away = c.away.add(before, now)
	}
}

// SetBack is a time as it would have been noted had the clock not been ahead.
func SetBack(at, now time.Time, by time.Duration) time.Time {
	if !at.Round(0).After(now) {
		return at
	}
	if at = at.Round(0).Add(-by); at.After(now) {
		return now
	}
	return at
}

// Begin says when the gateway before this one was last at work (zero: there was none), and when it and those before were not, as
// Absences gave it. It gives for how long there was none.
func (c *Clock) Begin(aliveAt time.Time, kept string) (gap time.Duration) {
	read, _ := c.Read()
	now := read.Round(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	away := parseAbsences(kept).until(now) // a gateway whose clock was ahead may have noted more
	c.start = now
	c.aliveAt = aliveAt
	c.away = away
	if aliveAt.IsZero() {
		return 0
	}
	if gap = now.Sub(aliveAt); gap <= -StepLeast {
		c.set(now, gap)
		return 0
	}
	if n := len(away); n > 0 && aliveAt.Before(away[n-1].to) { // the one before was not at work for long: what it noted is older
		gap = now.Sub(away[n-1].to)
	}
	if gap >= StepGap {
		c.away = away.add(now.Add(-gap), now)
	}
	return gap
}

// Absent is for how much of the time since then the gateway was away.
func (c *Clock) Absent(since, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.within(since.Round(0), now.Round(0))
}

// Absences is the form in which the absences are kept, for Begin.
func (c *Clock) Absences() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.String()
}

func (c *Clock) grace(now time.Time) bool {
	return !c.aliveAt.IsZero() && now.Before(c.start.Add(startGrace))
}

// livedAt is until when this gateway is known to have been at work, for judging silence by. A start has not heard from its nodes
// yet, so what was known before it stays: else a second one within the grace would find them stale.
func (c *Clock) livedAt(now time.Time) time.Time {
	if c.grace(now) {
		return c.aliveAt
	}
	return now
}

// Lived is until when the gateway counts as having been at work: now, unless its nodes had no time yet to come back.
func (c *Clock) Lived() time.Time {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.livedAt(now.Round(0))
}

// Ref is what statuses are computed against now.
func (c *Clock) Ref() store.StatusRef {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0)
	return store.StatusRef{Now: now, Start: c.start, AliveAt: c.aliveAt, Grace: c.grace(now), GraceEnd: c.start.Add(startGrace)}
}

// Leapt tells that the clock was set forward after since, and not longer ago than within. The clock cannot tell then how long ago
// since was.
func (c *Clock) Leapt(since time.Time, within time.Duration) bool {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.jumped.IsZero() && !since.After(c.jumped) && now.Round(0).Sub(c.jumped) <= within
}

// Take gives the steps that are to be settled.
func (c *Clock) Take() []Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := c.steps
	c.steps = nil
	return steps
}

// Owe puts back steps that could not be settled.
func (c *Clock) Owe(steps []Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(steps, c.steps...)
}

// Settled tells that no step waits to be settled.
func (c *Clock) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.steps) == 0
}

// Up is how long the gateway has been at work, which no setting of the clock changes.
func (c *Clock) Up() time.Duration {
	_, up := c.Read()
	return up
}

// Now is the time by the clock.
func (c *Clock) Now() time.Time {
	now, _ := c.Read()
	return now
}
