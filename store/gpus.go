package store

import "context"

// GPU is one device that a node reported.
type GPU struct {
	UUID  string
	Name  string
	BusID string
	Index int
}

// upsert writes the row of a GPU in this node. If the GPU was in another node before, that node keeps its own row: a search for the
// GPU then finds both.
func (g GPU) upsert(b Beat) statement {
	return do(`INSERT INTO gpus(uuid, node_id, position, name, bus_id, first_seen, last_seen)
		SELECT ?, id, ?, ?, ?, ?, ? FROM nodes WHERE id = ?
		ON CONFLICT DO UPDATE SET position = excluded.position, name = excluded.name, bus_id = excluded.bus_id,
			last_seen = excluded.last_seen
			WHERE excluded.last_seen >= last_seen`,
		g.UUID, int64(g.Index), g.Name, g.BusID, millis(b.At), millis(b.At), b.NodeID)
}

// maxGPURows bounds the rows of one node. No machine has so many GPUs, replaced ones included. But a node can send any UUIDs, and
// must not fill the database.
const maxGPURows = 4 << 10

// forgetGPUs drops the rows beyond maxGPURows that were seen longest ago.
func (b Beat) forgetGPUs() statement {
	return do(`DELETE FROM gpus WHERE node_id = ? AND uuid IN (
		SELECT uuid FROM gpus WHERE node_id = ? ORDER BY last_seen DESC LIMIT -1 OFFSET ?)`, b.NodeID, b.NodeID, int64(maxGPURows))
}

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

// SetGPUs sets the record of how many GPUs a node has. With said, the number is a person's: only a person or a new enrolment
// changes it. Without, what is seen from now on raises it. ErrConflict if the node does not exist or is retired.
func (s *Store) SetGPUs(ctx context.Context, nodeID string, gpus int, said bool, events ...Event) error {
	word := int64(saidAsSeen)
	if said {
		word = saidNumber
	}
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL)", nodeID),
		do("UPDATE nodes SET gpus_expected = ?, gpus_said = ? WHERE id = ?", int64(gpus), word, nodeID),
	}, events)
}

// TellReason changes the detail of a reason that the node has already.
func (s *Store) TellReason(ctx context.Context, nodeID, reason, detail string, events ...Event) error {
	return s.change(ctx, []statement{
		do("UPDATE reasons SET detail = ? WHERE node_id = ? AND reason = ?", detail, nodeID, reason),
	}, events)
}
