package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesOfSomebodyElse: files that others put into a directory before it was closed to them do not count as the agent's own.
func TestFilesOfSomebodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	err := makePrivate(path, func() {
		if err := os.Mkdir(filepath.Join(path, "versions"), 0o777); err != nil {
			t.Error(err)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "while it was taken over") {
		t.Errorf("a folder that came while it was taken over: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("not closed: %v, %v", info, err)
	}
	if os.Geteuid() != 0 {
		return // the rest is about what root takes from others
	}
	for mode, private := range map[os.FileMode]bool{0o777: false, 0o700: true} {
		path := filepath.Join(t.TempDir(), "theirs")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{LockFile, identityFile} {
			if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := CheckPrivate(path); err == nil || !strings.Contains(err.Error(), "belongs to another user (65534) and holds files") {
			t.Errorf("%o, for a new identity: %v", mode, err)
		}
		if err := MakePrivate(path); (err == nil) != private {
			t.Errorf("%o, for an agent that was at work: %v", mode, err)
		}
	}
}
