package engine_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"muster/store/engine"
)

// TestNewFile: a file that is there stays as it is, and after an error there is none.
func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	full := errors.New("full")
	if err := engine.NewFile(path, func(*os.File) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the error: %v", err)
	}
	write := func(f *os.File) error {
		_, err := f.WriteString("x")
		return err
	}
	if err := engine.NewFile(path, write); err != nil {
		t.Fatal(err)
	}
	if err := engine.NewFile(path, write); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "x" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// TestNewFileName: a file whose name may not be on the disk does not stay either: the next try would find it.
func TestNewFileName(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every folder")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	err := engine.NewFile(path, func(*os.File) error { return os.Chmod(dir, 0o300) })
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the error: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
