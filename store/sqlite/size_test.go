package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/store/engine"
	"muster/store/sqlite"
)

// lax opens a file that may lose its last writes.
func lax(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrations: schema(), Now: day, Lax: true})
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestShrink: what was deleted becomes free, is counted, and is given back in portions.
func TestShrink(t *testing.T) {
	db := lax(t, filepath.Join(t.TempDir(), "lax.db"))
	_, err := db.Batch(t.Context(), []engine.Statement{
		engine.Do("CREATE TABLE b (k INTEGER PRIMARY KEY, data BLOB)"),
		engine.Do("INSERT INTO b VALUES (1, ?)", bytes.Repeat([]byte{7}, 1<<20)),
	})
	must(t, err)
	full, err := db.Size(t.Context())
	must(t, err)
	if full.File < 1<<20 || full.Free != 0 {
		t.Fatalf("%+v with 1 MiB in it", full)
	}
	_, err = db.Batch(t.Context(), []engine.Statement{engine.Do("DELETE FROM b")})
	must(t, err)
	empty, err := db.Size(t.Context())
	must(t, err)
	if empty.File != full.File || empty.Free < 1<<20 {
		t.Fatalf("%+v after all was deleted, want the same file, free", empty)
	}
	must(t, db.Shrink(t.Context(), 100))
	some, err := db.Size(t.Context())
	must(t, err)
	if gone := empty.File - some.File; gone < 90*4096 || gone > 110*4096 {
		t.Errorf("%d bytes were given back, want some 100 pages", gone)
	}
	must(t, db.Shrink(t.Context(), 1000))
	if last, err := db.Size(t.Context()); err != nil || last.Free != 0 || last.File > 64<<10 {
		t.Errorf("%+v, %v: want nothing free", last, err)
	}
}

// TestBlob: bytes come back as they were, those of a zero too, and NULL is nil.
func TestBlob(t *testing.T) {
	db := lax(t, filepath.Join(t.TempDir(), "lax.db"))
	want := []byte{0, 1, 0xff, 0, 0xc3, 0x28}
	_, err := db.Batch(t.Context(), []engine.Statement{
		engine.Do("CREATE TABLE b (k INTEGER PRIMARY KEY, data BLOB)"),
		engine.Do("INSERT INTO b VALUES (1, ?), (2, NULL), (3, 'text')", want),
		engine.Do("UPDATE b SET data = CAST(data || ? AS BLOB) WHERE k = 1", want),
	})
	must(t, err)
	rows, err := engine.All(t.Context(), db, (*engine.Row).Blob, engine.Do("SELECT data FROM b WHERE k < 3 ORDER BY k"))
	must(t, err)
	if !bytes.Equal(rows[0], append(want, want...)) || rows[1] != nil {
		t.Errorf("read %v", rows)
	}
	if _, err := engine.All(t.Context(), db, (*engine.Row).Blob, engine.Do("SELECT data FROM b WHERE k = 3")); err == nil {
		t.Error("text was read as a blob")
	}
}

// TestDamagedLater: a file that is damaged while it is open says so to readers and to writers.
func TestDamagedLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lax.db")
	db := lax(t, path)
	must(t, write(t.Context(), db, "k"))
	must(t, db.Close())
	db = lax(t, path)
	raw, err := os.ReadFile(path)
	must(t, err)
	for i := 4096; i < len(raw); i++ {
		raw[i] = 0xee
	}
	must(t, os.WriteFile(path, raw, 0o600))
	_, err = db.Query(t.Context(), engine.Do("SELECT v FROM t"))
	wantError(t, err, engine.ErrDamaged)
	err = write(t.Context(), db, "other")
	wantError(t, err, engine.ErrDamaged)
	var outage *engine.Outage
	if !errors.As(err, &outage) {
		t.Errorf("the write got %v, want an outage", err)
	}
}
