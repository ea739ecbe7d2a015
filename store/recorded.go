package store

import "context"

// Recorded is an enrolment as it was stored.
type Recorded struct {
	ID          string
	Certificate Certificate // generation 1
	Node        Node
}

const recordedColumns = "SELECT e.id, " + certificateColumns + ", " +
	nodeColumns + `
	FROM enrolments e JOIN certificates c ON c.key_hash = e.key_hash AND c.enrolment_id = e.id JOIN nodes n ON n.id = e.node_id` + nodeJoins

func readRecorded(r *row) Recorded {
	return Recorded{ID: r.Text(), Certificate: readCertificate(r), Node: readNode(r)}
}

// Recorded returns the enrolment that this credential and this key made, or ErrNotFound.
func (s *Store) Recorded(ctx context.Context, credential, keyHash string) (Recorded, error) {
	return first(ctx, s, readRecorded, do(recordedColumns+" WHERE c.key_hash = ? AND e.credential = ?", keyHash, credential))
}

// InstanceUse returns the newest enrolment of this instance with this credential, or ErrNotFound.
func (s *Store) InstanceUse(ctx context.Context, credential, provider, instanceID string) (Recorded, error) {
	return first(ctx, s, readRecorded, do(recordedColumns+` WHERE e.credential = ? AND e.provider = ? AND e.instance_id = ?
		AND e.instance_id <> ''
		ORDER BY e.at DESC, e.id DESC LIMIT 1`, credential, provider, instanceID))
}
