package adminapi

import (
	"sync"
	"time"
)

// A caller may be refused so often at once, and once more each refill.
const (
	refusalBurst  = 10
	refusalRefill = 6 * time.Second
	refusalKeys   = 4096 // callers remembered at a time
	writeBurst    = 60   // refused writes of a caller who may write
)

// limiter counts refusals by caller. Only failures are counted: a caller with a good token is never slowed down by others
// behind the same address. Its memory is bounded; beyond it all callers share one count.
type limiter struct {
	now   func() time.Time // nil: time.Now
	burst int              // 0: refusalBurst

	mu    sync.Mutex
	clear map[string]time.Time // when the caller's count is zero again
}

// note counts one refusal and says how long the caller has to wait, 0 when not at all.
func (l *limiter) note(key string) time.Duration {
	now := time.Now()
	if l.now != nil {
		now = l.now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clear == nil {
		l.clear = map[string]time.Time{}
	}
	if _, known := l.clear[key]; !known && len(l.clear) >= refusalKeys {
		key = l.makeRoom(now, key)
	}
	burst := time.Duration(l.burst)
	if burst == 0 {
		burst = refusalBurst
	}
	until := l.clear[key]
	if until.Before(now) || until.Sub(now) > burst*refusalRefill { // the latter is of a clock that was set back
		until = now
	}
	if wait := until.Add(refusalRefill).Sub(now) - burst*refusalRefill; wait > 0 {
		return wait
	}
	l.clear[key] = until.Add(refusalRefill)
	return 0
}

// makeRoom forgets callers whose count is zero again. The key is the shared one when there is still no room.
func (l *limiter) makeRoom(now time.Time, key string) string {
	for known, until := range l.clear {
		if until.Before(now) {
			delete(l.clear, known)
		}
	}
	if len(l.clear) < refusalKeys {
		return key
	}
	return ""
}
