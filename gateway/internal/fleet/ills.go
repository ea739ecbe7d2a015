package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/view/reading"
)

// illPause is the time between two events about the rows of one node, after the first few.
const illPause = time.Minute

// ill records changes in the health of a node's GPU rows. These are mild things, which are no reason to keep work away.
func (f *Fleet) ill(ctx context.Context, id *Identity, p Proof, h *wire.Hardware) {
	before, now, due := f.newIlls(id.NodeID, h)
	if !due {
		return
	}
	e := f.event("node.gpu_health", id.about(), itself(id.NodeID, p.Address), reading.Difference(before, now))
	if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

// newIlls keeps what the rows say now, and returns what they said before. A GPU without a row keeps its earlier health. If
// changes come too fast, due is false and nothing is kept, so that a later heartbeat is compared again.
func (f *Fleet) newIlls(nodeID string, h *wire.Hardware) (before, now map[string]string, due bool) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(nodeID)
	before = l.ills
	if h == nil || len(before) == 0 && !slices.ContainsFunc(h.GPUs, func(g wire.GPU) bool { return len(g.Health) > 0 }) {
		return nil, nil, false
	}
	now, shown := reading.Ills(h)
	for gpu, ill := range before {
		if !shown[gpu] && len(now) < wire.MaxGPUs {
			now[gpu] = ill
		}
	}
	if maps.Equal(before, now) || !l.illEvents.Take(f.now(), illPause) {
		return nil, nil, false
	}
	l.ills = now
	return before, now, true
}
