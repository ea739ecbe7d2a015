package engine_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/store/engine"
)

type inner struct {
	Size uint64 `sql:"size"`
}

type record struct {
	ID   string        `sql:"t.id"` // the database gives it
	Name string        `sql:"name"`
	At   time.Time     `sql:"at"`
	Life time.Duration `sql:"life_ms"`
	Is   bool          `sql:"is_so"`
	Raw  []byte        `sql:"raw"`
	End  *time.Time    `sql:"end_at"`
	Some []string      `sql:"some"`
	inner
	Away inner `sql:"-"`
	More int
}

// answers gives rows to each query, and keeps the last one.
type answers struct {
	rows [][]any
	last engine.Statement
}

func (a *answers) Query(_ context.Context, st engine.Statement) ([][]any, error) {
	a.last = st
	return a.rows, nil
}

// TestTable: what is read is what was stored, a pointer may be nil, and what the database gives is not written.
func TestTable(t *testing.T) {
	table := engine.NewTable[record]("things", "t", "")
	end := time.UnixMilli(9000).UTC()
	for _, want := range []record{
		{Name: "a", At: time.UnixMilli(1).UTC(), Life: time.Second, Is: true, Raw: []byte{1}, End: &end, Some: []string{"x"}, inner: inner{7}},
		{Name: "b", At: time.UnixMilli(2).UTC(), Raw: []byte{}, Some: []string{}},
	} {
		st := table.Insert(want, "")
		if !strings.HasPrefix(st.SQL, "INSERT INTO things(name, at, life_ms, is_so, raw, end_at, some, size) VALUES (?, ?, ") {
			t.Errorf("the statement %s", st.SQL)
		}
		db := &answers{rows: [][]any{append([]any{"id"}, st.Args...)}}
		want.ID = "id"
		got, err := table.First(t.Context(), db, "WHERE name = ?", want.Name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if !strings.HasPrefix(db.last.SQL, "SELECT t.id, t.name, ") {
			t.Errorf("the query %s", db.last.SQL)
		}
	}
	if _, err := table.First(t.Context(), &answers{}, ""); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("of no row: %v", err)
	}
}

// TestPages: one more row than the limit means that there is another page, which begins behind the last one. A condition
// with OR stays one.
func TestPages(t *testing.T) {
	pages := engine.Pages[int64]{Read: (*engine.Row).Number, Column: "n", Number: func(n int64) int64 { return n },
		Query: func(rest string, args ...any) engine.Statement { return engine.Do("SELECT n FROM t"+rest, args...) }}
	var where engine.Where
	where.Given("a = ? OR b = ?", "x")
	where.Given("c = ?", "")
	db := &answers{rows: [][]any{{int64(9)}, {int64(8)}, {int64(7)}}}
	page, next, err := pages.Page(t.Context(), db, where, 2, "10")
	if err != nil || !slices.Equal(page, []int64{9, 8}) || next != "8" {
		t.Errorf("got %v, next %q, %v", page, next, err)
	}
	want := engine.Do("SELECT n FROM t WHERE (a = ? OR b = ?) AND (n < ?) ORDER BY n DESC LIMIT ?", "x", "x", int64(10), int64(3))
	if !reflect.DeepEqual(db.last, want) {
		t.Errorf("got %v, want %v", db.last, want)
	}
	if _, _, err := pages.Page(t.Context(), db, where, 2, "x"); !errors.Is(err, engine.ErrBadCursor) {
		t.Errorf("a cursor of nobody: %v", err)
	}
}

// TestRows: a write of rows is guarded by the condition that finds them.
func TestRows(t *testing.T) {
	got := engine.In("t", "id = ? AND n > ?", "a", int64(1)).Update("x = ?", "y")
	want := []engine.Statement{engine.Guard("EXISTS(SELECT 1 FROM t WHERE id = ? AND n > ?)", "a", int64(1)),
		engine.Do("UPDATE t SET x = ? WHERE id = ? AND n > ?", "y", "a", int64(1))}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
