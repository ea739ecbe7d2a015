package registry

import (
	"sync"
	"time"
)

// replayBound is how many nonces one node may have in flight; an honest agent has a handful.
const replayBound = 4096

// Replay remembers the nonces that one node has used, each until it could not be accepted any more. It is safe for
// concurrent use.
type Replay struct {
	mu     sync.Mutex
	used   map[string]time.Time // nonce: when it may be forgotten
	pruned time.Time
}

// Outcomes of Replay.Take.
const (
	Fresh    = iota // never seen
	Repeated        // seen before
	Flooded         // too many are remembered; the node must slow down
)

// Take records a nonce until the given time and says whether it is new.
func (p *Replay) Take(nonce string, now, until time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, seen := p.used[nonce]; seen {
		return Repeated
	}
	if now.Sub(p.pruned) > 10*time.Second || len(p.used) >= replayBound {
		p.prune(now)
	}
	if len(p.used) >= replayBound {
		return Flooded
	}
	if p.used == nil {
		p.used = map[string]time.Time{}
	}
	p.used[nonce] = until
	return Fresh
}

func (p *Replay) prune(now time.Time) {
	p.pruned = now
	for nonce, until := range p.used {
		if now.After(until) {
			delete(p.used, nonce)
		}
	}
}

// replay gives a node's memory of nonces. It outlives the cached identities: dropping those must not open a replay.
func (r *Registry) replay(nodeID string) *Replay {
	r.replays.Lock()
	defer r.replays.Unlock()
	p := r.replays.byNode[nodeID]
	if p == nil {
		p = &Replay{}
		r.replays.byNode[nodeID] = p
	}
	return p
}
