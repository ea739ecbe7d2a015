// Package replay remembers the nonces of requests that were accepted, so that none is accepted twice.
//
// A nonce is remembered for as long as its request could be accepted, by the gateway's clock. The clock may be set. Where it was ahead
// and is set back, nonces were forgotten whose requests would be good again. So nothing is new then that was made before that moment.
package replay

import (
	"crypto/sha256"
	"sync"
	"time"

	"muster/gateway/internal/timeline"
)

// Outcome is what Take found.
type Outcome int

// Outcomes.
const (
	Fresh    Outcome = iota // the nonce was never seen; it is remembered now
	Repeated                // it was seen, or may have been
	Full                    // too many are remembered: nothing was taken
)

const (
	pruneEvery = 10 * time.Second
	pruneCost  = 100 * time.Nanosecond // between two looks at a full memory, for each of its nonces; a look takes about a tenth of that
)

// key is the beginning of a nonce's SHA-256: a long nonce takes as much memory as a short one.
type key [16]byte

// Memory is safe for concurrent use. Set its fields before its first use.
type Memory struct {
	Bound  int           // nonces that are remembered at a time, of about 40 bytes each
	Window time.Duration // how far a request's time may be off, either way

	mu     sync.Mutex
	used   map[key]int64 // until when it is remembered, in milliseconds of Unix time
	pruned time.Time
	latest time.Time // the latest time that was read
	floor  time.Time // when the clock was last set back; zero: never
}

// Take remembers a nonce until a time, and tells whether it is new. made is the time that its request says of itself.
func (m *Memory) Take(nonce string, made, until, now time.Time) Outcome {
	sum := sha256.Sum256([]byte(nonce))
	k := key(sum[:len(key{})])
	now = now.Round(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look(now)
	if last, seen := m.used[k]; seen && now.UnixMilli() <= last || made.Before(m.floor) {
		return Repeated
	}
	m.prune(now)
	if len(m.used) >= m.Bound {
		return Full
	}
	if m.used == nil {
		m.used = map[key]int64{}
	}
	m.used[k] = until.UnixMilli()
	return Fresh
}

// look notices a clock that was set back.
func (m *Memory) look(now time.Time) {
	if m.latest.Sub(now) > timeline.StepLeast {
		m.floor = now.Truncate(time.Second) // requests have whole seconds
		m.pruned = time.Time{}
		m.latest = now
	}
	if now.After(m.latest) {
		m.latest = now
	}
}

// prune forgets, now and then, what cannot be accepted any more. Where there is no room it also forgets what only a clock far ahead
// could accept.
func (m *Memory) prune(now time.Time) {
	full := len(m.used) >= m.Bound
	pause := pruneEvery
	if full {
		pause = time.Duration(len(m.used)) * pruneCost
	}
	if now.Sub(m.pruned) <= pause {
		return
	}
	m.pruned = now
	at := now.UnixMilli()
	far := now.Add(2 * m.Window).UnixMilli()
	for k, until := range m.used {
		if at > until || full && until > far {
			delete(m.used, k)
		}
	}
}
