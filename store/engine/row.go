package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
)

// Row reads the columns of a result from left to right. The first value of a wrong type sets Err. Callers look at Err once, after
// the last column.
type Row struct {
	Values []any
	Err    error
	next   int
}

func (r *Row) take() any {
	if r.next >= len(r.Values) {
		r.Fail("no such column")
		return nil
	}
	r.next++
	return r.Values[r.next-1]
}

// null takes the next column if it is NULL.
func (r *Row) null() bool {
	is := r.next < len(r.Values) && r.Values[r.next] == nil
	if is {
		r.next++
	}
	return is
}

// Fail keeps the first error only: later ones follow from it.
func (r *Row) Fail(what any) {
	if r.Err == nil {
		r.Err = fmt.Errorf("column %d of a row: %v", r.next, what)
	}
}

// Text reads TEXT; NULL is "".
func (r *Row) Text() string {
	switch v := r.take().(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		r.Fail(fmt.Sprintf("%T, want text", v))
		return ""
	}
}

// Integer reads INTEGER; NULL is nil.
func (r *Row) Integer() *int64 {
	switch v := r.take().(type) {
	case nil:
		return nil
	case int64:
		return &v
	default:
		r.Fail(fmt.Sprintf("%T, want integer", v))
		return nil
	}
}

// Number reads INTEGER; NULL is 0.
func (r *Row) Number() int64 {
	if v := r.Integer(); v != nil {
		return *v
	}
	return 0
}

// Flag reads INTEGER as a bool; NULL is false.
func (r *Row) Flag() bool { return r.Number() != 0 }

// Time reads Unix milliseconds.
func (r *Row) Time() time.Time { return time.UnixMilli(r.Number()).UTC() }

// Maybe reads Unix milliseconds; NULL is nil.
func (r *Row) Maybe() *time.Time {
	v := r.Integer()
	if v == nil {
		return nil
	}
	t := time.UnixMilli(*v).UTC()
	return &t
}

// Document reads JSON text into a value. NULL and "" do not change the value.
func (r *Row) Document(into any) {
	text := r.Text()
	if text == "" {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		r.Fail(err)
	}
}

// Blob reads BLOB; NULL is nil.
func (r *Row) Blob() []byte {
	switch v := r.take().(type) {
	case nil:
		return nil
	case []byte:
		return v
	default:
		r.Fail(fmt.Sprintf("%T, want a blob", v))
		return nil
	}
}

// Bytes reads base64 text.
func (r *Row) Bytes() []byte {
	value, err := base64.StdEncoding.DecodeString(r.Text())
	if err != nil {
		r.Fail(err)
	}
	return value
}
