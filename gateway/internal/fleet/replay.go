package fleet

import (
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/timeline"
)

// replayBound is how many nonces one node may have in flight; an honest agent has a handful.
const replayBound = 4096

// Replay remembers the nonces that one node has used, each until it could not be accepted any more. It is safe for
// concurrent use.
type Replay struct {
	mu     sync.Mutex
	used   map[string]time.Time // nonce: when it may be forgotten
	pruned time.Time
	latest time.Time // the latest time that was read
	floor  time.Time // until when a nonce has to be good at least: what ended before may have been forgotten
}

// Outcomes of Replay.Take.
const (
	Fresh    = iota // never seen
	Repeated        // seen before
	Flooded         // too many are remembered; the node must slow down
)

// Take records a nonce until the given time and says whether it is new. After the clock was set back it takes nothing that was
// made before: what was used then may have been forgotten while the clock was ahead.
func (p *Replay) Take(nonce string, now, until time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.look(now.Round(0))
	if _, seen := p.used[nonce]; seen || until.Before(p.floor) {
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

// look notices a clock that was set back.
func (p *Replay) look(now time.Time) {
	if p.latest.Sub(now) > timeline.StepLeast {
		p.floor = now.Truncate(time.Second).Add(wire.SignatureWindow) // signatures have whole seconds
		p.pruned = time.Time{}
		p.latest = now
	}
	if now.After(p.latest) {
		p.latest = now
	}
}

// prune forgets what could not be accepted any more. Where there is no room that goes too which only a clock far ahead could accept.
func (p *Replay) prune(now time.Time) {
	p.pruned = now
	crowded := len(p.used) >= replayBound
	for nonce, until := range p.used {
		if now.After(until) || crowded && until.Sub(now) > 2*wire.SignatureWindow {
			delete(p.used, nonce)
		}
	}
}

// replay gives a node's memory of nonces. It outlives the cached identities: dropping those must not open a replay.
func (f *Fleet) replay(nodeID string) *Replay {
	f.replays.Lock()
	defer f.replays.Unlock()
	p := f.replays.byNode[nodeID]
	if p == nil {
		p = &Replay{}
		f.replays.byNode[nodeID] = p
	}
	return p
}
