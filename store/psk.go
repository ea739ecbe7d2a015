package store

import (
	"context"
	"time"
)

// PSK is a live cluster key, stretched: never the passphrase itself.
type PSK struct {
	ID        string // psk-<8 hex>
	Key       []byte
	CreatedAt time.Time
}

// pskPlace names where a key is sealed.
func pskPlace(id string) string { return "psks/key/" + id }

// PSK returns the live key with this id, or ErrNotFound.
func (s *Store) PSK(ctx context.Context, id string) (PSK, error) {
	keys, err := s.psks(ctx, do("SELECT id, key, created_at FROM psks WHERE id = ?", id))
	if err != nil {
		return PSK{}, err
	}
	if len(keys) == 0 {
		return PSK{}, ErrNotFound
	}
	return keys[0], nil
}

// PSKs returns the live keys, newest first: at most two.
func (s *Store) PSKs(ctx context.Context) ([]PSK, error) {
	return s.psks(ctx, do("SELECT id, key, created_at FROM psks ORDER BY created_at DESC, id"))
}

func (s *Store) psks(ctx context.Context, st statement) ([]PSK, error) {
	return all(ctx, s, func(r *row) PSK {
		k := PSK{ID: r.text()}
		key, err := s.sealer.open(pskPlace(k.ID), r.text())
		if err != nil {
			r.fail(err)
		}
		k.Key, k.CreatedAt = key, r.time()
		return k
	}, st)
}

// AddPSK adds a key beside the live one; ErrConflict when two others are live. Adding the same id again changes nothing.
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
	return do("INSERT INTO psks(id, key, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		k.ID, s.sealer.seal(pskPlace(k.ID), k.Key), millis(k.CreatedAt))
}

// ClearPSKs removes every key but the one to keep ("" none).
func (s *Store) ClearPSKs(ctx context.Context, keep string, events ...Event) error {
	return s.change(ctx, []statement{do("DELETE FROM psks WHERE id <> ?", keep)}, events)
}
