package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/store/engine"
	"muster/store/sqlite"
)

func day() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// schema has one table, and the view by which a batch states a condition.
func schema() fstest.MapFS {
	return fstest.MapFS{"0001_test.sql": &fstest.MapFile{Data: []byte(`CREATE TABLE t (k TEXT NOT NULL PRIMARY KEY, v TEXT) STRICT;
		CREATE VIEW guards(held) AS SELECT 1;
		CREATE TRIGGER guards_hold INSTEAD OF INSERT ON guards WHEN NEW.held IS NOT 1
		BEGIN SELECT RAISE(ABORT, 'a condition of the write did not hold'); END;`)}}
}

func open(t testing.TB) *sqlite.DB {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.db"), day)
}

func openAt(t testing.TB, path string, now func() time.Time) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrations: schema(), Now: now})
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// must stops the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks an error that callers branch on; nil wants none.
func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func put(k, v string) engine.Statement {
	return engine.Statement{SQL: "INSERT INTO t(k, v) VALUES (?, ?) ON CONFLICT DO UPDATE SET v = excluded.v", Args: []any{k, v}}
}

func write(ctx context.Context, db *sqlite.DB, k string) error {
	_, err := db.Batch(ctx, []engine.Statement{put(k, "v")})
	return err
}

// stored tells whether the table has a row of this key.
func stored(t testing.TB, db *sqlite.DB, k string) bool {
	t.Helper()
	rows, err := db.Query(t.Context(), engine.Statement{SQL: "SELECT v FROM t WHERE k = ?", Args: []any{k}})
	must(t, err)
	return len(rows) > 0
}

// group writes one row for each key in one commit. The key "" makes a batch that writes "partial" and then fails on a guard;
// "malformed" one whose statement does not compile.
func group(db *sqlite.DB, keys []string, contexts []context.Context) []error {
	batches := make([][]engine.Statement, len(keys))
	for i, key := range keys {
		batches[i] = []engine.Statement{put(key, "v")}
		switch key {
		case "":
			batches[i] = []engine.Statement{put("partial", "v"), {SQL: "INSERT INTO guards(held) VALUES (0)"}}
		case "malformed":
			batches[i] = []engine.Statement{put("partial", "v"), {SQL: "INSERT INTO nowhere VALUES (1)"}}
		}
	}
	return sqlite.BatchGroup(db, batches, contexts)
}

// raw opens the database beside the store.
func raw(t testing.TB, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	c, err := db.Conn(t.Context())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func execute(t testing.TB, c *sql.Conn, text string, args ...any) {
	t.Helper()
	_, err := c.ExecContext(t.Context(), text, args...)
	must(t, err)
}

// TestCommitsAreSynced: a commit is on the disk before it is acknowledged, but for what may be lost. SQLite keeps that promise as long as
// it is asked for it: so this looks at what it is asked for.
func TestCommitsAreSynced(t *testing.T) {
	for lax, want := range map[bool]string{false: "2", true: "1"} { // FULL and NORMAL
		db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "t.db"), Migrations: schema(), Now: day, Lax: lax})
		must(t, err)
		if level, err := sqlite.Pragma(db, "synchronous"); err != nil || level != want {
			t.Errorf("lax %t: synchronous is %s, %v: want %s", lax, level, err, want)
		}
		if mode, err := sqlite.Pragma(db, "journal_mode"); err != nil || mode != "wal" {
			t.Errorf("lax %t: the journal is %s, %v", lax, mode, err)
		}
		must(t, db.Close())
	}
}

func TestGroupIsolation(t *testing.T) {
	db := open(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		keys  []string
		ended int // index of the caller whose context has ended, -1 none
		want  []error
	}{
		{"all good", []string{"a", "b", "c"}, -1, []error{nil, nil, nil}},
		{"one guard fails", []string{"d", "", "e"}, -1, []error{nil, engine.ErrConflict, nil}},
		{"two guards fail", []string{"", "f", ""}, -1, []error{engine.ErrConflict, nil, engine.ErrConflict}},
		{"alone and failing", []string{""}, -1, []error{engine.ErrConflict}},
		{"a context ended", []string{"g", "withdrawn", "h"}, 1, []error{nil, context.Canceled, nil}},
		{"a context ended and a guard fails", []string{"withdrawn", "i", ""}, 0, []error{context.Canceled, nil, engine.ErrConflict}},
	} {
		t.Run(c.name, func(t *testing.T) {
			contexts := slices.Repeat([]context.Context{t.Context()}, len(c.keys))
			if c.ended >= 0 {
				contexts[c.ended] = ended
			}
			got := group(db, c.keys, contexts)
			for i, want := range c.want {
				wantError(t, got[i], want)
				if got := stored(t, db, c.keys[i]); got != (want == nil) {
					t.Errorf("key %q: stored is %v, want %v", c.keys[i], got, want == nil)
				}
			}
			if stored(t, db, "partial") {
				t.Error("a failed batch left something behind")
			}
		})
	}
}

func TestGroupMalformed(t *testing.T) {
	db := open(t)
	got := group(db, []string{"a", "malformed", "b"}, slices.Repeat([]context.Context{t.Context()}, 3))
	if got[0] != nil || got[2] != nil {
		t.Errorf("neighbours got %v and %v", got[0], got[2])
	}
	if got[1] == nil || errors.Is(got[1], engine.ErrConflict) {
		t.Errorf("a statement that does not compile got %v, want an error that is no conflict", got[1])
	}
}

func TestDiskFull(t *testing.T) {
	db := open(t)
	must(t, sqlite.FillDisk(db))
	contexts := slices.Repeat([]context.Context{t.Context()}, 2)
	big := strings.Repeat("k", 1<<20)
	for i, err := range group(db, []string{"small", big}, contexts) {
		if err == nil || !strings.Contains(err.Error(), "full") || errors.Is(err, engine.ErrConflict) {
			t.Errorf("caller %d got %v, want an error that says the disk is full", i, err)
		}
	}
	if stored(t, db, "small") {
		t.Error("a batch that was told it failed is stored")
	}
	must(t, write(t.Context(), db, "after")) // on a new connection
	must(t, write(t.Context(), db, big))
}

func TestContextEndsInQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openAt(t, path, day)
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE") // the writer now waits in its next commit
	first := make(chan error)
	go func() { first <- write(context.Background(), db, "first") }()
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() { second <- write(ctx, db, "second") }()
	cancel()
	execute(t, other, "COMMIT")
	must(t, <-first)
	// It may have been the one that the writer held, and then it is skipped or stored: what its caller is told has to be so.
	told := <-second
	if (told == nil) != stored(t, db, "second") {
		t.Errorf("told %v, but reading says %v", told, told != nil)
	}
	if told != nil {
		wantError(t, told, context.Canceled)
	}
}

func TestReadsDoNotWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openAt(t, path, day)
	must(t, write(t.Context(), db, "k"))
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	execute(t, other, "UPDATE t SET v = 'uncommitted'")
	rows, err := db.Query(t.Context(), engine.Statement{SQL: "SELECT v FROM t"})
	if err != nil || len(rows) != 1 || rows[0][0] != "v" {
		t.Errorf("got %v, %v while another process writes; want the committed value", rows, err)
	}
	execute(t, other, "ROLLBACK")
}

func TestReadCancelled(t *testing.T) {
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Query(ctx, engine.Statement{SQL: "SELECT v FROM t"})
	wantError(t, err, context.Canceled)
	wantError(t, write(ctx, db, "k"), context.Canceled)
}
