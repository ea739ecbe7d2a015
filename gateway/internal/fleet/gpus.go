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

// The gateway keeps the record of how many GPUs a node has: the highest number that was ever seen, or the number that the token
// or a person gave. The agent cannot keep it alone, because it forgets when its disk is lost. A machine that shows seven of its
// eight GPUs must not become a machine of seven.

// seenGPUs is how many GPUs the machine has as far as this heartbeat says; false: it does not say. Older agents do not send
// gpus_seen. For them the number of rows counts, which come from the last look that ended well.
func seenGPUs(b *wire.HeartbeatRequest, report Report) (int, bool) {
	switch {
	case b.GPUsSeen != nil:
		return *b.GPUsSeen, *b.GPUsSeen >= 0 && *b.GPUsSeen <= wire.MaxGPUs
	case report.Probe == wire.ProbeOK, report.Probe == wire.ProbeSlow:
		return report.GPUs, true
	}
	return 0, false
}

// remembered is how many GPUs the node remembers, or 0 where that does not count. A person's word goes first. The node's memory
// helps a gateway that has no record yet, or that lost its record.
func remembered(id *Identity, report Report) int {
	if id.gpusSaid || id.gpusAsSeen || report.Expected > wire.MaxGPUs {
		return 0
	}
	return report.Expected
}

// expect raises the record to what a heartbeat saw, and returns it. The next flush writes it.
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

// expected is the record: a person's number, or the highest number in the database or in memory.
func (l *live) expected(id *Identity) int {
	if id.gpusSaid {
		return id.gpusExpected
	}
	return max(id.gpusExpected, l.gpusSeen)
}

// GPUsExpected is the record of how many GPUs the identity's node has; nil: there is no record.
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
func health(b *wire.HeartbeatRequest, report Report, expected int) (reasons []string, detail map[string]string) {
	if b.Health == nil {
		return nil, nil
	}
	reasons = b.Health
	detail = b.HealthDetail
	seen, told := seenGPUs(b, report)
	gone := report.Probe == wire.ProbeAbsent && expected > 0
	if !gone && (!told || seen >= expected) || slices.Contains(reasons, wire.HealthGPUCountDropped) {
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
	switch reason {
	case wire.HealthProbeFailed, wire.HealthProbeHung, wire.HealthGPUCountDropped, wire.HealthGPUFault:
		return true
	}
	return false
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
		l.beat.RaiseGPUs = 0
	}
	return nil
}

const (
	illPause  = time.Minute // between two events about the rows of one node, after the first few
	mostIll   = 8           // GPUs that one event names
	illUnread = 1           // the hash of a reading that came from the database, where no hash is kept; a heartbeat is decoded then
)

// ill records changes in the health of a node's GPU rows. These are mild things, which are no reason to keep work away. The hash
// of the health lists tells whether they changed. The rows are decoded only then.
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

// changed is true where the health lists are not those that memory has.
func (f *Fleet) changed(nodeID string, hash uint64) bool {
	f.beats.Lock()
	defer f.beats.Unlock()
	return f.live(nodeID).illHash != hash
}

// newIlls keeps what the rows say now, and returns what they said before. A GPU without a row keeps its earlier health. Where
// changes come too fast, due is false and nothing is kept, so that a later heartbeat is compared again.
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
	if !l.illEvents.Take(f.now(), illPause) {
		return nil, false
	}
	l.ills = now
	l.illHash = hash
	return before, true
}

// difference is the event's detail: the GPUs whose health changed. It names mostIll of them and counts the rest.
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

// gpuRows are the GPUs of a reading by which a node can be found. A reading is foreign text, so rows without a usable UUID are
// left out.
func gpuRows(hardware string) []store.GPU {
	var rows []store.GPU
	for _, g := range reading.GPUs(hardware) {
		if g.UUID != "" && len(g.UUID) <= 80 {
			rows = append(rows, store.GPU{UUID: g.UUID, Name: g.Name, BusID: g.BusID, Index: g.Index})
		}
	}
	return rows
}
