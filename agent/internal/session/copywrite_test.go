package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/account"
	"muster/agent/wire"
)

func writing(path string, data []byte) wire.CopyParams {
	return wire.CopyParams{Path: path, Write: true, Size: int64(len(data)), SHA256: sumOf(data)}
}

// partOf is where a part lies.
func partOf(path string, data []byte) string {
	return filepath.Join(filepath.Dir(path), ".muster-"+sumOf(data)[:32]+".part")
}

func is(t *testing.T, path string, want []byte, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, not %d, %v", path, len(got), len(want), err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: %v, not %v", path, info.Mode(), mode)
	}
}

// alone checks that nothing but this file is in its folder.
func alone(t *testing.T, path string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestCopyWrite(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 3 << 20} {
		for name, before := range map[string]func(path string) error{
			"new":    func(string) error { return nil },
			"a file": func(path string) error { return os.WriteFile(path, text(5<<20), 0o400) },
			"a link": func(path string) error { return os.Symlink("/dev/null", path) },
		} {
			data := text(size)
			path := filepath.Join(t.TempDir(), "f")
			if err := before(path); err != nil {
				t.Fatal(err)
			}
			p := writing(path, data)
			p.Mode = 0o750
			o := startCopy(t, p, me())
			o.send(data)
			exit := o.sendEnd()
			if exit.SHA256 != sumOf(data) || exit.Bytes != int64(size) || exit.Error != "" || o.ready.Offset != 0 {
				t.Errorf("%s: %+v", name, exit)
			}
			is(t, path, data, 0o750)
			alone(t, path)
		}
	}
}

// TestCopyWriteOn: a copy that was cut goes on where it ended, and replaces nothing before.
func TestCopyWriteOn(t *testing.T) {
	data := text(300_000)
	path := put(t, filepath.Join(t.TempDir(), "f"), []byte("before"), 0o600)
	o := startCopy(t, writing(path, data), me())
	o.send(data[:100_000])
	if exit := o.sendEnd(); !strings.Contains(exit.Error, "only 100000 of 300000 bytes came") {
		t.Errorf("%+v", exit)
	}
	is(t, path, []byte("before"), 0o600)
	o = startCopy(t, writing(path, data), me())
	if o.ready.Offset != 100_000 {
		t.Fatalf("%+v", o.ready)
	}
	o.send(data[100_000:])
	if exit := o.sendEnd(); exit.Error != "" {
		t.Errorf("%+v", exit)
	}
	is(t, path, data, 0o644)
	alone(t, path)
}

// TestCopyWriteWrong: what is not the file does not become it, and does not spoil the next try.
func TestCopyWriteWrong(t *testing.T) {
	data := text(1000)
	for name, c := range map[string]struct{ send, want string }{
		"other bytes": {strings.Repeat("x", 1000), "its SHA-256 is another one"},
		"too many":    {string(text(1001)), "more than 1000 bytes came"},
	} {
		path := put(t, filepath.Join(t.TempDir(), "f"), []byte("before"), 0o600)
		o := startCopy(t, writing(path, data), me())
		o.send([]byte(c.send))
		if exit := o.sendEnd(); !strings.Contains(exit.Error, c.want) {
			t.Errorf("%s: %+v", name, exit)
		}
		is(t, path, []byte("before"), 0o600)
	}
	path := filepath.Join(t.TempDir(), "f")
	put(t, partOf(path, data), text(1001), 0o600)
	if o := startCopy(t, writing(path, data), me()); o.ready.Offset != 0 {
		t.Errorf("a part that is too long: %+v", o.ready)
	}
}

// TestCopyWritePlanted: what somebody else put under the name of the part is not touched.
func TestCopyWritePlanted(t *testing.T) {
	data := text(1000)
	victim := put(t, filepath.Join(t.TempDir(), "victim"), []byte("precious"), 0o600)
	for name, plant := range map[string]func(part string) error{
		"a link":      func(part string) error { return os.Symlink(victim, part) },
		"a hard link": func(part string) error { return os.Link(victim, part) },
		"a pipe":      func(part string) error { return syscall.Mkfifo(part, 0o600) },
		"another's": func(part string) error {
			if os.Geteuid() != 0 {
				return os.Symlink(victim, part)
			}
			return errors.Join(os.WriteFile(part, nil, 0o666), os.Chown(part, 54321, 54321))
		},
	} {
		path := filepath.Join(t.TempDir(), "f")
		if err := plant(partOf(path, data)); err != nil {
			t.Fatal(err)
		}
		o := startCopy(t, writing(path, data), me())
		if exit := o.end(); !strings.Contains(exit.Error, "is in the way") {
			t.Errorf("%s: %+v", name, exit)
		}
		is(t, victim, []byte("precious"), 0o600)
	}
}

func TestCopyWriteNone(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo: "is no file: it is a pipe", "/dev/null": "is no file: it is a device", filepath.Join(dir, "none", "f"): "there is no",
	} {
		if exit := startCopy(t, writing(path, text(1)), me()).end(); exit.Code != 1 || !strings.Contains(exit.Error, want) {
			t.Errorf("%s: %+v", path, exit)
		}
	}
	for _, path := range []string{dir, dir + "/", "/"} {
		o := startCopy(t, writing(path, text(1)), me())
		if exit := o.end(); !o.ready.Folder || exit.Error != "" {
			t.Errorf("%s: %+v, %+v", path, o.ready, exit)
		}
	}
}

// TestCopyWriteTwice: two copies of one file do not write into one part.
func TestCopyWriteTwice(t *testing.T) {
	data := text(1000)
	path := filepath.Join(t.TempDir(), "f")
	first := startCopy(t, writing(path, data), me())
	if exit := startCopy(t, writing(path, data), me()).end(); !strings.Contains(exit.Error, "being copied there already") {
		t.Errorf("%+v", exit)
	}
	first.send(data)
	if exit := first.sendEnd(); exit.Error != "" {
		t.Errorf("%+v", exit)
	}
	is(t, path, data, 0o644)
}

// TestCopyAs: the rights of the user count, and the file is the user's.
func TestCopyAs(t *testing.T) {
	if os.Geteuid() != 0 {
		if exit := startCopy(t, wire.CopyParams{Path: "/etc/passwd"}, account.Login{Name: "ada", UID: 54321}).end(); exit.Code == 0 {
			t.Errorf("an ordinary user copied as another one: %+v", exit)
		}
		return
	}
	ada := account.Login{Name: "ada", UID: 54321, GID: 54322}
	dir, err := os.MkdirTemp("", "copy")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data := text(1000)
	path := filepath.Join(dir, "f")
	o := startCopy(t, writing(path, data), ada)
	o.send(data)
	if exit := o.sendEnd(); exit.Error != "" {
		t.Errorf("%+v", exit)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 54321 || s.Gid != 54322 {
		t.Errorf("the file is %d:%d's", s.Uid, s.Gid)
	}
	o = startCopy(t, writing(path, text(5)), me())
	o.send(text(5))
	if exit := o.sendEnd(); exit.Error != "" {
		t.Errorf("%+v", exit)
	}
	if info, err = os.Stat(path); err != nil || info.Sys().(*syscall.Stat_t).Uid != 54321 {
		t.Errorf("root took the file away from its owner (%v)", err)
	}
	secret := put(t, filepath.Join(dir, "secret"), data, 0o600)
	if got, exit := startCopy(t, wire.CopyParams{Path: secret}, ada).read(); len(got) > 0 || !strings.Contains(exit.Error, "may not do that") {
		t.Errorf("root's file: %+v", exit)
	}
	if exit := startCopy(t, writing("/etc/muster-test", data), ada).end(); !strings.Contains(exit.Error, "may not do that") {
		t.Errorf("into root's folder: %+v", exit)
	}
}

// TestCopyFull: a full disk is said to be full, and what arrived stays.
func TestCopyFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("NOT RUN: no small file system can be made here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	data := text(300_000)
	path := filepath.Join(dir, "f")
	o := startCopy(t, writing(path, data), me())
	o.send(data)
	if exit := o.sendEnd(); !strings.Contains(exit.Error, "has no room") {
		t.Errorf("%+v", exit)
	}
	if info, err := os.Stat(partOf(path, data)); err != nil || info.Size() < 100_000 {
		t.Errorf("the part: %v, %v", info, err)
	}
}

func TestCopyExplains(t *testing.T) {
	c := &copying{params: &wire.CopyParams{Path: "/srv/f"}, who: account.Login{Name: "ada"}}
	for err, want := range map[error]string{
		syscall.ENOSPC: "no room for /srv/f", syscall.EDQUOT: "no room", syscall.ENOENT: "there is no /srv/f", syscall.EACCES: "ada",
		syscall.EIO: "input/output",
	} {
		if got := c.explain(fmt.Errorf("x: %w", err)); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
	c.params.Write = true
	if got := c.explain(syscall.ENOENT); !strings.Contains(got, "no folder /srv on the node") {
		t.Error(got)
	}
}
