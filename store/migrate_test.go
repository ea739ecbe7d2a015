package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

// TestCertificatesRefused: what no certificate may be is refused by the database itself.
func TestCertificatesRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	must(t, openAt(t, path).Close())
	db := raw(t, path)
	insert := func(values string) error {
		_, err := db.ExecContext(t.Context(), "INSERT INTO certificates(fingerprint, node_id, enrolment_id, generation, status, key_hash, "+
			"public_key, chain, not_before, not_after, issued_at) VALUES ("+values+")")
		return err
	}
	must(t, insert("'f1', 'n', 'e', 1, 'superseded', 'k1', 'cA==', '', 1, 2, 1"))
	must(t, insert("'f2', 'n', 'e', 2, 'current', 'k2', 'cA==', '', 1, 2, 1"))
	for what, values := range map[string]string{
		"a status of another name":  "'f5', 'x', 'e', 1, 'lost', 'k5', 'cA==', '', 1, 2, 1",
		"a second current one":      "'f5', 'n', 'e', 4, 'current', 'k5', 'cA==', '', 1, 2, 1",
		"a key that is there":       "'f5', 'x', 'e', 1, 'revoked', 'k1', 'cA==', '', 1, 2, 1",
		"a certificate, once again": "'f1', 'x', 'e', 1, 'revoked', 'k5', 'cA==', '', 1, 2, 1",
	} {
		if insert(values) == nil {
			t.Errorf("%s was taken", what)
		}
	}
}
