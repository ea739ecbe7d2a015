package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// The gateway keeps the record of how many GPUs a node has: the highest number that was ever seen, or the number that the token
// or a person gave. The agent cannot keep it alone, because it forgets when its disk is lost. A machine that shows seven of its
// eight GPUs must not become a machine of seven.

// seenGPUs is how many GPUs the machine has as far as this heartbeat says; false: it does not say. Older agents do not send
// gpus_seen. For them the number of rows counts, which come from the last look that ended well.
func seenGPUs(b *reading.Heartbeat) (int, bool) {
	h := b.Hardware
	switch {
	case b.GPUsSeen != nil:
		return *b.GPUsSeen, *b.GPUsSeen >= 0 && *b.GPUsSeen <= wire.MaxGPUs
	case h != nil && (h.Probe.State == wire.ProbeOK || h.Probe.State == wire.ProbeSlow):
		return len(h.GPUs), true
	}
	return 0, false
}

// remembered is how many GPUs the node remembers, or 0 where that does not count. A person's word goes first. The node's memory
// helps a gateway that has no record yet, or that lost its record.
func remembered(id *Identity, h *wire.Hardware) int {
	if id.gpusSaid || id.gpusAsSeen || h == nil || h.GPUsExpected == nil || *h.GPUsExpected > wire.MaxGPUs {
		return 0
	}
	return *h.GPUsExpected
}

// gpus is how many GPUs an applicant has, by its credential or by its reading; 0: neither says.
func (a *Applicant) gpus() int {
	if a.Hardware == nil {
		return a.Credential.GPUs
	}
	return max(a.Credential.GPUs, len(a.Hardware.GPUs))
}

// expect raises the record to what a heartbeat saw, and returns it. The next flush writes it.
func (f *Fleet) expect(id *Identity, b *reading.Heartbeat) int {
	seen, told := seenGPUs(b)
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(id.NodeID)
	if told {
		l.gpusSeen = max(l.gpusSeen, seen)
	}
	l.gpusSeen = max(l.gpusSeen, remembered(id, b.Hardware))
	return l.expected(id)
}

// expected is the record: a person's number, or the highest number in the database or in memory.
func (l *live) expected(id *Identity) int {
	if id.gpusSaid {
		return id.gpusExpected
	}
	return max(id.gpusExpected, l.gpusSeen)
}

// GPUsExpected returns the record of how many GPUs the identity's node has; nil: there is no record.
func (f *Fleet) GPUsExpected(ctx context.Context, id *Identity) *int {
	if now, err := f.Identity(ctx, id.Fingerprint); err == nil {
		id = now
	}
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.beats.live[id.NodeID]
	if l == nil {
		l = &live{}
	}
	n := l.expected(id)
	if n == 0 && !id.gpusSaid && !id.gpusAsSeen {
		return nil
	}
	return &n
}

// health returns the health reasons of a heartbeat, and adds missing GPUs that the agent does not report: an agent that lost its
// memory does not know how many there were. Nil: the agent has not looked.
func health(b *reading.Heartbeat, expected int) (reasons []string, detail map[string]string) {
	if b.Health == nil {
		return nil, nil
	}
	reasons = b.Health
	detail = b.HealthDetail
	seen, told := seenGPUs(b)
	gone := b.Hardware != nil && b.Hardware.Probe.State == wire.ProbeAbsent && expected > 0
	if !gone && api.Missing(seen, told, &expected) == 0 || slices.Contains(reasons, wire.HealthGPUCountDropped) {
		return reasons, detail
	}
	text := fmt.Sprintf("the node shows %d of the %d GPUs that are expected", seen, expected)
	if gone {
		text = fmt.Sprintf("no nvidia-smi on this machine, while %d GPUs are expected", expected)
	}
	detail = maps.Clone(detail)
	if detail == nil {
		detail = map[string]string{}
	}
	detail[wire.HealthGPUCountDropped] = text
	return append(slices.Clip(reasons), wire.HealthGPUCountDropped), detail
}

// isHealth is true for the reasons that a heartbeat says in a word.
func isHealth(reason string) bool {
	return slices.Contains([]string{wire.HealthProbeFailed, wire.HealthProbeHung, wire.HealthGPUCountDropped, wire.HealthGPUFault}, reason)
}

// SetGPUs sets the record of how many GPUs a node has. The number n stays until a person changes it or the node enrols again.
// With n below zero the record is the highest number that is seen from now on.
func (f *Fleet) SetGPUs(ctx context.Context, tenant, idOrName string, n int, by store.Actor) (Node, error) {
	if n > wire.MaxGPUs {
		return Node{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d GPUs: not allowed", n), fmt.Sprintf("0 to %d", wire.MaxGPUs))
	}
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	to := "as seen"
	if n >= 0 {
		to = strconv.Itoa(n)
	}
	e := f.audited("node.gpus_expected", aboutNode(node.Node), by, map[string]string{"from": strconv.Itoa(node.GPUsExpected), "to": to})
	err = f.setGPUs(ctx, node.ID, n, e)
	if errors.Is(err, store.ErrConflict) {
		return Node{}, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" was retired", "enrol the machine again with a new token")
	}
	if err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}

// setGPUs holds flushing, so that no flush writes the number that was seen earlier.
func (f *Fleet) setGPUs(ctx context.Context, nodeID string, n int, e store.Event) error {
	f.flushing.Lock()
	defer f.flushing.Unlock()
	err := f.store.SetGPUs(ctx, nodeID, max(n, 0), n >= 0, e)
	f.Forget(nodeID)
	if err != nil {
		return err
	}
	f.beats.Lock()
	defer f.beats.Unlock()
	if l := f.beats.live[nodeID]; l != nil {
		l.gpusSeen = 0
		l.raise = 0
	}
	return nil
}
