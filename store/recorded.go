package store

import (
	"context"
	"time"
)

// Recorded is an enrolment as it was stored.
type Recorded struct {
	ID          string
	Credential  string
	NodeID      string
	At          time.Time
	Provider    string
	InstanceID  string
	Certificate Certificate // generation 1
	Node        Node
}

const recordedColumns = "SELECT e.id, e.credential, e.node_id, e.at, e.provider, e.instance_id, " + certificateColumns + ", " +
	nodeColumns + `
	FROM enrolments e JOIN certificates c ON c.key_hash = e.key_hash AND c.enrolment_id = e.id JOIN nodes n ON n.id = e.node_id` + nodeJoins

func readRecorded(r *row) Recorded {
	e := Recorded{ID: r.Text(), Credential: r.Text(), NodeID: r.Text(), At: r.Time(), Provider: r.Text(), InstanceID: r.Text()}
	e.Certificate = readCertificate(r)
	e.Node = readNode(r)
	return e
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
