package backup_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/store"
)

// TestRestorePowerCuts: a restore that loses its power at any step leaves one database with all of its blobs, the old one or the new one. A
// restore that has ended leaves the new one, which knows that it was restored, and the old one aside. The old one's log is never beside the
// new one: SQLite would bring it in.
func TestRestorePowerCuts(t *testing.T) {
	h := newHouse(t)
	old := house{t, filepath.Join(t.TempDir(), "data")}
	if err := errors.Join(os.CopyFS(old.data, os.DirFS(h.data)), os.Chmod(old.data, 0o700)); err != nil {
		t.Fatal(err)
	}
	old.put("both", "old")
	h.put("one", "two", "both")
	file := h.backup(true)
	done := false
	key := filepath.Join(h.data, datadir.MasterKey)
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		done = false
		data := filepath.Join(m.Dir, "data")
		err := errors.Join(os.CopyFS(data, os.DirFS(old.data)), os.Chmod(data, 0o700),
			os.WriteFile(filepath.Join(data, datadir.Database+"-wal"), []byte("the old log"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		_, err := restore(t.Context(), filepath.Join(m.Dir, "data"), file, key, m.Steps)
		done = err == nil
	}, func(dir, happened string) {
		data := filepath.Join(dir, "data")
		before, _ := os.ReadFile(filepath.Join(old.data, datadir.Database))
		now, _ := os.ReadFile(filepath.Join(data, datadir.Database))
		log, _ := os.ReadFile(filepath.Join(data, datadir.Database+"-wal"))
		if !bytes.Equal(now, before) && string(log) == "the old log" {
			t.Errorf("%s: the old log is beside the new database", happened)
		}
		if names := h.named(data); len(names) != 3 && (done || len(names) != 2) {
			t.Errorf("%s: done %t, the database names %q", happened, done, names)
		}
		aside, _ := filepath.Glob(filepath.Join(data, "before-restore-*"))
		if !done {
			return
		}
		if h.restored(data).IsZero() {
			t.Errorf("%s: the database does not know that it was restored", happened)
		}
		if len(aside) != 1 {
			t.Fatalf("%s: %d databases are aside", happened, len(aside))
		}
		if names := h.named(aside[0]); len(names) != 2 {
			t.Errorf("%s: the one aside names %q", happened, names)
		}
	})
}

// restored is when a database was restored.
func (h house) restored(data string) time.Time {
	h.t.Helper()
	key, err := masterkey.Read(filepath.Join(h.data, datadir.MasterKey))
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := store.Open(h.t.Context(), store.Options{Path: filepath.Join(data, datadir.Database), MasterKey: key})
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Restoration(h.t.Context())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.t.Fatal(err)
	}
	return r.At
}
