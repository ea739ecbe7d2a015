package account

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/disk/disktest"
)

// TestSudoIsKept: a right that was given is there after a loss of power, and before that it is there whole or not at all.
func TestSudoIsKept(t *testing.T) {
	given := false
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		visudo := filepath.Join(m.Dir, "/usr/sbin/visudo")
		err := errors.Join(os.MkdirAll(filepath.Join(m.Dir, sudoersFolder), 0o755), os.MkdirAll(filepath.Dir(visudo), 0o755),
			os.WriteFile(visudo, nil, 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		quiet := func(context.Context, io.Writer, string, ...string) error { return nil }
		p := provisioning{Accounts: &Accounts{State: m.Dir, Root: m.Dir, exec: quiet, disk: m.Steps}, out: io.Discard}
		given = p.writeSudoers(t.Context(), "ada") == nil
	}, func(dir, happened string) {
		text, err := os.ReadFile(filepath.Join(dir, sudoersFolder, sudoersName("ada")))
		if given && err != nil || err == nil && !bytes.Equal(text, sudoers("ada")) {
			t.Errorf("%s, given %t: %q, %v", happened, given, text, err)
		}
	})
	if !given {
		t.Error("the right was not given")
	}
}

// TestPowerCuts: after a loss of power at any step the record has what was written before the machine was changed, keys that were given are
// there, and a right that was taken stays away.
func TestPowerCuts(t *testing.T) {
	mine := account{Name: "ada", UID: 1001, Home: home("ada"), Mark: "made by muster x", Phase: present}
	sudo := filepath.Join(sudoersFolder, sudoersName("ada"))
	var recorded, keys, taken bool
	disktest.CutEverywhere(t, func(m *disktest.Machine) {
		recorded, keys, taken = false, false, false
		err := errors.Join(os.MkdirAll(filepath.Join(m.Dir, filepath.Dir(sudo)), 0o755), os.Mkdir(filepath.Join(m.Dir, "ssh"), 0o700),
			os.WriteFile(filepath.Join(m.Dir, sudo), sudoers("ada"), 0o440))
		if err != nil {
			t.Fatal(err)
		}
	}, func(m *disktest.Machine) {
		a := &Accounts{State: m.Dir, Root: m.Dir, disk: m.Steps}
		recorded = a.save(&record{}, mine) == nil
		file, err := os.Open(filepath.Join(m.Dir, "ssh"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		keys = folder{file, a.disk}.replace(keysFile, []byte("ssh-ed25519 AAAA"), 0o600) == nil
		gone, err := a.removeSudoers("ada")
		taken = gone && err == nil
	}, func(dir, happened string) {
		a := &Accounts{State: dir, UID: os.Geteuid()}
		r, err := a.load()
		if _, found := r.find("ada"); err != nil || recorded && !found {
			t.Errorf("%s: the record: %v", happened, err)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "ssh", keysFile))
		if keys && !strings.Contains(string(text), "AAAA") {
			t.Errorf("%s: the keys: %q", happened, text)
		}
		if _, err := os.Lstat(filepath.Join(dir, sudo)); taken && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: sudo is there again: %v", happened, err)
		}
	})
}
