package engine

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Table maps rows to values of a struct. A field is a column if it has the tag sql, which names the column. A tag may be another expression
// of SQL too, such as n.name of a table that is joined: Insert and Put leave it out. If a field without a tag is a struct, the struct's
// fields are columns too. The tag "-" keeps a struct out.
//
// Texts, whole numbers and bools are stored as they are, times and durations in milliseconds, bytes in base64, and all else as JSON. NULL
// is nil in a field that is a pointer.
type Table[T any] struct {
	Columns string // as Read reads them

	query  string // SELECT ... FROM ...
	insert string
	put    string // follows insert
	fields []field
}

type field struct {
	path    []int
	written bool
}

// NewTable reads the tags of T. alias names the table in queries ("": it has no other name), and join follows it there.
func NewTable[T any](table, alias, join string) Table[T] {
	var t Table[T]
	var read, written, excluded []string
	for _, f := range mapped(reflect.TypeFor[T](), nil) {
		text := f.Tag.Get("sql")
		own := !strings.ContainsAny(text, ".( ")
		t.fields = append(t.fields, field{f.Index, own})
		if own {
			written = append(written, text)
			excluded = append(excluded, text+" = excluded."+text)
		}
		if own && alias != "" {
			text = alias + "." + text
		}
		read = append(read, text)
	}
	t.Columns = strings.Join(read, ", ")
	t.query = "SELECT " + t.Columns + " FROM " + table + " " + alias + " " + join + " "
	t.insert = "INSERT INTO " + table + "(" + strings.Join(written, ", ") + ") VALUES (" +
		strings.TrimSuffix(strings.Repeat("?, ", len(written)), ", ") + ") "
	t.put = "ON CONFLICT DO UPDATE SET " + strings.Join(excluded, ", ")
	return t
}

// mapped are the fields of a struct that are columns. Their indexes begin with the path to the struct.
func mapped(of reflect.Type, path []int) []reflect.StructField {
	var fields []reflect.StructField
	for f := range of.Fields() {
		f.Index = append(slices.Clone(path), f.Index...)
		tag, has := f.Tag.Lookup("sql")
		switch {
		case has && tag != "-":
			fields = append(fields, f)
		case !has && f.Type.Kind() == reflect.Struct:
			fields = append(fields, mapped(f.Type, f.Index)...)
		}
	}
	return fields
}

// All reads the rows that the rest of a query selects.
func (t Table[T]) All(ctx context.Context, db Querier, rest string, args ...any) ([]T, error) {
	return All(ctx, db, t.Read, Do(t.query+rest, args...))
}

// First does what All does, for the first row; ErrNotFound if there is none.
func (t Table[T]) First(ctx context.Context, db Querier, rest string, args ...any) (T, error) {
	return First(ctx, db, t.Read, Do(t.query+rest, args...))
}

// Insert stores a new row. rest may say what happens if the row exists already.
func (t Table[T]) Insert(row T, rest string) Statement {
	var args []any
	value := reflect.ValueOf(row)
	for _, f := range t.fields {
		if f.written {
			args = append(args, param(value.FieldByIndex(f.path)))
		}
	}
	return Do(t.insert+rest, args...)
}

// Put stores a row, and replaces the row with the same key.
func (t Table[T]) Put(row T) Statement { return t.Insert(row, t.put) }

// Read reads the columns of the table, and leaves the columns behind them unread.
func (t Table[T]) Read(r *Row) (row T) {
	value := reflect.ValueOf(&row).Elem()
	for _, f := range t.fields {
		r.read(value.FieldByIndex(f.path))
	}
	return row
}

func param(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case bool:
		return Flag(x)
	case time.Time:
		return Millis(x)
	case time.Duration:
		return x.Milliseconds()
	case []byte:
		return Base64(x)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int64:
		return v.Int()
	case reflect.Uint64:
		return int64(v.Uint())
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return param(v.Elem())
	}
	return JSON(v.Interface())
}

func (r *Row) read(into reflect.Value) {
	switch to := into.Addr().Interface().(type) {
	case *bool:
		*to = r.Flag()
		return
	case *time.Time:
		*to = r.Time()
		return
	case *time.Duration:
		*to = time.Duration(r.Number()) * time.Millisecond
		return
	case *[]byte:
		*to = r.Bytes()
		return
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(r.Text())
	case reflect.Int, reflect.Int64:
		into.SetInt(r.Number())
	case reflect.Uint64:
		into.SetUint(uint64(r.Number()))
	case reflect.Pointer:
		if r.null() {
			return
		}
		into.Set(reflect.New(into.Type().Elem()))
		r.read(into.Elem())
	default:
		r.Document(into.Addr().Interface())
	}
}
