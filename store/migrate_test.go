package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"muster/store"
	"muster/store/sqlite"
)

// migrate brings a database file to the schema of a directory.
func migrate(t *testing.T, path string, dir fs.FS) error {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrations: dir})
	if err != nil {
		return err
	}
	return db.Close()
}

// prior is a directory of the first n real migrations.
func prior(t *testing.T, n int) fstest.MapFS {
	t.Helper()
	dir, err := store.Migrations()
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
	dir, err := store.Migrations()
	must(t, err)
	names, err := fs.Glob(dir, "*.sql")
	must(t, err)
	for from := range len(names) {
		path := filepath.Join(t.TempDir(), "muster.db")
		err := migrate(t, path, prior(t, from))
		must(t, err)
		s := openAt(t, path)
		must(t, s.CreateToken(t.Context(), token("mse_a", 1)))
		must(t, s.Enrol(t.Context(), enrolment("mse_a", "n")))
	}
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

// TestSchema: what a database has is read beside the gateway that serves it, and nothing is changed.
func TestSchema(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "muster.db")
	has, known, err := store.Schema(t.Context(), path)
	if entries, _ := os.ReadDir(folder); has != 0 || known == 0 || err != nil || len(entries) != 0 {
		t.Errorf("without a database: %d of %d, %v, %v", has, known, err, entries)
	}
	want := func(when string, want int) {
		t.Helper()
		if has, _, err := store.Schema(t.Context(), path); has != want || err != nil {
			t.Errorf("%s: schema %d, want %d, %v", when, has, want, err)
		}
	}
	must(t, os.WriteFile(path, nil, 0o600))
	want("an empty file", 0)
	s := openAt(t, path)
	want("while it is open", known)
	execute(t, raw(t, path), "INSERT INTO migrations(number, name, at) VALUES (9999, 'later', 0)")
	want("of a newer muster", 9999)
	must(t, s.CreateToken(t.Context(), token("mse_a", 1)))
	must(t, s.Close())
	want("closed", 9999)
	path = filepath.Join(folder, "other.db")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
	if _, _, err := store.Schema(t.Context(), path); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
}

// TestMigrateCertificates writes certificates of every kind before the table is built anew.
func TestMigrateCertificates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	err := migrate(t, path, prior(t, 3))
	must(t, err)
	db := raw(t, path)
	const columns = "fingerprint, node_id, enrolment_id, generation, status, key_hash, public_key, chain, not_before, not_after, " +
		"issued_at, first_used_at, ended_at, recovery, overdue_at"
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
		must(t, db.QueryRowContext(t.Context(), "SELECT json_group_array(json_array(rowid, "+columns+")) FROM (SELECT rowid, * FROM "+
			"certificates ORDER BY rowid)").Scan(&text))
		return text
	}
	want := all()
	err = migrate(t, path, prior(t, 4))
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
	err := migrate(t, path, prior(t, 4))
	must(t, err)
	db := raw(t, path)
	for token, script := range map[string]string{
		"msb_a": "#!/bin/sh\nRUNTIME_PACKAGE='docker.io'\nREGISTRY='r.example:5000'\nTOKEN_ID='msb_a'\nat=${REGISTRY:-x}\n",
		"msb_b": "#!/bin/sh\nREGISTRY=''\nTOKEN_ID='msb_b'\n", "msb_c": "#!/bin/sh\n# REGISTRY='x'\n",
	} {
		_, err := db.ExecContext(t.Context(), `INSERT INTO bootstraps(token, fetch_hash, mode, window_ms, outer_at, script, fetch_sha256,
			whole_sha256)
			VALUES (?, '', 'manual', 1, 1, ?, '', '')`, token, script)
		must(t, err)
	}
	err = migrate(t, path, prior(t, 5))
	must(t, err)
	for token, want := range map[string]string{"msb_a": "r.example:5000", "msb_b": "", "msb_c": ""} {
		var got string
		must(t, db.QueryRowContext(t.Context(), "SELECT registry FROM bootstraps WHERE token = ?", token).Scan(&got))
		if got != want {
			t.Errorf("%s: got %q, want %q", token, got, want)
		}
	}
}

// TestMigrateRuns: the migration numbers runs by their starts. Their other times do not matter: a clock that was ahead may have left them.
func TestMigrateRuns(t *testing.T) {
	dir, err := store.Migrations()
	must(t, err)
	names, err := fs.Glob(dir, "*.sql")
	must(t, err)
	number := slices.IndexFunc(names, func(name string) bool { return strings.HasSuffix(name, "_runs.sql") })
	path := filepath.Join(t.TempDir(), "muster.db")
	err = migrate(t, path, prior(t, number))
	must(t, err)
	db := raw(t, path)
	for _, values := range []string{"'n', 'b', '', '', 5, 200, 900, 800", "'n', 'a', '', '', 7, 100, 36000000, 35000000",
		"'m', 'c', '', '', 1, 300, 300, 0"} {
		_, err := db.ExecContext(t.Context(), "INSERT INTO runs(node_id, run_id, fingerprint, address, counter, first_at, last_at, "+
			"before_at) VALUES ("+values+")")
		must(t, err)
	}
	err = migrate(t, path, prior(t, number+1))
	must(t, err)
	var got string
	must(t, db.QueryRowContext(t.Context(), `SELECT json_group_array(json_array(node_id, run_id, first_beat, before_beat, last_beat))
		FROM (SELECT * FROM runs ORDER BY node_id, first_beat)`).Scan(&got))
	if want := `[["m","c",1,1,2],["n","a",1,1,2],["n","b",3,3,4]]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestMigrateRollouts: what replaced a rollout is told from what ended it, and a channel goes back to what has finished there.
func TestMigrateRollouts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	must(t, migrate(t, path, prior(t, 13)))
	db := raw(t, path)
	for _, digest := range []string{"a", "b", "c"} {
		execute(t, db, "INSERT INTO releases VALUES ('"+digest+"', '1', 1, '', '', 0, 1, 'me', '[]')")
	}
	for channel, c := range map[string]struct {
		digest, previous string
		rollouts         []string // digest, state, why
	}{
		"replaced": {"c", "b", []string{"'a', 'done', ''", "'b', 'done', 'a later one took its place'", "'c', 'running', ''"}},
		"first":    {"c", "b", []string{"'b', 'done', 'a later one took its place'", "'c', 'done', ''"}},
		"carried":  {"a", "", nil},
		"good":     {"b", "a", []string{"'a', 'done', ''", "'b', 'done', ''"}},
		"stopped":  {"c", "b", []string{"'a', 'aborted', ''", "'b', 'done', 'a later one took its place'", "'c', 'paused', ''"}},
	} {
		execute(t, db, "INSERT INTO channels VALUES ('"+channel+"', '"+c.digest+"', '"+c.previous+"', 9, 9, 1, 'me')")
		first := c.digest
		for i, values := range c.rollouts {
			ended := "1"
			if i == len(c.rollouts)-1 && !strings.Contains(values, "done") {
				ended = "NULL"
			}
			if i == 0 {
				first = values[1:2]
			}
			execute(t, db, "INSERT INTO rollouts(channel, seq, plan, wave_at, created_at, created_by, ended_at, digest, state, why) VALUES ('"+
				channel+"', 1, '{}', 1, 1, 'me', "+ended+", "+values+")")
		}
		execute(t, db, "INSERT INTO pointers VALUES ('"+channel+"', 1, '"+first+"', 'k', 1, 1, 1, 'me', '{}')")
	}
	must(t, migrate(t, path, prior(t, 14)))
	var got string
	must(t, db.QueryRowContext(t.Context(), `SELECT json_group_array(json_array(channel, previous, finished, reported))
		FROM (SELECT * FROM channels ORDER BY channel)`).Scan(&got))
	want := `[["carried","",1,0],["first","b",1,0],["good","a",1,0],["replaced","a",0,0],["stopped","",0,0]]`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var replaced int
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM rollouts WHERE state = 'replaced'").Scan(&replaced))
	if replaced != 3 {
		t.Errorf("%d rollouts were replaced, want 3", replaced)
	}
}
