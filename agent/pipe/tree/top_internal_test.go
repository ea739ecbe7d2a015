package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnter: a folder that became a link, after it was looked at, is not written.
func TestEnter(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	seen, err := os.Lstat(at)
	if err != nil {
		t.Fatal(err)
	}
	top := &Top{Path: at, release: func() {}}
	if err := top.enter(seen); err != nil {
		t.Fatal(err)
	}
	top.Close()
	if err := os.Rename(at, filepath.Join(dir, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), at); err != nil {
		t.Fatal(err)
	}
	top = &Top{Path: at, release: func() {}}
	if err := top.enter(seen); err == nil || !strings.Contains(err.Error(), "has just become another folder") {
		t.Errorf("%v", err)
	}
	top.Close()
}
