package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"time"
)

// Do makes a statement.
func Do(text string, args ...any) Statement { return Statement{SQL: text, Args: args} }

// Guard makes a statement that aborts its batch unless the condition, an SQL expression, is true. A trigger on the view guards
// does that. The statement uses VALUES: for a SELECT, SQLite would first copy the rows into a table because of the trigger.
func Guard(condition string, args ...any) Statement {
	return Do("INSERT INTO guards(held) VALUES ("+condition+")", args...)
}

// Querier runs queries, as each engine does.
type Querier interface {
	Query(ctx context.Context, st Statement) ([][]any, error)
}

// All runs a query and reads every row of it.
func All[T any](ctx context.Context, db Querier, read func(*Row) T, st Statement) ([]T, error) {
	rows, err := db.Query(ctx, st)
	if err != nil {
		return nil, err
	}
	values := make([]T, 0, len(rows))
	for _, columns := range rows {
		r := Row{Values: columns}
		values = append(values, read(&r))
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return values, nil
}

// First does what All does, for a query of which only the first row is wanted; ErrNotFound if there is none.
func First[T any](ctx context.Context, db Querier, read func(*Row) T, st Statement) (T, error) {
	values, err := All(ctx, db, read, st)
	if err != nil || len(values) == 0 {
		var none T
		return none, cmp.Or(err, ErrNotFound)
	}
	return values[0], nil
}

// Millis returns the parameter for a time.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// MaybeMillis returns the parameter for a time that may be missing.
func MaybeMillis(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMilli()
}

// Flag returns the parameter for a bool.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Base64 returns the parameter for bytes.
func Base64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// JSON is the parameter for a value that always encodes: texts, numbers, and lists and maps of them. A nil list is [], a nil map {}.
func JSON(v any) string {
	switch value := reflect.ValueOf(v); {
	case value.Kind() == reflect.Slice && value.IsNil():
		return "[]"
	case value.Kind() == reflect.Map && value.IsNil():
		return "{}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
