package fleet

import (
	"context"
	"sync"
	"time"

	"muster/store"
)

const (
	// stepLeast is from how much on a clock that disagrees with the time that has passed counts as set.
	stepLeast = time.Second
	// stepTold is from how much on an operator is told by an event.
	stepTold = time.Minute
	// stepGap is from how much on a step forward could make nodes look silent that are not.
	stepGap = 15 * time.Second
)

// timeline is the clock that a Fleet goes by: the machine's, and beside it the time that has passed, which no setting of the clock
// changes. Where the two part, the clock was set, or the machine slept. The zero value is ready; it is safe for concurrent use.
type timeline struct {
	wall    func() time.Time     // nil: time.Now
	elapsed func() time.Duration // nil: what wall's monotonic readings tell

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
	steps   []clockStep // that are not settled
}

// clockStep is one setting of the clock.
type clockStep struct {
	at  time.Time // by the clock as it is since
	by  time.Duration
	log bool // it is in the log
}

// read gives the time by the clock, and how much has passed since the first reading.
func (c *timeline) read() (now time.Time, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, up = c.sample()
	if up < c.up {
		c.lost += c.up - up
		up = c.up
	}
	c.up = up
	by := now.Round(0).Sub(c.origin.Round(0)) - up - c.offset
	if by.Abs() >= stepLeast {
		c.offset += by
		c.set(now.Round(0), by)
	}
	return now, up
}

func (c *timeline) sample() (now time.Time, up time.Duration) {
	now = time.Now()
	if c.wall != nil {
		now = c.wall()
	}
	if c.elapsed != nil {
		up = c.elapsed()
	}
	if c.origin.IsZero() {
		c.origin, c.base = now, up
	}
	if c.elapsed != nil {
		return now, up - c.base
	}
	return now, now.Sub(c.origin) + c.lost
}

// set takes over a step. Forward it is as if the gateway had been away: nobody could be heard in the time that was left out.
func (c *timeline) set(now time.Time, by time.Duration) {
	c.steps = append(c.steps, clockStep{at: now, by: by})
	if by < 0 {
		for _, at := range []*time.Time{&c.start, &c.aliveAt, &c.jumped} {
			*at = setBack(*at, now, -by)
		}
		c.away = c.away.until(now)
		return
	}
	c.jumped = now
	if before := now.Add(-by); by >= stepGap {
		c.aliveAt = c.livedAt(before)
		c.start = now
		c.away = c.away.add(before, now)
	}
}

// setBack is a time as it would have been noted had the clock not been ahead.
func setBack(at, now time.Time, by time.Duration) time.Time {
	if !at.Round(0).After(now) {
		return at
	}
	if at = at.Round(0).Add(-by); at.After(now) {
		return now
	}
	return at
}

// begin says when the gateway before this one was last at work (zero: there was none), and when it and those before were not. It gives
// for how long there was none.
func (c *timeline) begin(aliveAt time.Time, away absences) (gap time.Duration) {
	read, _ := c.read()
	now := read.Round(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	away = away.until(now) // a gateway whose clock was ahead may have noted more
	c.start, c.aliveAt, c.away = now, aliveAt, away
	if aliveAt.IsZero() {
		return 0
	}
	if gap = now.Sub(aliveAt); gap <= -stepLeast {
		c.set(now, gap)
		return 0
	}
	if n := len(away); n > 0 && aliveAt.Before(away[n-1].to) { // the one before was not at work for long: what it noted is older
		gap = now.Sub(away[n-1].to)
	}
	if gap >= stepGap {
		c.away = away.add(now.Add(-gap), now)
	}
	return gap
}

// absent is for how much of the time since then the gateway was away.
func (c *timeline) absent(since, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.within(since.Round(0), now.Round(0))
}

func (c *timeline) absences() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.String()
}

func (c *timeline) grace(now time.Time) bool {
	return !c.aliveAt.IsZero() && now.Before(c.start.Add(startGrace))
}

// livedAt is until when this gateway is known to have been at work, for judging silence by. A start has not heard from its nodes
// yet, so what was known before it stays: else a second one within the grace would find them stale.
func (c *timeline) livedAt(now time.Time) time.Time {
	if c.grace(now) {
		return c.aliveAt
	}
	return now
}

func (c *timeline) lived() time.Time {
	now, _ := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.livedAt(now.Round(0))
}

// ref is what statuses are computed against now.
func (c *timeline) ref() store.StatusRef {
	now, _ := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0)
	return store.StatusRef{Now: now, Start: c.start, AliveAt: c.aliveAt, Grace: c.grace(now), GraceEnd: c.start.Add(startGrace)}
}

// leapt tells that the clock was set forward since a time, and not long ago: how long ago that time was cannot be told by the clock.
func (c *timeline) leapt(since time.Time) bool {
	now, _ := c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.jumped.IsZero() && !since.After(c.jumped) && now.Round(0).Sub(c.jumped) <= straggle
}

// take gives the steps that are to be settled.
func (c *timeline) take() []clockStep {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := c.steps
	c.steps = nil
	return steps
}

// owe puts back steps that could not be settled.
func (c *timeline) owe(steps []clockStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(steps, c.steps...)
}

func (c *timeline) settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.steps) == 0
}

// up is how long this Fleet has been at work, which no setting of the clock changes.
func (f *Fleet) up() time.Duration {
	_, up := f.clock.read()
	return up
}

// watch notices that the clock was set, and mends what that makes wrong before anything rests on it: whatever depends on times
// calls it first. The caller holds no lock.
func (f *Fleet) watch(ctx context.Context) {
	if f.clock.read(); f.clock.settled() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	f.flushing.Lock()
	defer f.flushing.Unlock()
	if err := f.mend(ctx, f.clock.take()); err != nil {
		f.log.Error("times that are ahead of the clock wait to be mended: the database takes no writes", "error", err)
	}
}

// mend puts steps of the clock on record, and sets back what is ahead of it in memory and in the database; what an earlier step had
// made shorter it gives back when the clock comes forward again. The caller holds the lock of the flushes, so that none brings back what
// was ahead.
func (f *Fleet) mend(ctx context.Context, steps []clockStep) error {
	now, _ := f.clock.read()
	var back, forward time.Duration
	var events []store.Event
	for i, s := range steps {
		if forward += s.by; s.by < 0 {
			back, forward = back-s.by, 0
		}
		if !s.log {
			f.log.Warn(stepWords(s.by), "by", s.by.Round(time.Millisecond).String(), "now", s.at.UTC().Format(time.RFC3339))
			steps[i].log = true
		}
		if s.by.Abs() > stepTold {
			events = append(events, f.stepEvent(s))
		}
	}
	var err error
	if back > 0 {
		f.setBeatsBack(now.Round(0), back)
		err = f.store.SetBack(ctx, store.SetBack{Now: now, By: back, RecoveryKind: recoveryAllowed})
	}
	if err == nil {
		err = f.store.SetForward(ctx, forward, events...)
	}
	if err == nil {
		err = f.noteAbsences(ctx)
	}
	f.cache.dropAll()
	if err != nil {
		f.clock.owe(steps)
	}
	return err
}

func stepWords(by time.Duration) string {
	if by < 0 {
		return "the clock was set back"
	}
	return "the clock was set forward, or the machine slept"
}

// stepEvent tells an operator of a step, which explains times in the log that do not follow each other.
func (f *Fleet) stepEvent(s clockStep) store.Event {
	return store.Event{At: s.at, Kind: "clock.stepped", Actor: "gateway", Outcome: store.OutcomeOK, Security: true, Detail: map[string]string{
		"by": s.by.Round(time.Second).String(), "what": stepWords(s.by),
		"from": s.at.Add(-s.by).UTC().Format(time.RFC3339), "to": s.at.UTC().Format(time.RFC3339),
	}}
}

// setBeatsBack mends what memory has of heartbeats and runs.
func (f *Fleet) setBeatsBack(now time.Time, by time.Duration) {
	f.beats.Lock()
	defer f.beats.Unlock()
	for _, l := range f.beats.live {
		l.beat.At = setBack(l.beat.At, now, by)
		for _, x := range l.runs {
			for _, at := range []*time.Time{&x.First, &x.Last, &x.Before} {
				*at = setBack(*at, now, by)
			}
		}
	}
}
