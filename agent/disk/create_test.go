package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/disk"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one")
	two := filepath.Join(dir, "two")
	three := filepath.Join(dir, "three")
	if err := errors.Join(disk.Steps(nil).Create(one, 0o640, []byte("text")), disk.Steps(nil).Copy(one, two), disk.Steps(nil).Rename(two, three)); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]fs.FileMode{one: 0o640, three: 0o600} {
		text, err := os.ReadFile(path)
		info, errStat := os.Stat(path)
		if err := errors.Join(err, errStat); err != nil || string(text) != "text" || info.Mode() != mode {
			t.Errorf("%s: %q, %v, %v", path, text, info.Mode(), err)
		}
	}
	if _, err := os.Stat(two); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
}

func TestFilesFail(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	none := filepath.Join(dir, "none")
	if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want error }{
		"create over a file":     {disk.Steps(nil).Create(there, 0o600, nil), fs.ErrExist},
		"copy over a file":       {disk.Steps(nil).Copy(there, there), fs.ErrExist},
		"copy of nothing":        {disk.Steps(nil).Copy(none, filepath.Join(dir, "copy")), fs.ErrNotExist},
		"rename of nothing":      {disk.Steps(nil).Rename(none, there), fs.ErrNotExist},
		"a directory of nothing": {disk.Sync(none), fs.ErrNotExist},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "kept" {
		t.Errorf("the file that was there: %q, %v", text, err)
	}
}
