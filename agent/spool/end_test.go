package spool_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/spool"
)

// TestClosedIsKept: what was appended before a spool was closed outlives a loss of power.
func TestClosedIsKept(t *testing.T) {
	closed := false
	disktest.CutEverywhere(t, func(*disktest.Machine) { closed = false }, func(m *disktest.Machine) {
		s := spool.Open(spool.Config{Dir: filepath.Join(m.Dir, "s"), Bound: 1 << 20, Steps: m.Steps})
		_, err := s.Append(text(1), text(2))
		closed = errors.Join(err, s.Close()) == nil
	}, func(dir, happened string) {
		if got, lost := all(t, open(t, filepath.Join(dir, "s"), 1<<20).Reader(1), 1); closed && (len(got) != 2 || lost != 0) {
			t.Errorf("%s: %d records, %d lost", happened, len(got), lost)
		}
	})
	if !closed {
		t.Error("it was not closed")
	}
}

// TestUnsyncedEnd: a segment that cannot be put on the disk does not end, so that nobody takes it for one that is there.
func TestUnsyncedEnd(t *testing.T) {
	broken := errors.New("the disk is broken")
	s := spool.Open(spool.Config{Dir: t.TempDir(), Bound: 1 << 20, Steps: disktest.Named(func(at string) error {
		if strings.HasPrefix(at, "sync a segment") {
			return broken
		}
		return nil
	})})
	for range 5000 {
		if _, err := s.Append(text(s.Stats().Next)); err != nil {
			if !errors.Is(err, broken) {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("%d records went into segments of which none is on the disk", s.Stats().Next-1)
}
