package heartbeat

import "time"

// stepLeast is the least jump of this machine's clock that counts.
const stepLeast = 2 * time.Second

// clock is the last look at this machine's clock: wall has the time of day, passed the monotonic reading.
type clock struct {
	wall   time.Time
	passed time.Time
}

// step is how far the clock has moved since the last look, less the time that has passed. Linux does not count the time in which
// the machine sleeps.
func (c *clock) step(wall, passed time.Time) time.Duration {
	wall = wall.Round(0)
	if c.passed.IsZero() {
		c.wall = wall
		c.passed = passed
	}
	by := wall.Sub(c.wall) - passed.Sub(c.passed)
	if by.Abs() < stepLeast { // the last look stays, so that small steps add up
		return 0
	}
	c.wall = wall
	c.passed = passed
	return by
}

// watchClock asks the gateway at once for the time where this machine's clock was set, or the machine slept: a certificate may be due.
func (l *Loop) watchClock() {
	now := l.Client.Local()
	by := l.clock.step(now, time.Now())
	if by == 0 {
		return
	}
	l.Logger.Warn("this machine's clock was set, or the machine slept", "by", by.Round(time.Millisecond).String())
	l.report.setBack(now.UTC(), by)
	if !l.phase.refused {
		l.nextBeat = time.Now()
	}
}

// setBack corrects times of the status that lie in the future since the clock was set back.
func (r *report) setBack(now time.Time, by time.Duration) {
	moved := func(at time.Time) time.Time {
		if !at.After(now) {
			return at
		}
		if at = at.Add(by).Truncate(time.Second); at.After(now) {
			return now.Truncate(time.Second)
		}
		return at
	}
	r.status.Since = moved(r.status.Since)
	for _, at := range []**time.Time{&r.status.LastContact, &r.status.LastOnline} {
		if *at != nil {
			mended := moved(**at)
			*at = &mended
		}
	}
}
