package masterkey

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
)

// TestPowerCuts: a rotation that loses its power at any step leaves a gateway that opens its database by itself.
func TestPowerCuts(t *testing.T) {
	source := func(dir string, steps disk.Steps) Source {
		return Source{Data: dir, Getenv: nothing, Say: io.Discard, Disk: steps}
	}
	var before []byte
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		before = sealed(t, source(m.Dir, nil), "token of before")
	}, func(m *disktest.Machine) {
		s := source(m.Dir, m.Steps)
		r := &rotation{source: s, database: s.database(), file: s.own(), before: before, key: []byte(strings.Repeat("k", size))}
		for _, step := range r.steps() {
			// SQLite syncs by itself: when a step has returned, what it wrote there is on the disk.
			if step.run(t.Context()) != nil || m.Steps(disk.Step{Name: "the database", Synced: s.database()}) != nil {
				return
			}
		}
	}, func(dir, happened string) {
		opened, err := source(dir, nil).Open(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", happened, err)
		}
		defer opened.Close()
		if value, err := opened.Secret(t.Context(), "kept"); err != nil || string(value) != "token of before" {
			t.Errorf("%s: %q, %v", happened, value, err)
		}
	})
}

// TestPowerCutsIntoFile: a rotation into another file never seals the database under a key that a loss of power takes away.
func TestPowerCutsIntoFile(t *testing.T) {
	source := func(dir string, steps disk.Steps) Source {
		return Source{Data: dir, Getenv: nothing, Say: io.Discard, Disk: steps}
	}
	out := func(dir string) string { return filepath.Join(dir, "next.key") }
	var before []byte
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		before = sealed(t, source(m.Dir, nil), "token of before")
	}, func(m *disktest.Machine) {
		s := source(m.Dir, m.Steps)
		if s.rotateInto(t.Context(), before, out(m.Dir)) == nil {
			_ = m.Steps(disk.Step{Name: "the database", Synced: s.database()}) // as SQLite has done
		}
	}, func(dir, happened string) {
		s := source(dir, nil)
		if next, err := Read(out(dir)); !s.Opens(t.Context(), before) && (err != nil || !s.Opens(t.Context(), next)) {
			t.Errorf("%s: no key opens the database: %v", happened, err)
		}
	})
}

// TestNewKeyIsKept: a key that something can be sealed under is on the disk. Before that there is no key, or the same one.
func TestNewKeyIsKept(t *testing.T) {
	var key []byte
	disktest.CutEverywhere(t, func(*disktest.Machine) {}, func(m *disktest.Machine) {
		key, _ = Source{Data: m.Dir, Getenv: nothing, Say: io.Discard, Disk: m.Steps}.Key()
	}, func(dir, happened string) {
		got, err := Read(filepath.Join(dir, "master.key"))
		if key != nil && !bytes.Equal(got, key) {
			t.Errorf("%s: the key is lost: %v", happened, err)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", happened, err)
		}
	})
}
