package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// row reads the columns of a result from left to right. The first value of a wrong type sets err. Callers look at err once, after
// the last column.
type row struct {
	values []any
	next   int
	err    error
}

func (r *row) take() any {
	if r.next >= len(r.values) {
		r.fail("no such column")
		return nil
	}
	r.next++
	return r.values[r.next-1]
}

// fail keeps the first error only: later ones follow from it.
func (r *row) fail(what any) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d of a row: %v", r.next, what)
	}
}

// text reads TEXT; NULL is "".
func (r *row) text() string {
	switch v := r.take().(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		r.fail(fmt.Sprintf("%T, want text", v))
		return ""
	}
}

// integer reads INTEGER; NULL is nil.
func (r *row) integer() *int64 {
	switch v := r.take().(type) {
	case nil:
		return nil
	case int64:
		return &v
	default:
		r.fail(fmt.Sprintf("%T, want integer", v))
		return nil
	}
}

// number reads INTEGER; NULL is 0.
func (r *row) number() int64 {
	if v := r.integer(); v != nil {
		return *v
	}
	return 0
}

func (r *row) flag() bool { return r.number() != 0 }

// time reads Unix milliseconds.
func (r *row) time() time.Time { return time.UnixMilli(r.number()).UTC() }

// maybe reads Unix milliseconds; NULL is nil.
func (r *row) maybe() *time.Time {
	v := r.integer()
	if v == nil {
		return nil
	}
	t := time.UnixMilli(*v).UTC()
	return &t
}

// document reads JSON text into a value. NULL and "" do not change the value.
func (r *row) document(into any) {
	text := r.text()
	if text == "" {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.fail(err)
	}
}

// bytes reads base64 text.
func (r *row) bytes() []byte {
	value, err := base64.StdEncoding.DecodeString(r.text())
	if err != nil {
		r.fail(err)
	}
	return value
}

// all runs a query and reads every row of it.
func all[T any](ctx context.Context, s *Store, read func(*row) T, st statement) ([]T, error) {
	rows, err := s.query(ctx, st)
	if err != nil {
		return nil, err
	}
	values := make([]T, 0, len(rows))
	for _, columns := range rows {
		r := row{values: columns}
		values = append(values, read(&r))
		if r.err != nil {
			return nil, r.err
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
