package bootstrap

import (
	"crypto/sha256"
	"sync"
	"time"

	"muster/agent/wire"
)

const (
	nonceMemory  = 2 * wire.EnrollWindow // as long as a request's time could still be accepted
	nonceBound   = 1_000_000             // of 40 bytes each
	failWindow   = time.Minute
	failsAllowed = 20     // wrong proofs of one address in a minute
	failBound    = 50_000 // addresses
)

// nonces remembers those of proven register requests. The zero value is ready; it is safe for concurrent use.
type nonces struct {
	mu     sync.Mutex
	used   map[nonceKey]int64 // until when, as sinceBegun counts
	begun  time.Time          // the first reading of the clock
	pruned time.Time
}

// nonceKey is the beginning of a nonce's SHA-256: as much memory for a long one as for a short one.
type nonceKey [16]byte

// Outcomes of take.
const (
	fresh = iota
	repeated
	full
)

// take records a nonce and tells whether it is new. A full memory takes nothing: only holders of credentials can fill it.
func (n *nonces) take(nonce string, now time.Time) int {
	sum := sha256.Sum256([]byte(nonce))
	key := nonceKey(sum[:16])
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.used == nil {
		n.used = map[nonceKey]int64{}
	}
	if n.begun.IsZero() {
		n.begun = now
	}
	if now.Sub(n.pruned) > failWindow || now.Before(n.pruned) {
		n.prune(now)
	}
	if _, seen := n.used[key]; seen {
		return repeated
	}
	if len(n.used) >= nonceBound {
		return full
	}
	n.used[key] = n.sinceBegun(now) + nonceMemory.Milliseconds()
	return fresh
}

// sinceBegun counts milliseconds from the unix time of the beginning on, in time that passes: no clock that is set makes a nonce be
// forgotten early.
func (n *nonces) sinceBegun(now time.Time) int64 {
	return n.begun.UnixMilli() + now.Sub(n.begun).Milliseconds()
}

func (n *nonces) prune(now time.Time) {
	n.pruned = now
	for key, until := range n.used {
		if n.sinceBegun(now) > until {
			delete(n.used, key)
		}
	}
}
