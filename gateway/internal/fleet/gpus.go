package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reading"
	"muster/store"
)

// A node's record of how many GPUs it has is the gateway's: the highest number that was ever seen, or what the token or a person said.
// An agent forgets when its disk is lost, and a machine that shows seven of eight must not become a machine of seven.

// seenGPUs is how many GPUs a heartbeat knows to exist; false: it does not say. An agent of before gpus_seen tells by its rows,
// which are those of the last look that ended well.
func seenGPUs(b *wire.HeartbeatRequest, report Report) (int, bool) {
	switch {
	case b.GPUsSeen != nil:
		return *b.GPUsSeen, *b.GPUsSeen >= 0 && *b.GPUsSeen <= wire.MaxGPUs
	case report.Probe == wire.ProbeOK, report.Probe == wire.ProbeSlow:
		return report.GPUs, true
	}
	return 0, false
}

// remembered is how many GPUs the node itself remembers to have. It counts where no person has said anything: a gateway that had no
// record yet, or that lost what it had, must not teach a node to forget.
func remembered(id *Identity, report Report) int {
	if id.gpusSaid || id.gpusAsSeen || report.Expected > wire.MaxGPUs {
		return 0
	}
	return report.Expected
}

// expect takes what a heartbeat saw into the record and gives the record. What raises it is written with the next flush.
func (f *Fleet) expect(id *Identity, b *wire.HeartbeatRequest, report Report) int {
	seen, told := seenGPUs(b, report)
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(id.NodeID)
	if told {
		l.gpusSeen = max(l.gpusSeen, seen)
	}
	l.gpusSeen = max(l.gpusSeen, remembered(id, report))
	return l.expected(id)
}

func (l *live) expected(id *Identity) int {
	if id.gpusSaid {
		return id.gpusExpected
	}
	return max(id.gpusExpected, l.gpusSeen)
}

// GPUsExpected is the record of how many GPUs an identity's node has; nil: there is none.
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

// health is what a heartbeat says against the node, with what the gateway knows better: an agent that has lost its memory does not
// miss what it does not know of. Nil: nobody has looked.
func health(b *wire.HeartbeatRequest, report Report, expected int) (reasons []string, detail map[string]string) {
	if b.Health == nil {
		return nil, nil
	}
	reasons = b.Health
	detail = b.HealthDetail
	seen, told := seenGPUs(b, report)
	gone := report.Probe == wire.ProbeAbsent && expected > 0
	if !gone && (!told || seen >= expected) || slices.Contains(reasons, wire.HealthGPUMissing) {
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
	detail[wire.HealthGPUMissing] = text
	return append(slices.Clip(reasons), wire.HealthGPUMissing), detail
}

// isHealth tells the reasons that an agent gives, and takes back by itself.
func isHealth(reason string) bool {
	switch reason {
	case wire.HealthProbeFailed, wire.HealthProbeHung, wire.HealthGPUMissing, wire.HealthGPUFault:
		return true
	}
	return false
}

// SetGPUs sets the record of how many GPUs a node has: to n, which then stands until a person says otherwise or the node enrols
// anew, or, with n below zero, back to the highest number that is seen from now on.
func (f *Fleet) SetGPUs(ctx context.Context, tenant, idOrName string, n int, by store.Actor) (Node, error) {
	if n > wire.MaxGPUs {
		return Node{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%d GPUs: not allowed", n), fmt.Sprintf("0 to %d", wire.MaxGPUs))
	}
	node, err := f.Node(ctx, tenant, idOrName)
	if err != nil {
		return Node{}, err
	}
	e := f.event("node.gpus_expected", aboutNode(node.Node), by)
	e.Security = true
	e.Detail = map[string]string{"from": strconv.Itoa(node.GPUsExpected), "to": "as seen"}
	if n >= 0 {
		e.Detail["to"] = strconv.Itoa(n)
	}
	err = f.setGPUs(ctx, node.ID, n, e)
	if errors.Is(err, store.ErrConflict) {
		return Node{}, wire.Refuse(wire.CodeIllegalMove, "node "+node.Name+" was retired", "enrol the machine again with a new token")
	}
	if err != nil {
		return Node{}, err
	}
	return f.Node(ctx, "", node.ID)
}

// setGPUs lets no flush bring back what was seen before.
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
		l.beat.RaiseGPUs = 0
	}
	return nil
}

const (
	illPause  = time.Minute // between two events about what the rows of a node say, after a few
	mostIll   = 8           // GPUs that one event names
	illUnread = 1           // stands for a reading that was stored and not hashed: no hash is ever believed to be it
)

// ill puts on record what the health of a node's GPU rows says newly, or no longer: the mild things, which are no reason to keep
// work away. A change of what rows say is noticed by their hash; only then are they decoded.
func (f *Fleet) ill(ctx context.Context, id *Identity, p Proof, report Report) {
	if report.Hardware == "" || !f.changed(id.NodeID, report.Ills) {
		return
	}
	now, shown := reading.Health(report.Hardware)
	before, due := f.newIlls(id.NodeID, now, shown, report.Ills)
	if !due {
		return
	}
	e := f.event("node.gpu_health", id.about(), itself(id.NodeID, p.Address))
	e.Detail = difference(before, now)
	if err := f.store.AddEvents(context.WithoutCancel(ctx), e); err != nil {
		f.log.Error("an event was not recorded", "kind", e.Kind, "error", err)
	}
}

func (f *Fleet) changed(nodeID string, hash uint64) bool {
	f.beats.Lock()
	defer f.beats.Unlock()
	return f.live(nodeID).illHash != hash
}

// newIlls keeps what the rows say now and gives what they said before. A GPU that no row shows any more is as ill as it was. What
// changes too fast is looked at again with a later heartbeat.
func (f *Fleet) newIlls(nodeID string, now map[string]string, shown map[string]bool, hash uint64) (before map[string]string, due bool) {
	f.beats.Lock()
	defer f.beats.Unlock()
	l := f.live(nodeID)
	before = l.ills
	for gpu, ill := range before {
		if !shown[gpu] && len(now) < wire.MaxGPUs {
			now[gpu] = ill
		}
	}
	if maps.Equal(before, now) {
		l.illHash = hash
		return nil, false
	}
	if !l.illEvents.take(f.now(), illPause) {
		return nil, false
	}
	l.ills = now
	l.illHash = hash
	return before, true
}

func difference(before, now map[string]string) map[string]string {
	detail := map[string]string{}
	more := 0
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, now)
	for _, gpu := range slices.Sorted(maps.Keys(all)) {
		switch {
		case before[gpu] == now[gpu]:
		case len(detail) == mostIll:
			more++
		case now[gpu] == "":
			detail[gpu] = "well again, was: " + before[gpu]
		default:
			detail[gpu] = now[gpu]
		}
	}
	if more > 0 {
		detail["more"] = plural(more)
	}
	return detail
}

func plural(n int) string {
	if n == 1 {
		return "1 other GPU"
	}
	return strconv.Itoa(n) + " other GPUs"
}

func gpuRows(hardware string) []store.GPU {
	rows := []store.GPU{}
	for _, g := range reading.GPUs(hardware) {
		if g.UUID != "" && len(g.UUID) <= 80 {
			rows = append(rows, store.GPU{UUID: g.UUID, Name: g.Name, BusID: g.BusID, Index: g.Index})
		}
	}
	return rows
}
