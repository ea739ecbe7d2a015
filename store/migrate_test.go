package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"muster/store"
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
			_, _, err := store.Migrate(t.Context(), path, steps(from))
			must(t, err)
		}
		before, now, err := store.Migrate(t.Context(), path, steps(newest))
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

// prior is a directory of the first n real migrations.
func prior(t *testing.T, n int) fstest.MapFS {
	t.Helper()
	dir, err := store.MigrationFiles()
	must(t, err)
	names, err := fs.Glob(dir, "*.sql")
	must(t, err)
	files := fstest.MapFS{}
	for _, name := range names[:n] {
		script, err := fs.ReadFile(dir, name)
		must(t, err)
		files[name] = &fstest.MapFile{Data: script}
	}
	return files
}

func TestMigrateRealFromEveryNumber(t *testing.T) {
	dir, err := store.MigrationFiles()
	must(t, err)
	names, err := fs.Glob(dir, "*.sql")
	must(t, err)
	for from := range len(names) {
		path := filepath.Join(t.TempDir(), "muster.db")
		_, _, err := store.Migrate(t.Context(), path, prior(t, from))
		must(t, err)
		s := openAt(t, path)
		must(t, s.CreateToken(t.Context(), token("mse_a", 1)))
		must(t, s.Enrol(t.Context(), enrolment("mse_a", "n")))
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
			_, _, err := store.Migrate(t.Context(), path, steps(3))
			must(t, err)
			_, _, err = store.Migrate(t.Context(), path, c.dir)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want an error that says %q", err, c.text)
			}
			before, _, err := store.Migrate(t.Context(), path, steps(3))
			if err != nil || before != c.left {
				t.Errorf("left at %d, %v; want %d", before, err, c.left)
			}
		})
	}
	t.Run("a broken step", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		if _, _, err := store.Migrate(t.Context(), path, broken); err == nil {
			t.Fatal("no error")
		}
		before, now, err := store.Migrate(t.Context(), path, steps(2)) // fails if the broken one left its column
		if err != nil || before != 1 || now != 2 {
			t.Errorf("after a broken step 2: got %d to %d, %v; want 1 to 2", before, now, err)
		}
	})
}

func TestOpenNewerDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	must(t, openAt(t, path).Close())
	execute(t, raw(t, path), "INSERT INTO migrations(number, name, at) VALUES (9999, 'later', 0)")
	_, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: masterKey()})
	if !errors.Is(err, store.ErrNewerDatabase) {
		t.Errorf("got %v, want %v", err, store.ErrNewerDatabase)
	}
}

// TestMigrateCertificates writes certificates of every kind before the table is built anew.
func TestMigrateCertificates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	_, _, err := store.Migrate(t.Context(), path, prior(t, 3))
	must(t, err)
	db := raw(t, path)
	const columns = "fingerprint, node_id, enrolment_id, generation, status, key_hash, public_key, chain, not_before, not_after, issued_at, first_used_at, ended_at, recovery, overdue_at"
	for _, values := range []string{
		"'f1', 'n', 'e', 1, 'superseded', 'k1', 'cA==', 'chain 1', 10, 20, 11, 12, 13, 0, 14",
		"'f2', 'n', 'e', 2, 'current', 'k2', 'cA==', 'chain 2', 30, 40, 31, 32, NULL, 1, NULL",
		"'f3', 'n', 'e', 3, 'pending', 'k3', 'cA==', 'chain 3', 50, 60, 51, NULL, NULL, 0, NULL",
		"'f4', 'm', 'e', 1, 'revoked', 'k4', 'cA==', 'chain 4', 10, 20, 11, NULL, 12, 0, NULL",
	} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO certificates("+columns+") VALUES ("+values+")")
		must(t, err)
	}
	all := func() (text string) {
		must(t, db.QueryRowContext(t.Context(), "SELECT json_group_array(json_array(rowid, "+columns+")) FROM (SELECT rowid, * FROM certificates ORDER BY rowid)").Scan(&text))
		return text
	}
	want := all()
	_, _, err = store.Migrate(t.Context(), path, prior(t, 4))
	must(t, err)
	if got := all(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for what, values := range map[string]string{
		"a status of another name":  "'f5', 'x', 'e', 1, 'lost', 'k5', 'cA==', '', 1, 2, 1, NULL, NULL, 0, NULL",
		"a second current one":      "'f5', 'n', 'e', 4, 'current', 'k5', 'cA==', '', 1, 2, 1, NULL, NULL, 0, NULL",
		"a key that is there":       "'f5', 'x', 'e', 1, 'revoked', 'k1', 'cA==', '', 1, 2, 1, NULL, NULL, 0, NULL",
		"a certificate, once again": "'f1', 'x', 'e', 1, 'revoked', 'k5', 'cA==', '', 1, 2, 1, NULL, NULL, 0, NULL",
	} {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO certificates("+columns+") VALUES ("+values+")"); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

// TestMigrateRegistry reads the registry of scripts that were frozen before it had a column.
func TestMigrateRegistry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	_, _, err := store.Migrate(t.Context(), path, prior(t, 4))
	must(t, err)
	db := raw(t, path)
	for token, script := range map[string]string{
		"msb_a": "#!/bin/sh\nRUNTIME_PACKAGE='docker.io'\nREGISTRY='r.example:5000'\nTOKEN_ID='msb_a'\nat=${REGISTRY:-x}\n",
		"msb_b": "#!/bin/sh\nREGISTRY=''\nTOKEN_ID='msb_b'\n", "msb_c": "#!/bin/sh\n# REGISTRY='x'\n",
	} {
		_, err := db.ExecContext(t.Context(), `INSERT INTO bootstraps(token, fetch_hash, mode, window_ms, outer_at, script, fetch_sha256, whole_sha256)
			VALUES (?, '', 'manual', 1, 1, ?, '', '')`, token, script)
		must(t, err)
	}
	_, _, err = store.Migrate(t.Context(), path, prior(t, 5))
	must(t, err)
	for token, want := range map[string]string{"msb_a": "r.example:5000", "msb_b": "", "msb_c": ""} {
		var got string
		must(t, db.QueryRowContext(t.Context(), "SELECT registry FROM bootstraps WHERE token = ?", token).Scan(&got))
		if got != want {
			t.Errorf("%s: got %q, want %q", token, got, want)
		}
	}
}

// TestMigrateRuns numbers runs by their starts, one after the other, whatever a clock that was ahead left in their other times.
func TestMigrateRuns(t *testing.T) {
	dir, err := store.MigrationFiles()
	must(t, err)
	names, err := fs.Glob(dir, "*.sql")
	must(t, err)
	number := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "_runs.sql") })
	path := filepath.Join(t.TempDir(), "muster.db")
	_, _, err = store.Migrate(t.Context(), path, prior(t, number))
	must(t, err)
	db := raw(t, path)
	for _, values := range []string{"'n', 'b', '', '', 5, 200, 900, 800", "'n', 'a', '', '', 7, 100, 36000000, 35000000", "'m', 'c', '', '', 1, 300, 300, 0"} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO runs(node_id, run_id, fingerprint, address, counter, first_at, last_at, before_at) VALUES ("+values+")")
		must(t, err)
	}
	_, _, err = store.Migrate(t.Context(), path, prior(t, number+1))
	must(t, err)
	var got string
	must(t, db.QueryRowContext(t.Context(), `SELECT json_group_array(json_array(node_id, run_id, first_beat, before_beat, last_beat))
		FROM (SELECT * FROM runs ORDER BY node_id, first_beat)`).Scan(&got))
	if want := `[["m","c",1,1,2],["n","a",1,1,2],["n","b",3,3,4]]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
