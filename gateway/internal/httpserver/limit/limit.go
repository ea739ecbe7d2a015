// Package limit bounds how often each of many callers may do something, and has a nonce count once.
//
// A caller may do it a number of times in a row, and once more with each interval that passes (the generic cell rate algorithm). A
// call over the limit does not count: a caller who waits as long as Take says may do it again.
//
// No security may depend on a limiter: after a restart every caller has the whole allowance again.
package limit

import (
	"sync"
	"time"
)

// Config says how much is allowed. A zero field means the default.
type Config struct {
	Burst int              // how often in a row
	Every time.Duration    // the interval; 0: there is no limit
	Keys  int              // how many callers are remembered; all others share one allowance; 0: 4096
	Now   func() time.Time // nil: time.Now
}

// usualKeys is the default of Config.Keys. A key takes about 100 bytes.
const usualKeys = 4096

// shared is the key of all callers beyond the number that is remembered.
const shared = ""

// Limiter counts by key, which is any text that names a caller. It is safe for concurrent use.
//
// It uses only differences of Now. If the clock is set forward, callers get their allowance back early. If the clock is set back,
// they get it back too: otherwise they would wait until the clock shows the earlier time again.
type Limiter struct {
	burst int
	every time.Duration
	keys  int
	now   func() time.Time

	mu    sync.Mutex
	whole map[string]time.Time // when the caller's allowance is whole again; absent: it is whole
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

// Minute makes a limiter that allows each key a number of times in a minute, at once or one by one.
func Minute(number, keys int, now func() time.Time) *Limiter {
	return New(Config{Burst: number, Every: time.Minute / time.Duration(number), Keys: keys, Now: now})
}

// Take takes one from the key's allowance and returns 0. If nothing is left, it returns how long the caller must wait.
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

// Over does what Take does, for callers who do not wait: it reports whether the key is over its limit.
func (l *Limiter) Over(key string) bool { return l.Take(key) > 0 }

// most is how long an empty allowance takes to be whole again.
func (l *Limiter) most() time.Duration { return time.Duration(l.burst) * l.every }

// counts is true if an allowance is not whole yet, and must be remembered. If it would take longer than most, the clock was set
// back since.
func (l *Limiter) counts(whole, now time.Time) bool {
	return whole.After(now) && whole.Sub(now) <= l.most()
}

// sweep forgets the callers whose allowance is whole. It does so once in the time that an allowance takes, or once in an interval if
// there is no room. Otherwise, with many callers, every call would look through all keys.
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
