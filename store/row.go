package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// all runs a query and reads every row of it.
func all[T any](ctx context.Context, s *Store, read func(*row) T, st statement) ([]T, error) {
	return engine.All(ctx, s.db, read, st)
}

// first is all for a query of which only the first row is wanted; ErrNotFound if there is none.
func first[T any](ctx context.Context, s *Store, read func(*row) T, st statement) (T, error) {
	return engine.First(ctx, s.db, read, st)
}

func millis(t time.Time) int64 { return engine.Millis(t) }

func maybeMillis(t *time.Time) any { return engine.MaybeMillis(t) }

func flag(b bool) int64 { return engine.Flag(b) }
