package child_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/child"
)

// The numbers of a user and of groups that this machine does not know.
const (
	someUID   = 54321
	someGID   = 54322
	someGroup = 54323
)

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root may take the rights of others")
	}
}

// open gives a folder that everybody may enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rights")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestAs(t *testing.T) {
	asRoot(t)
	dir := openFolder(t)
	secret := filepath.Join(dir, "secret")
	shared := filepath.Join(dir, "shared")
	mine := filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(secret, nil, 0o600), os.WriteFile(shared, []byte("x"), 0o640),
		os.Chown(shared, 0, someGroup)); err != nil {
		t.Fatal(err)
	}
	err := child.As(someUID, someGID, []int{someGroup}, func() error {
		if _, err := os.ReadFile(secret); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file of root's alone: %v", err)
		}
		if err := os.Chmod(shared, 0o666); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("to change root's file: %v", err)
		}
		if _, err := os.ReadFile(shared); err != nil {
			t.Errorf("a file of the user's group: %v", err)
		}
		return os.WriteFile(mine, nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(mine)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != someUID || s.Gid != someGID {
		t.Errorf("the new file is %d:%d's", s.Uid, s.Gid)
	}
	if _, err := os.ReadFile(secret); err != nil {
		t.Errorf("afterwards the agent has no rights of its own: %v", err)
	}
}

// TestNoCapability: the user's rights are all that there is.
func TestNoCapability(t *testing.T) {
	asRoot(t)
	for uid, want := range map[int]string{someUID: "CapEff:\t0000000000000000\n", 0: ""} {
		err := child.As(uid, someGID, nil, func() error {
			status, err := os.ReadFile("/proc/thread-self/status")
			if has := strings.Contains(string(status), "CapEff:\t0000000000000000\n"); has != (want != "") {
				t.Errorf("as %d:\n%s", uid, status)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestFailedWork(t *testing.T) {
	asRoot(t)
	why := errors.New("no")
	if err := child.As(someUID, someGID, nil, func() error { return why }); err != why {
		t.Error(err)
	}
}

// TestNotRoot: without root's rights nothing is done at all.
func TestNotRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOT RUN: root may take the rights of others")
	}
	if child.As(someUID, someGID, nil, func() error { t.Error("the work was done"); return nil }) == nil {
		t.Error("an ordinary user took the rights of another one")
	}
}
