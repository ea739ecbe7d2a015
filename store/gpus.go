package store

import (
	"context"

	"muster/store/engine"
)

// Values of nodes.gpus_said; 0: no person has said anything since the enrolment.
const (
	saidNumber = 1 // a person set the number
	saidAsSeen = 2 // a person wants the number that is seen from then on; what the node remembers does not count
)

// raiseGPUs raises the record of how many GPUs a node has, unless a person set it or the node has enrolled again meanwhile.
func (b Beat) raiseGPUs() statement {
	return do("UPDATE nodes SET gpus_expected = ? WHERE id = ? AND enrolment_id = ? AND gpus_said <> ? AND gpus_expected < ?",
		int64(b.RaiseGPUs), b.NodeID, b.Enrolment, int64(saidNumber), int64(b.RaiseGPUs))
}

// SetGPUs sets the record of how many GPUs a node has. If said is true, a person has said the number: only a person or a new enrolment
// changes it. If not, a higher number that is seen later raises it. ErrConflict if the node does not exist or is retired.
func (s *Store) SetGPUs(ctx context.Context, nodeID string, gpus int, said bool, events ...Event) error {
	word := int64(saidAsSeen)
	if said {
		word = saidNumber
	}
	node := engine.In("nodes", "id = ? AND retired_at IS NULL", nodeID)
	return s.change(ctx, node.Update("gpus_expected = ?, gpus_said = ?", int64(gpus), word), events)
}

// TellReason changes the detail of a reason that the node has already.
func (s *Store) TellReason(ctx context.Context, nodeID, reason, detail string, events ...Event) error {
	return s.change(ctx, []statement{
		do("UPDATE reasons SET detail = ? WHERE node_id = ? AND reason = ?", detail, nodeID, reason),
	}, events)
}
