package store

import "context"

// GPU is one device that a node reported.
type GPU struct {
	UUID  string
	Name  string
	BusID string
	Index int
}

// putGPUs writes the rows of GPUs in their nodes. If a GPU was in another node before, that node keeps its own row: a search for the GPU
// then finds both. Each row of the JSON is an array. (SQLite needs the WHERE to tell ON CONFLICT from a join's ON.)
const putGPUs = `INSERT INTO gpus(uuid, node_id, position, name, bus_id, first_seen, last_seen)
	SELECT g.value ->> 2, n.id, g.value ->> 3, g.value ->> 4, g.value ->> 5, g.value ->> 1, g.value ->> 1
	FROM json_each(?) g CROSS JOIN nodes n ON n.id = g.value ->> 0 WHERE true
	ON CONFLICT DO UPDATE SET position = excluded.position, name = excluded.name, bus_id = excluded.bus_id, last_seen = excluded.last_seen
		WHERE excluded.last_seen >= last_seen`

// maxGPURows bounds the rows of one node. No machine has so many GPUs, replaced ones included. But a node can send any UUIDs, and
// must not fill the database.
const maxGPURows = 4 << 10

// forgetGPUs drops the rows of some nodes beyond maxGPURows that were seen longest ago.
const forgetGPUs = `DELETE FROM gpus WHERE (uuid, node_id) IN (SELECT uuid, node_id FROM
	(SELECT uuid, node_id, row_number() OVER (PARTITION BY node_id ORDER BY last_seen DESC) AS place FROM gpus
		WHERE node_id IN (SELECT value FROM json_each(?))) WHERE place > ?)`

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
