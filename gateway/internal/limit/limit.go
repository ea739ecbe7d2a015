// Package limit bounds how often each of many callers may do something.
//
// A caller may do it a number of times in a row, and once more with each interval that passes (the generic cell rate algorithm).
// What is over the limit costs the caller nothing: whoever waits as long as Take says is let in.
//
// Nothing here decides safety: after a restart every caller begins anew.
package limit

import (
	"sync"
	"time"
)

// Config says how much is allowed. Zero fields mean the usual.
type Config struct {
	Burst int              // so often in a row
	Every time.Duration    // once more in each interval; 0: there is no limit
	Keys  int              // how many callers are remembered; all others share one allowance; 0: 4096
	Now   func() time.Time // nil: time.Now
}

// usualKeys times about 100 bytes is what a limiter remembers at most.
const usualKeys = 4096

// shared is the key of all callers beyond the number that is remembered.
const shared = ""

// Limiter counts by key, which is any text that names a caller. It is safe for concurrent use.
//
// It looks at differences of Now alone. A clock that goes forward at most gives allowances back early. A clock that is set back
// gives them back too, so that no caller waits until the time has come again that the clock showed before.
type Limiter struct {
	burst int
	every time.Duration
	keys  int
	now   func() time.Time

	mu    sync.Mutex
	whole map[string]time.Time // when the caller's allowance is whole again
	swept time.Time
}

// New makes a limiter.
func New(c Config) *Limiter {
	l := &Limiter{burst: c.Burst, every: c.Every, keys: c.Keys, now: c.Now, whole: map[string]time.Time{}}
	if l.keys == 0 {
		l.keys = usualKeys
	}
	if l.now == nil {
		l.now = time.Now
	}
	return l
}

// Minute makes a limiter that allows each of so many keys a number in a minute, at once or one by one.
func Minute(number, keys int, now func() time.Time) *Limiter {
	return New(Config{Burst: number, Every: time.Minute / time.Duration(number), Keys: keys, Now: now})
}

// Take uses one of the key's allowance up, and gives 0; or it takes nothing, and says how long the caller has to wait.
func (l *Limiter) Take(key string) (wait time.Duration) {
	if l.every == 0 {
		return 0
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	if _, known := l.whole[key]; !known && len(l.whole) >= l.keys {
		key = shared
	}
	whole := l.whole[key]
	if !l.counts(whole, now) {
		whole = now
	}
	whole = whole.Add(l.every)
	if wait := whole.Sub(now) - l.most(); wait > 0 {
		return wait
	}
	l.whole[key] = whole
	return 0
}

// Over tells whether the key is over its limit; else it takes one of its allowance.
func (l *Limiter) Over(key string) bool { return l.Take(key) > 0 }

// most is how long an allowance that is used up takes to be whole again.
func (l *Limiter) most() time.Duration { return time.Duration(l.burst) * l.every }

// counts tells whether an allowance has to be remembered still. One that would take longer than any can was noted by a clock that
// has been set back since.
func (l *Limiter) counts(whole, now time.Time) bool {
	return whole.After(now) && whole.Sub(now) <= l.most()
}

// sweep forgets the callers whose allowance is whole. It looks once in the time that an allowance takes, and once an interval
// where there is no room, so that a crowd does not make every call look through all of it.
func (l *Limiter) sweep(now time.Time) {
	pause := l.most()
	if len(l.whole) >= l.keys {
		pause = l.every
	}
	if age := now.Sub(l.swept); age >= 0 && age < pause {
		return
	}
	l.swept = now
	kept := map[string]time.Time{} // a map that entries were deleted from keeps its memory
	for key, whole := range l.whole {
		if l.counts(whole, now) {
			kept[key] = whole
		}
	}
	l.whole = kept
}
