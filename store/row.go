package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// all runs a query and reads every row of it.
func all[T any](ctx context.Context, s *Store, read func(*row) T, st statement) ([]T, error) {
	rows, err := s.query(ctx, st)
	if err != nil {
		return nil, err
	}
	values := make([]T, 0, len(rows))
	for _, columns := range rows {
		r := row{Values: columns}
		values = append(values, read(&r))
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return values, nil
}

// first is all for a query of which only the first row is wanted; ErrNotFound if there is none.
func first[T any](ctx context.Context, s *Store, read func(*row) T, st statement) (T, error) {
	values, err := all(ctx, s, read, st)
	if err != nil || len(values) == 0 {
		var none T
		return none, cmp.Or(err, ErrNotFound)
	}
	return values[0], nil
}

// millis is the parameter for a time.
func millis(t time.Time) int64 { return t.UnixMilli() }

// maybeMillis is the parameter for a time that may be missing.
func maybeMillis(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}

// flag is the parameter for a bool.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// object is the parameter for a map of labels or details.
func object(m map[string]string) string {
	if len(m) == 0 {
		return "{}"
	}
	return encode(m)
}

// list is the parameter for a list of strings.
func list(l []string) string {
	if len(l) == 0 {
		return "[]"
	}
	return encode(l)
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(b)
}
