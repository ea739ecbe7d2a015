// Package uptime tells the time to a gateway. The machine's clock may be set, and the machine may sleep. Both change the
// clock in one step. Whoever compares times needs to know of these steps, and of the times in which the gateway was away.
package uptime

import (
	"sync"
	"time"

	"muster/store"
)

const (
	// StepLeast is the smallest step. If the clock and the time that has passed differ by less, the clock was not set.
	StepLeast = time.Second
	// StepGap is the smallest step forward that matters for silence: it could make nodes look silent that are not.
	StepGap = 15 * time.Second
	// startGrace is the time that nodes have to come back after the gateway was away. It is the agents' longest back-off plus
	// one interval. A node that is silent for less is not stale.
	startGrace = 6 * time.Minute
	// BeatEvery is how often Beat is to be called.
	BeatEvery = 5 * time.Second
	// stillLeast is how long after a Beat the gateway counts as having stood still.
	stillLeast = StepGap + BeatEvery
)

// Clock reads the machine's clock and the time that has passed. Setting the clock does not change the second. If the two
// disagree, the clock was set, or the machine slept. The zero value is ready. It is safe for concurrent use.
type Clock struct {
	Wall    func() time.Time     // nil: time.Now
	Elapsed func() time.Duration // time since any fixed moment; nil: from Wall's monotonic readings
	Slept   func() time.Duration // for how long the machine has slept since any fixed moment; negative: not known; nil: its kernel says so

	mu      sync.Mutex
	made    time.Time     // when Wall was first read, by this machine
	origin  time.Time     // the first reading of Wall
	base    time.Duration // the first reading of Elapsed
	up      time.Duration // the time that has passed from the first reading to the latest one
	lost    time.Duration // how far a clock without monotonic readings went back in all
	offset  time.Duration // the sum of all steps since the first reading
	jumped  time.Time     // when the clock was last set forward, corrected by later steps back; zero: never
	start   time.Time     // when this gateway started, or came back after an absence
	aliveAt time.Time     // when the gateway was last at work before start; zero: never
	there   bool          // the clock alone skipped the time before start: nodes could be heard all along
	slept   time.Duration // the last reading of Slept
	away    absences
	steps   []Step        // that nobody has taken yet: see Take
	beats   bool          // Beat is called
	beat    time.Duration // up, when Beat was called last, or when a standstill was noticed
	still   time.Duration // for how long the gateway stood still since the last Beat
}

// Step is one setting of the clock.
type Step struct {
	At     time.Time // by the clock after the step
	By     time.Duration
	Logged bool // for the caller of Take and Owe: the step is in the log already
}

// Read returns the time by the clock, and how much time has passed since the first reading. It notices steps.
func (c *Clock) Read() (now time.Time, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, up = c.sample()
	if up < c.up {
		c.lost += c.up - up
		up = c.up
	}
	c.up = up
	wall := now.Round(0)
	still := c.stood()
	unheard := still // so long nobody could be heard until now, by the clock
	if by := wall.Sub(c.origin.Round(0)) - up - c.offset; by.Abs() >= StepLeast {
		c.offset += by
		c.set(wall, by)
		unheard += max(by, 0)
	}
	if unheard >= StepGap {
		before := wall.Add(-unheard)
		awake := c.awake()
		again := c.grace(before)
		c.aliveAt = c.heardTo(before)
		c.there = awake && still == 0 && (c.there || !again)
		c.start = wall
		c.away = c.away.add(wall.Add(-unheard), wall)
	}
	return now, up
}

// Beat says that the gateway is at work. It returns for how long the gateway stood still since the last call: its process was stopped, or
// the virtual machine below it. Nobody could be heard then, so it counts as an absence, from the first reading after it on.
func (c *Clock) Beat() time.Duration {
	c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	still := c.still
	c.still = 0
	c.beats = true
	c.beat = c.up
	return still
}

// stood is for how long nothing was done here until now; 0: something was. The caller holds the lock.
func (c *Clock) stood() time.Duration {
	still := c.up - c.beat
	if !c.beats || still < stillLeast {
		return 0
	}
	c.beat = c.up
	c.still += still
	return still
}

// sample reads both sources. The caller holds the lock.
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
		c.made = time.Now()
		c.awake()
	}
	if c.Elapsed != nil {
		return now, up - c.base
	}
	return now, now.Sub(c.origin) + c.lost
}

// set notes a step and corrects the clock's own times. A step forward counts as an absence of the gateway: nobody could be
// heard in the time that the clock left out. The caller holds the lock.
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
}

// SetBack corrects a time that was noted while the clock was ahead. now is the time after a step back by the given amount. A
// time that is not in the future stays as it is.
func SetBack(at, now time.Time, by time.Duration) time.Time {
	if !at.Round(0).After(now) {
		return at
	}
	if at = at.Round(0).Add(-by); at.After(now) {
		return now
	}
	return at
}

// Begin takes what the previous run of the gateway left: when it was last at work (zero: there was none), and the text of its
// Absences. It returns how long the gateway was away.
func (c *Clock) Begin(aliveAt time.Time, kept string) (gap time.Duration) {
	read, _ := c.Read()
	now := read.Round(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	away := parseAbsences(kept).until(now) // an earlier run whose clock was ahead may have noted times in the future
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
	// A run that ended within its grace left an aliveAt from before its own start. The gap begins with its last absence then.
	if n := len(away); n > 0 && aliveAt.Before(away[n-1].to) {
		gap = now.Sub(away[n-1].to)
	}
	if gap >= StepGap {
		c.away = away.add(now.Add(-gap), now)
	}
	return gap
}

// Absent returns how long the gateway was away between since and now.
func (c *Clock) Absent(since, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.within(since.Round(0), now.Round(0))
}

// Absences returns the absences as text, for Begin after the next start.
func (c *Clock) Absences() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.String()
}

// grace is true while the nodes have had no time yet to come back after an absence. The caller holds the lock.
func (c *Clock) grace(now time.Time) bool {
	return !c.aliveAt.IsZero() && now.Before(c.start.Add(startGrace))
}

// livedAt is the latest time at which the gateway counts as having been at work. Silence of nodes is measured up to it. Within
// the grace the gateway has not heard from its nodes yet, so the earlier value stays. Otherwise a second start within the grace
// would find the nodes stale.
func (c *Clock) livedAt(now time.Time) time.Time {
	if c.grace(now) {
		return c.aliveAt
	}
	return now
}

// heardTo is the time up to which the silence of nodes counts that were last heard before start. It is livedAt, but goes on with the time
// where nodes could be heard all along: by the time before the clock was set.
func (c *Clock) heardTo(now time.Time) time.Time {
	at := c.livedAt(now)
	if c.there && c.grace(now) {
		at = at.Add(now.Sub(c.start))
	}
	return at
}

// Lived returns what Begin needs after the next start: when the gateway was last at work. See livedAt.
func (c *Clock) Lived() time.Time {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.livedAt(now.Round(0))
}

// Ref returns what the statuses of nodes are computed from at this moment.
func (c *Clock) Ref() store.StatusRef {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	now = now.Round(0)
	return store.StatusRef{Now: now, Start: c.start, AliveAt: c.heardTo(now), Grace: c.grace(now), GraceEnd: c.start.Add(startGrace),
		There: c.there}
}

// Leapt reports whether the clock was set forward after since, and not longer ago than within. Then the clock cannot say how much
// time has passed since that moment.
func (c *Clock) Leapt(since time.Time, within time.Duration) bool {
	now, _ := c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.jumped.IsZero() && !since.After(c.jumped) && now.Round(0).Sub(c.jumped) <= within
}

// Take returns the steps that nobody has taken yet. The caller corrects the times that depend on the clock, or gives the steps
// back with Owe.
func (c *Clock) Take() []Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := c.steps
	c.steps = nil
	return steps
}

// Owe gives back steps after Take, because the times could not be corrected. They come before the steps that happened meanwhile.
func (c *Clock) Owe(steps []Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(steps, c.steps...)
}

// Settled reports whether no step waits for Take.
func (c *Clock) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.steps) == 0
}

// Up returns the time that has passed since the first reading. Setting the clock does not change it.
func (c *Clock) Up() time.Duration {
	_, up := c.Read()
	return up
}

// Now returns the time by the clock.
func (c *Clock) Now() time.Time {
	now, _ := c.Read()
	return now
}
