package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
)

// TestBackupIsOnTheDisk: a backup whose bytes or whose name may not be on the disk is not called one.
func TestBackupIsOnTheDisk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	dir := t.TempDir()
	bytes, name := filepath.Join(dir, "bytes.tar"), filepath.Join(dir, "name.tar")
	disktest.WithoutSync(t, func() {
		if code, said, errs := h.try("backup", bytes); code != exitFailed || said != "" || !strings.Contains(errs, bytes) {
			t.Errorf("its bytes: %d %s%s", code, said, errs)
		}
	})
	if _, err := os.Stat(bytes); err == nil {
		t.Error("a file of which nobody knows whether it is whole was left")
	}
	disktest.WithoutReading(t, func() {
		if code, said, errs := h.try("backup", name); code != exitFailed || said != "" || !strings.Contains(errs, "open "+dir+":") {
			t.Errorf("its name: %d %s%s", code, said, errs)
		}
	})
}
