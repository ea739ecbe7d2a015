package recording_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/wire"
	"muster/gateway/internal/session/recording"
)

// TestDeletedStaysDeleted: a recording of which was told that it is deleted does not come back with the power.
func TestDeletedStaysDeleted(t *testing.T) {
	id := wire.NewSessionID()
	told := false
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		told = false
		take(t, open(t, config(m.Dir)), id, "text")
		long := noon().Add(-100 * time.Hour)
		must(t, os.Chtimes(filepath.Join(m.Dir, id+".cast"), long, long))
	}, func(m *disktest.Machine) {
		c := config(m.Dir)
		c.Disk = m.Steps
		c.Keep = time.Hour
		c.Dropped = func(context.Context, string, int, int64) error {
			told = true
			return nil
		}
		if s, err := recording.Open(c); err == nil {
			_ = s.Prune(t.Context(), noon(), true)
		}
	}, func(dir, happened string) {
		if _, err := os.Stat(filepath.Join(dir, id+".cast")); err == nil && strings.HasPrefix(happened, "at the end") {
			t.Errorf("%s: it is there", happened)
		}
	})
	if !told {
		t.Error("nothing was deleted")
	}
}
