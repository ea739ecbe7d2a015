package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/gateway/internal/adminapi/backup"
)

// TestRemoveScratch: a copy that a killed gateway left goes, and nothing else does.
func TestRemoveScratch(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "backup-123")
	mine := filepath.Join(dir, "backup-mine")
	err := errors.Join(os.Mkdir(left, 0o700), os.Mkdir(mine, 0o700))
	for _, path := range []string{filepath.Join(left, "muster.db"), filepath.Join(mine, "notes"), filepath.Join(dir, "muster.db")} {
		err = errors.Join(err, os.WriteFile(path, nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	backup.RemoveScratch(dir)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy: %v", err)
	}
	for _, path := range []string{filepath.Join(mine, "notes"), filepath.Join(dir, "muster.db")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
