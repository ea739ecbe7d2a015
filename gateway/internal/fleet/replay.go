package fleet

import (
	"muster/agent/wire"
	"muster/gateway/internal/replay"
)

// replayBound is how many nonces one node may have in flight; an honest agent has a handful.
const replayBound = 4096

// NewReplay makes one node's memory of nonces.
func NewReplay() *replay.Memory {
	return &replay.Memory{Bound: replayBound, Window: wire.SignatureWindow}
}

// replay gives a node's memory of nonces. It outlives the cached identities: dropping those must not open a replay.
func (f *Fleet) replay(nodeID string) *replay.Memory {
	f.replays.Lock()
	defer f.replays.Unlock()
	p := f.replays.byNode[nodeID]
	if p == nil {
		p = NewReplay()
		f.replays.byNode[nodeID] = p
	}
	return p
}
