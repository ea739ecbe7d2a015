package fleet

import (
	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
)

// replayBound is how many nonces of one node are remembered at most. An honest agent uses a few in each signature window.
const replayBound = 4096

// NewReplay makes one node's memory of nonces.
func NewReplay() *limit.Memory {
	return &limit.Memory{Bound: replayBound, Window: wire.SignatureWindow}
}

// replay returns a node's memory of nonces. It outlives the cached identities: otherwise each drop would let old requests be
// sent again.
func (f *Fleet) replay(nodeID string) *limit.Memory {
	f.replays.Lock()
	defer f.replays.Unlock()
	p := f.replays.byNode[nodeID]
	if p == nil {
		p = NewReplay()
		f.replays.byNode[nodeID] = p
	}
	return p
}
