package session

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk/disktest"
)

// TestCopyPowerCuts: a copy that was reported as done is whole after a loss of power. Before that the old file is there or the new one,
// and never a part under the file's name.
func TestCopyPowerCuts(t *testing.T) {
	content := text(20_000)
	sum := sha256.Sum256(content)
	var done bool
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		put(t, filepath.Join(m.Dir, "f"), []byte("before"), 0o600)
	}, func(m *disktest.Machine) {
		to, err := openPlace(filepath.Join(m.Dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer to.folder.Close()
		to.disk = m.Steps
		to.lock = (&copying{all: new(copies)}).lock
		part, err := to.partial(hex.EncodeToString(sum[:]), os.Geteuid())
		if err != nil {
			t.Fatal(err)
		}
		defer part.Close()
		if _, err := part.Write(content); err != nil {
			t.Fatal(err)
		}
		done = to.finish(part, 0o640) == nil
	}, func(dir, happened string) {
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if whole := string(got) == string(content); err != nil || done && !whole || !whole && string(got) != "before" {
			t.Errorf("%s: done %t, %d bytes, %v", happened, done, len(got), err)
		}
	})
}
