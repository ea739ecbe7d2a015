package adminapi

import (
	"os"
	"path/filepath"

	"muster/gateway/internal/datadir"
)

// RemoveScratch removes the copies of the database that a gateway made for a backup and did not get to remove. No gateway may be at
// work on the directory.
func RemoveScratch(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "backup-*", datadir.Database))
	for _, path := range left {
		os.RemoveAll(filepath.Dir(path))
	}
}
