package store

import (
	"context"

	"muster/store/engine"
)

// Recorded is an enrolment as it was stored.
type Recorded struct {
	ID          string      `sql:"e.id"`
	Certificate Certificate // generation 1
	Node        Node
}

var recorded = engine.NewTable[Recorded]("certificates", "c", "")

func (s *Store) recorded(ctx context.Context, rest string, args ...any) (Recorded, error) {
	return first(ctx, s, func(r *row) Recorded {
		one := recorded.Read(r)
		readMore(r, &one.Node)
		return one
	}, do("SELECT "+recorded.Columns+nodeMore+` FROM enrolments e JOIN certificates c ON c.key_hash = e.key_hash AND c.enrolment_id = e.id
		JOIN nodes n ON n.id = e.node_id`+nodeJoins+rest, args...))
}

// Recorded returns the enrolment that this credential and this key made, or ErrNotFound.
func (s *Store) Recorded(ctx context.Context, credential, keyHash string) (Recorded, error) {
	return s.recorded(ctx, " WHERE c.key_hash = ? AND e.credential = ?", keyHash, credential)
}

// InstanceUse returns the newest enrolment of this instance with this credential, or ErrNotFound.
func (s *Store) InstanceUse(ctx context.Context, credential, provider, instanceID string) (Recorded, error) {
	return s.recorded(ctx, ` WHERE e.credential = ? AND e.provider = ? AND e.instance_id = ? AND e.instance_id <> ''
		ORDER BY e.at DESC, e.id DESC LIMIT 1`, credential, provider, instanceID)
}
