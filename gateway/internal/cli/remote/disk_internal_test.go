package remote

import (
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
)

// TestCopyIsOnTheDisk: a copy is done once its bytes and its name are on the disk.
func TestCopyIsOnTheDisk(t *testing.T) {
	for what, refused := range map[string]func(*testing.T, func()){"bytes": disktest.WithoutSync, "name": disktest.WithoutReading} {
		to := filepath.Join(t.TempDir(), "copy")
		p, err := openPart(to)
		if err == nil {
			defer p.Close()
			err = p.add([]byte("text"))
		}
		if err != nil {
			t.Fatal(err)
		}
		refused(t, func() {
			if p.finish(to, 0o600) == nil {
				t.Errorf("its %s may not be on the disk", what)
			}
		})
		if _, err := os.Stat(to); what == "bytes" && err == nil {
			t.Error("it has its name before its bytes are on the disk")
		}
	}
}
