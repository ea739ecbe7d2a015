package limit

// This file remembers the nonces of requests that were accepted, so that none is accepted twice.
//
// A nonce is remembered for as long as its request could be accepted, by the gateway's clock. The clock may be set. If it was ahead
// and is set back, some nonces are forgotten already, but their requests would be accepted again. So after a step back, no request
// counts as new that was made before the step.

import (
	"crypto/sha256"
	"sync"
	"time"

	"muster/gateway/internal/httpserver/limit/uptime"
)

// Outcome is what Take found.
type Outcome int

// Outcomes.
const (
	Fresh    Outcome = iota // the nonce was never seen; it is remembered now
	Repeated                // it was seen, or may have been seen
	Full                    // too many are remembered: nothing was taken
)

const (
	pruneEvery = 10 * time.Second
	// pruneCost is the pause after pruning a full memory, for each nonce in it. Pruning takes about a tenth of that.
	pruneCost = 100 * time.Nanosecond
)

// key is the first part of a nonce's SHA-256, so a long nonce takes no more memory than a short one.
type key [16]byte

// Memory is safe for concurrent use. Set its fields before its first use.
type Memory struct {
	Bound  int           // how many nonces are remembered at most; each takes about 40 bytes
	Window time.Duration // how far a request's time may be off, in either direction

	mu     sync.Mutex
	used   map[key]int64 // until when a nonce is remembered, in Unix milliseconds
	pruned time.Time     // when it was last pruned
	latest time.Time     // the latest time that was read
	floor  time.Time     // when the clock was last set back; zero: never
}

// Take remembers a nonce until a time, and says whether it is new. made is the time in its request.
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

// look notices that the clock was set back. The caller holds the lock.
func (m *Memory) look(now time.Time) {
	if m.latest.Sub(now) > uptime.StepLeast {
		m.floor = now.Truncate(time.Second) // times in requests are whole seconds
		m.pruned = time.Time{}
		m.latest = now
	}
	if now.After(m.latest) {
		m.latest = now
	}
}

// prune forgets, now and then, nonces whose requests cannot be accepted any more. In a full memory it also forgets those that only a
// clock far ahead could accept. The caller holds the lock.
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
