package seen_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/instance"
)

// gateway is a data directory.
type gateway struct {
	t    *testing.T
	data string
}

func (g gateway) database() string { return filepath.Join(g.data, "muster.db") }

// starts opens the database as a start does, and works with it for so long.
func (g gateway) starts(works time.Duration) error {
	g.t.Helper()
	w, err := seen.Look(g.t.Context(), g.data, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	db := g.store(g.database())
	defer db.Close()
	must(g.t, w.Begin(g.t.Context(), db))
	ctx, stop := context.WithTimeout(g.t.Context(), works)
	defer stop()
	must(g.t, w.Run(ctx))
	return nil
}

func (g gateway) store(path string) *store.Store {
	g.t.Helper()
	db, err := store.Open(g.t.Context(), store.Options{Path: path, MasterKey: bytes.Repeat([]byte{7}, 32)})
	must(g.t, err)
	return db
}

// copied is a copy of the database as it is now.
func (g gateway) copied() string {
	g.t.Helper()
	db := g.store(g.database())
	defer db.Close()
	path := filepath.Join(g.t.TempDir(), "copy.db")
	must(g.t, db.Backup(g.t.Context(), path))
	return path
}

func (g gateway) gone() {
	g.t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(g.database() + end); err != nil && !os.IsNotExist(err) {
			g.t.Fatal(err)
		}
	}
}

// puts puts a copy in the place of the database.
func (g gateway) puts(path string) {
	g.t.Helper()
	g.gone()
	content, err := os.ReadFile(path)
	must(g.t, err)
	must(g.t, os.WriteFile(g.database(), content, 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files are those beside the database, each with its content and time.
func (g gateway) files() string {
	g.t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(g.data)
	must(g.t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		must(g.t, err)
		content, err := os.ReadFile(filepath.Join(g.data, entry.Name()))
		must(g.t, err)
		fmt.Fprintf(&all, "%s %x %s\n", entry.Name(), sha256.Sum256(content), info.ModTime())
	}
	return all.String()
}

// refused also sees to it that a database that is refused stays as it is.
func (g gateway) refused(want string) {
	g.t.Helper()
	before := g.files()
	defer func() {
		if after := g.files(); after != before {
			g.t.Errorf("%s: there was\n%s\nand there is\n%s", want, before, after)
		}
	}()
	if err := g.starts(0); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "muster restore") {
		g.t.Errorf("got %v, want %q", err, want)
	}
}

// TestRecognised: a directory knows its database over any number of starts, and refuses a copy of it from before, that of another gateway,
// and one that was copied to where none was.
func TestRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, other, none := gateway{t, t.TempDir()}, gateway{t, t.TempDir()}, gateway{t, t.TempDir()}
		for range 3 {
			must(t, g.starts(10*time.Second))
		}
		must(t, other.starts(time.Minute))
		before := g.copied()
		must(t, g.starts(10*time.Second))
		now := g.copied()
		none.puts(now)
		none.refused("this directory has never had it")
		other.puts(now)
		other.refused("it is that of another gateway")
		g.puts(before)
		g.refused("it is a copy from before")
		g.puts(now) // nothing came after it
		must(t, g.starts(0))
	})
}

// TestWithLog: of a copy whose newest writes are in the file beside it, those count, and both files stay as they are.
func TestWithLog(t *testing.T) {
	g, other := gateway{t, t.TempDir()}, gateway{t, t.TempDir()}
	must(t, g.starts(0))
	must(t, other.starts(0))
	db := g.store(g.database())
	must(t, instance.New(db.Records()).Pulse(t.Context(), 7))
	for _, end := range []string{"", "-wal"} {
		content, err := os.ReadFile(g.database() + end)
		must(t, err)
		must(t, os.WriteFile(other.database()+end, content, 0o600))
	}
	must(t, db.Close())
	before := other.files()
	if name, pulse, err := instance.InFile(t.Context(), other.database()); name == "" || pulse != 7 || err != nil {
		t.Errorf("got %s, %d, %v", name, pulse, err)
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(other.files(), line) {
			t.Errorf("it has changed: %s", line)
		}
	}
	if err := other.starts(0); !errors.Is(err, seen.ErrOther) {
		t.Errorf("got %v", err)
	}
}

// TestForked: a copy that a restore has prepared is the directory's own from then on, and copies from before that are not.
func TestForked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway{t, t.TempDir()}
		must(t, g.starts(time.Minute))
		before := g.copied()
		must(t, g.starts(time.Minute))
		now := g.copied()
		g.puts(before)
		db := g.store(g.database())
		must(t, instance.New(db.Records()).Fork(t.Context(), seen.Pulse(g.data)))
		must(t, db.Close())
		must(t, g.starts(time.Minute))
		must(t, g.starts(0))
		g.puts(now)
		g.refused("it is a copy from before")
	})
}

// TestGone: where the database was removed, an empty one is not taken in silence.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway{t, t.TempDir()}
		must(t, g.starts(time.Minute))
		g.gone()
		g.refused("is gone")
		must(t, os.Remove(filepath.Join(g.data, "muster.seen")))
		must(t, g.starts(0))
	})
}

// TestPowerCuts: a file that is empty, and one that was not written yet, say nothing; a first start that was cut between the file and the
// database goes on.
func TestPowerCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway{t, t.TempDir()}
		file := filepath.Join(g.data, "muster.seen")
		must(t, os.WriteFile(file, []byte(`{"instance":"ABC","pulse":0}`), 0o600))
		must(t, g.starts(10*time.Second))
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `"ABC"`) {
			t.Errorf("the file has %s, %v", text, err)
		}
		must(t, os.WriteFile(file, nil, 0o600))
		must(t, g.starts(10*time.Second))
		if seen.Pulse(g.data) < 10 {
			t.Errorf("the number is %d", seen.Pulse(g.data))
		}
	})
}

// TestWrittenAt: the age of a database is that of its newest write, or of the backup that it is.
func TestWrittenAt(t *testing.T) {
	db := gateway{t, t.TempDir()}.store(filepath.Join(t.TempDir(), "muster.db"))
	defer db.Close()
	r := instance.New(db.Records())
	if at, err := r.WrittenAt(t.Context()); err != store.ErrNotFound {
		t.Errorf("of a new one: %s, %v", at, err)
	}
	first, second := time.UnixMilli(1_000_000).UTC(), time.UnixMilli(2_000_000).UTC()
	must(t, db.NoteBackup(t.Context(), first))
	if at, err := r.WrittenAt(t.Context()); err != nil || !at.Equal(first) {
		t.Errorf("of a backup: %s, %v", at, err)
	}
	must(t, db.SaveBeats(t.Context(), nil, second))
	if at, err := r.WrittenAt(t.Context()); err != nil || !at.Equal(second) {
		t.Errorf("of a copy: %s, %v", at, err)
	}
}
