package sqlite_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"muster/store/sqlite"
)

// steps is a directory of the first n migrations of a made-up schema: each needs the one before.
func steps(n int) fstest.MapFS {
	dir := fstest.MapFS{}
	for i := 1; i <= n; i++ {
		script := "CREATE TABLE t1 (c1 INTEGER) STRICT; INSERT INTO t1(c1) VALUES (1);"
		if i > 1 {
			script = fmt.Sprintf("ALTER TABLE t1 ADD COLUMN c%d INTEGER; UPDATE t1 SET c%d = c%d + 1;", i, i, i-1)
		}
		dir[fmt.Sprintf("%04d_step.sql", i)] = &fstest.MapFile{Data: []byte(script)}
	}
	return dir
}

func TestMigrateFromEveryNumber(t *testing.T) {
	const newest = 4
	for from := range newest + 1 {
		path := filepath.Join(t.TempDir(), "muster.db")
		if from > 0 {
			_, _, err := migrate(t, path, steps(from))
			must(t, err)
		}
		before, now, err := migrate(t, path, steps(newest))
		if err != nil || before != from || now != newest {
			t.Errorf("from %d: got %d to %d, %v; want %d to %d", from, before, now, err, from, newest)
		}
		var got int
		must(t, raw(t, path).QueryRowContext(t.Context(), "SELECT c4 FROM t1").Scan(&got))
		if got != newest {
			t.Errorf("from %d: got value %d, want %d", from, got, newest)
		}
	}
}

func TestMigrateRefuses(t *testing.T) {
	broken := steps(2)
	broken["0002_step.sql"].Data = []byte("ALTER TABLE t1 ADD COLUMN c2 INTEGER; INSERT INTO nowhere VALUES (1);")
	gap := steps(3)
	delete(gap, "0002_step.sql")
	for _, c := range []struct {
		name string
		dir  fs.FS
		text string
		left int // newest number afterwards
	}{
		{"a newer database", steps(1), "newer muster", 3},
		{"a gap", gap, "should be 0002", 3},
		{"no number", fstest.MapFS{"x.sql": {}}, "should be 0001", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "muster.db")
			_, _, err := migrate(t, path, steps(3))
			must(t, err)
			_, _, err = migrate(t, path, c.dir)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want an error that says %q", err, c.text)
			}
			before, _, err := migrate(t, path, steps(3))
			if err != nil || before != c.left {
				t.Errorf("left at %d, %v; want %d", before, err, c.left)
			}
		})
	}
	t.Run("a broken step", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		if _, _, err := migrate(t, path, broken); err == nil {
			t.Fatal("no error")
		}
		before, now, err := migrate(t, path, steps(2)) // fails if the broken one left its column
		if err != nil || before != 1 || now != 2 {
			t.Errorf("after a broken step 2: got %d to %d, %v; want 1 to 2", before, now, err)
		}
	})
}

// migrate opens and closes a database with the migrations of a directory, and gives the number of the newest that it had before
// and has then; 0: none.
func migrate(t *testing.T, path string, dir fs.FS) (before, now int, err error) {
	t.Helper()
	before = newest(t, path)
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrations: dir})
	if err != nil {
		return before, 0, err
	}
	must(t, db.Close())
	return before, newest(t, path), nil
}

func newest(t *testing.T, path string) (number int) {
	t.Helper()
	_ = raw(t, path).QueryRowContext(t.Context(), "SELECT max(number) FROM migrations").Scan(&number) // no table yet: 0
	return number
}
