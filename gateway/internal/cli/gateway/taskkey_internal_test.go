package gateway

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
)

// TestNewKeyFile: the file of a key is there once it is on the disk, and no file is written over.
func TestNewKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := newFile(file, 0o600, &pem.Block{Type: "KEY", Bytes: []byte("one")}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := newFile(file, 0o600, &pem.Block{Type: "KEY", Bytes: []byte("two")}); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over another key: %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the key before is now %q, %v", after, err)
	}
	disktest.WithoutSync(t, func() {
		if newFile(file+"2", 0o600, &pem.Block{Type: "KEY"}) == nil {
			t.Error("a key that may not be on the disk")
		}
	})
}
