package logs

import (
	"errors"
	"os"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/spool"
	"muster/agent/wire"
)

// TestPlacesFollowLines: a place is written down when the lines before it are on the disk, and not earlier.
func TestPlacesFollowLines(t *testing.T) {
	s := NewShipper(Shipping{Folder: t.TempDir()})
	broken := true
	box := spool.Open(spool.Config{Dir: s.path("spool"), Bound: 1 << 20, Steps: disktest.Named(func(step string) error {
		if broken && step == "sync a segment" {
			return errors.New("the disk does not answer")
		}
		return nil
	})})
	defer box.Close()
	p := s.places(&wire.LogShipping{Sources: []string{wire.LogAgent}})
	keep(box, wire.LogLine{Message: "one"})
	p.note(wire.LogAgent, Place{After: "behind one", Since: time.Unix(1, 0)})
	s.store(p, box)
	if _, err := os.Stat(s.path("state.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the place is written before its line: %v", err)
	}
	broken = false
	s.store(p, box)
	if r := s.load(); r == nil || r.Places[wire.LogAgent].After != "behind one" {
		t.Errorf("left %+v", r)
	}
}
