package nodeapi

import (
	"sync"
	"time"
)

// paceBurst is how many renewals a node may ask for in a row: lost answers and restarts take a few, a hundred are a fault.
const paceBurst = 10

// pace bounds how often one node may have a certificate made, so that a node gone wild fills neither the database nor the
// log of events. It decides nothing about safety: after a restart every node begins anew. It is safe for concurrent use.
type pace struct {
	every time.Duration // one more each; 0: no bound

	mu    sync.Mutex
	full  map[string]time.Time // by node: when its allowance is whole again
	prune time.Time
}

// take tells whether the node may have one more.
func (p *pace) take(nodeID string, now time.Time) bool {
	if p.every == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == nil || now.After(p.prune) || p.prune.Sub(now) > paceBurst*p.every {
		p.forget(now)
	}
	full := p.full[nodeID]
	if full.Before(now) || full.Sub(now) > paceBurst*p.every { // the latter is of a clock that was set back
		full = now
	}
	if full = full.Add(p.every); full.Sub(now) > paceBurst*p.every {
		return false
	}
	p.full[nodeID] = full
	return true
}

// forget drops the nodes whose allowance is whole.
func (p *pace) forget(now time.Time) {
	kept := map[string]time.Time{}
	for id, full := range p.full {
		if full.After(now) {
			kept[id] = full
		}
	}
	p.full, p.prune = kept, now.Add(paceBurst*p.every)
}
