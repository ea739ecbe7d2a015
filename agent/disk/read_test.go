package disk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/agent/disk"
)

func TestReadEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, most int64
		want       string
	}{
		{0, 100, "one\ntwo\nthree\n"},
		{0, 14, "one\ntwo\nthree\n"},
		{0, 13, "two\nthree\n"}, // the first line is not whole
		{4, 100, "two\nthree\n"},
		{4, 7, "three\n"},
		{4, 3, ""},
		{14, 100, ""},
		{99, 100, "one\ntwo\nthree\n"}, // a new file was begun
	} {
		if got, err := disk.ReadEnd(path, test.from, test.most); err != nil || string(got) != test.want {
			t.Errorf("from %d, at most %d: %q, %v", test.from, test.most, got, err)
		}
	}
}

// TestReadNoFile: what is no file, or is larger than it may be, is refused and holds nobody up.
func TestReadNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, 11), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, large} {
		if raw, err := disk.ReadFile(path, 10); err == nil {
			t.Errorf("%s: %q", path, raw)
		}
	}
	if raw, err := disk.ReadFile(large, 11); err != nil || len(raw) != 11 {
		t.Errorf("%q, %v", raw, err)
	}
}
