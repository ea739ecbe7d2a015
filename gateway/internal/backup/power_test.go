package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/gateway/internal/datadir"
)

// TestRestorePowerCuts: a restore that loses its power at any step leaves one database with all of its blobs, the old one or the new one. A
// restore that has ended leaves the new one, and the old one aside.
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
		if err := errors.Join(os.CopyFS(data, os.DirFS(old.data)), os.Chmod(data, 0o700)); err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		_, err := restore(t.Context(), filepath.Join(m.Dir, "data"), file, key, m.Steps)
		done = err == nil
	}, func(dir, happened string) {
		data := filepath.Join(dir, "data")
		if names := h.named(data); len(names) != 3 && (done || len(names) != 2) {
			t.Errorf("%s: done %t, the database names %q", happened, done, names)
		}
		aside, _ := filepath.Glob(filepath.Join(data, "before-restore-*"))
		if !done {
			return
		}
		if len(aside) != 1 {
			t.Fatalf("%s: %d databases are aside", happened, len(aside))
		}
		if names := h.named(aside[0]); len(names) != 2 {
			t.Errorf("%s: the one aside names %q", happened, names)
		}
	})
}
