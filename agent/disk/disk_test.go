package disk_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/disk"
)

// TestReplace: content and mode are those of the call, and nothing else lies beside the file.
func TestReplace(t *testing.T) {
	for name, write := range map[string]func(string, []byte, fs.FileMode) error{"at once": disk.Replace, "soon": disk.ReplaceSoon} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			for _, content := range []string{"a long first content", "second"} {
				if err := write(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if raw, err := os.ReadFile(path); err != nil || string(raw) != content {
					t.Errorf("%q, %v; want %q", raw, err, content)
				}
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
				t.Errorf("%v, %v", entries, err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

// TestReplaceThatFails leaves the old file as it is, and no file beside it.
func TestReplaceThatFails(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil { // a directory cannot be renamed over
		t.Fatal(err)
	}
	if err := disk.Replace(path, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := disk.Replace(filepath.Join(folder, "missing", "file"), nil, 0o600); err == nil {
		t.Error("written into a folder that is not there")
	}
	if err := disk.Sync(filepath.Join(folder, "missing")); err == nil {
		t.Error("synced what is not there")
	}
}

// TestNextStep finds the step through everything that an error is wrapped in.
func TestNextStep(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "free some space", syscall.EDQUOT: "free some space", syscall.EROFS: "read-only",
		syscall.ENOTDIR: "a file where a directory",
		syscall.EEXIST:  "a file where a directory", syscall.EACCES: "--state", syscall.EIO: "",
	} {
		got := disk.NextStep(fmt.Errorf("write: %w", &fs.PathError{Op: "open", Path: "x", Err: err}))
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", err, got)
		}
	}
}
