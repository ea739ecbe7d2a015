package store

import (
	"context"
	"strconv"
)

const setMeta = "INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"

// Meta returns the value under a key, or ErrNotFound. Meta values are the gateway's own, not about any node.
func (s *Store) Meta(ctx context.Context, key string) (string, error) {
	return s.value(ctx, do("SELECT value FROM meta WHERE key = ?", key))
}

// value runs a query for one text in one row.
func (s *Store) value(ctx context.Context, st statement) (string, error) {
	rows, err := s.query(ctx, st)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", ErrNotFound
	}
	r := row{Values: rows[0]}
	return r.Text(), r.Err
}

// SetMeta stores a value in place of the earlier one.
func (s *Store) SetMeta(ctx context.Context, key, value string) error {
	return s.change(ctx, []statement{do(setMeta, key, value)}, nil)
}

// AddMeta stores a value under a key that has none yet; ErrConflict when it has one.
func (s *Store) AddMeta(ctx context.Context, key, value string, events ...Event) error {
	return s.change(ctx, []statement{do("INSERT INTO meta(key, value) VALUES (?, ?)", key, value)}, events)
}

// MetaOnce stores a value unless the key has one, and returns the value that the key has now. Of several callers at once, all get
// the same value.
func (s *Store) MetaOnce(ctx context.Context, key, value string) (string, error) {
	return s.once(ctx, do("INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT DO NOTHING", key, value),
		do("SELECT value FROM meta WHERE key = ?", key))
}

// once runs an insert that keeps an earlier row, and returns the value of the kept row.
func (s *Store) once(ctx context.Context, insert, kept statement) (string, error) {
	if err := s.change(ctx, []statement{insert}, nil); err != nil {
		return "", err
	}
	return s.value(ctx, kept)
}

// Ready returns nil if the database can be written. It finds out by writing.
func (s *Store) Ready(ctx context.Context) error {
	return s.SetMeta(ctx, "ready_at", strconv.FormatInt(millis(s.now()), 10))
}
