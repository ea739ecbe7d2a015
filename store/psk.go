package store

import (
	"context"
	"time"
)

// DefaultTenant is the tenant of nodes that join without one. Nodes that join with a PSK belong to it.
const DefaultTenant = "default"

// PSK is a live cluster key. The key is stretched from a passphrase, which is never stored.
type PSK struct {
	ID        string // psk-<8 hex>
	Key       []byte
	Mark      []byte // a text that may be the passphrase is compared with it
	CreatedAt time.Time
}

// pskPlace is the place of a key for the sealer.
func pskPlace(id string) string { return "psks/key/" + id }

// markPlace is the place of a mark for the sealer.
func markPlace(id string) string { return "psks/mark/" + id }

// PSK returns the live key with this id, or ErrNotFound.
func (s *Store) PSK(ctx context.Context, id string) (PSK, error) {
	keys, err := s.psks(ctx, do("SELECT id, key, mark, created_at FROM psks WHERE id = ?", id))
	if err != nil {
		return PSK{}, err
	}
	if len(keys) == 0 {
		return PSK{}, ErrNotFound
	}
	return keys[0], nil
}

// PSKs returns the live keys, newest first. There are two at most: while a key is being changed, the old and the new one.
func (s *Store) PSKs(ctx context.Context) ([]PSK, error) {
	return s.psks(ctx, do("SELECT id, key, mark, created_at FROM psks ORDER BY created_at DESC, id"))
}

func (s *Store) psks(ctx context.Context, st statement) ([]PSK, error) {
	return all(ctx, s, func(r *row) PSK {
		k := PSK{ID: r.Text()}
		var err error
		if k.Key, err = s.seal.Open(pskPlace(k.ID), r.Text()); err != nil {
			r.Fail(err)
		}
		if sealed := r.Text(); sealed != "" {
			if k.Mark, err = s.seal.Open(markPlace(k.ID), sealed); err != nil {
				r.Fail(err)
			}
		}
		k.CreatedAt = r.Time()
		return k
	}, st)
}

// AddPSK adds a key beside the live one. ErrConflict if two others are live. If the id is there already, AddPSK changes at most its
// mark.
func (s *Store) AddPSK(ctx context.Context, k PSK, events ...Event) error {
	return s.change(ctx, []statement{
		guard("(SELECT count(*) FROM psks WHERE id <> ?) < 2", k.ID),
		s.insertPSK(k),
	}, events)
}

// SetPSK makes this key the only live one.
func (s *Store) SetPSK(ctx context.Context, k PSK, events ...Event) error {
	return s.change(ctx, []statement{do("DELETE FROM psks WHERE id <> ?", k.ID), s.insertPSK(k)}, events)
}

func (s *Store) insertPSK(k PSK) statement {
	var mark any
	if k.Mark != nil {
		mark = s.seal.Seal(markPlace(k.ID), k.Mark)
	}
	return do("INSERT INTO psks(id, key, mark, created_at) VALUES (?, ?, ?, ?) "+
		"ON CONFLICT DO UPDATE SET mark = coalesce(excluded.mark, mark)",
		k.ID, s.seal.Seal(pskPlace(k.ID), k.Key), mark, millis(k.CreatedAt))
}

// ClearPSKs removes every key except the one to keep ("": removes all).
func (s *Store) ClearPSKs(ctx context.Context, keep string, events ...Event) error {
	return s.change(ctx, []statement{do("DELETE FROM psks WHERE id <> ?", keep)}, events)
}
