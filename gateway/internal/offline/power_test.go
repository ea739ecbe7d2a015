package offline_test

import (
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
	h.put("one", "two", "both")
	file := h.backup(true)
	old := newHouse(t)
	if err := os.CopyFS(filepath.Join(old.data, "kept"), os.DirFS(h.data)); err != nil {
		t.Fatal(err)
	}
	old.data = filepath.Join(old.data, "kept")
	if err := os.Chmod(old.data, 0o700); err != nil {
		t.Fatal(err)
	}
	old.put("old")
	done := false
	key := filepath.Join(h.data, datadir.MasterKey)
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		done = false
		data := filepath.Join(m.Dir, "data")
		if err := os.CopyFS(data, os.DirFS(old.data)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(data, 0o700); err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		_, err := restore(t.Context(), filepath.Join(m.Dir, "data"), file, key, m.Steps)
		done = err == nil
	}, func(dir, happened string) {
		data := filepath.Join(dir, "data")
		if names := h.named(data); len(names) != 3 && (done || len(names) != 4) {
			t.Errorf("%s: done %t, the database names %q", happened, done, names)
		}
		aside, _ := filepath.Glob(filepath.Join(data, "before-restore-*"))
		if !done {
			return
		}
		if len(aside) != 1 {
			t.Fatalf("%s: %d databases are aside", happened, len(aside))
		}
		if names := h.named(aside[0]); len(names) != 4 {
			t.Errorf("%s: the one aside names %q", happened, names)
		}
	})
}
