package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/spool"
)

var errCrash = errors.New("the process has ended")

// machine is a disk that ends the work at one step, and that may forget what was not synced.
type machine struct {
	dir    string
	left   int // steps until the end
	before string
	synced map[string]int64 // files, and how much of them is on the disk
	seen   map[string]int64 // the same at the last sync that began
}

func (m *machine) step(at string) error {
	if m.before == "sync a segment" { // that one has ended
		m.synced = m.seen
	}
	m.before = ""
	if m.left <= 0 {
		return errCrash
	}
	m.left--
	if at == "sync a segment" {
		m.before = at
		m.seen = sizes(m.dir)
	}
	return nil
}

func sizes(dir string) map[string]int64 {
	all := map[string]int64{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.spool"))
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			all[path] = info.Size()
		}
	}
	return all
}

// lose takes from the disk what a power cut takes.
func (m *machine) lose(t *testing.T) {
	for path, size := range sizes(m.dir) {
		if kept := m.synced[path]; kept < size {
			must(t, os.Truncate(path, kept))
		}
	}
}

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
	for _, power := range []bool{false, true} {
		ended := false
		for steps := 0; !ended; steps++ {
			m := &machine{dir: filepath.Join(t.TempDir(), "s"), left: steps}
			s := spool.Open(spool.Config{Dir: m.dir, Bound: 256 << 10, Steps: disktest.Named(m.step)})
			appended, handed, confirmed := work(s)
			ended = m.left > 0
			want := appended
			if power {
				m.lose(t)
				want = handed
			}
			again := open(t, m.dir, 256<<10)
			stats := again.Stats()
			if stats.Next <= want || stats.Confirmed > confirmed || confirmed-stats.Confirmed > 130 {
				t.Fatalf("power cut %v, %d steps: appended %d, handed out %d, confirmed %d: %+v", power, steps, appended, handed, confirmed, stats)
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
			if whole < want && whole < stats.Next-1 || !power && lost != 0 {
				t.Fatalf("power cut %v, %d steps: %d are whole of %d, %d lost, %+v", power, steps, whole, want, lost, stats)
			}
			put(t, again)
		}
	}
}
