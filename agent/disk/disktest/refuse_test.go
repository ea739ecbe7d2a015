package disktest_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
)

// TestRefused: the work is refused what it says, and nobody else is.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	disktest.WithoutSync(t, func() {
		if err := file.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("a file was synced: %v", err)
		}
	})
	disktest.WithoutReading(t, func() {
		if err := file.Sync(); err != nil {
			t.Errorf("a file: %v", err)
		}
		if err := disk.Sync(dir); !errors.Is(err, syscall.EIO) {
			t.Errorf("a folder was synced: %v", err)
		}
		if more, err := os.Create(filepath.Join(dir, "more")); err != nil {
			t.Error(err)
		} else if err := more.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(file.Sync(), disk.Sync(dir)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
