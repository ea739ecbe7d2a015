package recording_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/session/recording"
)

// TestPowerCuts: a recording that has begun is there after a loss of power, and one that has ended is whole.
func TestPowerCuts(t *testing.T) {
	id := wire.NewSessionID()
	var begun, ended bool
	disktest.CutEverywhere(t, func(*disktest.Machine) { begun, ended = false, false }, func(m *disktest.Machine) {
		c := config(filepath.Join(m.Dir, "recordings"))
		c.Disk = m.Steps
		s, err := recording.Open(c)
		if err != nil {
			return
		}
		tape, err := s.Begin(meta(id))
		if begun = err == nil; !begun {
			return
		}
		must(t, tape.Output(noon(), []byte("rm -rf /")))
		ended = tape.End(noon().Add(time.Hour), "exit 0") == nil
	}, func(dir, happened string) {
		if !begun {
			return
		}
		s := open(t, config(filepath.Join(dir, "recordings")))
		shown, p := played(t, s, id)
		if p.State == api.RecordingDamaged || p.Bytes == 0 {
			t.Errorf("%s: the recording is %s, with %d bytes", happened, p.State, p.Bytes)
		}
		if ended && (!strings.Contains(shown, "rm -rf /") || p.State != api.RecordingComplete) {
			t.Errorf("%s: it shows %q, it is %s", happened, shown, p.State)
		}
	})
}
