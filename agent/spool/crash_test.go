package spool_test

import (
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/spool"
)

// work appends, reads and confirms until the disk ends it. It tells up to which number all was appended and handed out.
func work(s *spool.Spool) (appended, handed, confirmed int64) {
	r := s.Untaken()
	defer r.Close()
	for range 130 {
		n, err := s.Append(text(s.Stats().Next))
		if err != nil {
			return appended, handed, confirmed
		}
		appended = n
		if n%7 != 0 {
			continue
		}
		got, err := r.Next(1 << 20)
		if err != nil {
			return appended, handed, confirmed
		}
		for _, one := range got {
			handed = one.Number
		}
		if n%21 == 0 {
			confirmed = handed - 3
			if s.Confirm(confirmed) != nil {
				return appended, handed, confirmed
			}
		}
	}
	return appended, handed, confirmed
}

// TestCrash ends the work at every step. After the end of the process nothing is lost that was appended. After the end of the machine
// nothing is lost that was handed out, and none of its numbers is used again.
func TestCrash(t *testing.T) {
	var appended, handed, confirmed int64
	disktest.CutEverywhere(t, func(*disktest.Machine) {}, func(m *disktest.Machine) {
		appended, handed, confirmed = work(spool.Open(spool.Config{Dir: filepath.Join(m.Dir, "below", "s"), Bound: 256 << 10, Steps: m.Steps}))
	}, func(dir, happened string) {
		want := handed
		alone := strings.HasSuffix(happened, disktest.ProcessAlone)
		if alone {
			want = appended
		}
		again := open(t, filepath.Join(dir, "below", "s"), 256<<10)
		stats := again.Stats()
		if stats.Next <= want || stats.Confirmed > confirmed || alone && confirmed-stats.Confirmed > 130 {
			t.Fatalf("%s: appended %d, handed out %d, confirmed %d: %+v", happened, appended, handed, confirmed, stats)
		}
		r := again.Untaken()
		got, lost := all(t, r, stats.Confirmed+1)
		r.Close()
		whole := int64(0)
		for _, one := range got {
			if one.Gap == nil {
				whole = one.Number
			}
		}
		if whole < want && whole < stats.Next-1 || alone && lost != 0 {
			t.Fatalf("%s: %d are whole of %d, %d lost, %+v", happened, whole, want, lost, stats)
		}
		put(t, again)
	})
}

// TestSyncedAlone: what is appended while the disk syncs is handed out after the next sync.
func TestSyncedAlone(t *testing.T) {
	var s *spool.Spool
	late := false
	s = spool.Open(spool.Config{Dir: t.TempDir(), Bound: 1 << 20, Steps: disktest.Named(func(at string) error {
		if at == "sync a segment" && !late {
			late = true
			put(t, s)
		}
		return nil
	})})
	put(t, s)
	r := s.Untaken()
	for _, want := range []int64{1, 2} {
		if got, err := r.Next(1 << 20); err != nil || len(got) != 1 || got[0].Number != want {
			t.Errorf("got %d records, %v, want number %d alone", len(got), err, want)
		}
	}
	r.Close()
	must(t, s.Close())
}
