package tree_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
)

// end is one end of a line in small.
type end struct {
	to     *io.PipeWriter
	from   *io.PipeReader
	frames *pipe.Frames
	left   int64 // bytes until the line is cut; less than 0: it is not
}

var errCut = errors.New("the line was cut")

func (e *end) Send(kind pipe.FrameKind, data []byte) error {
	if e.left >= 0 {
		if e.left -= int64(len(data)); e.left < 0 {
			e.to.CloseWithError(errCut)
			return errCut
		}
	}
	return pipe.WriteFrame(e.to, kind, data)
}

func (e *end) Next() (pipe.FrameKind, []byte, error) { return e.frames.Next() }

func ends() (a, b *end) {
	fromA, toB := io.Pipe()
	fromB, toA := io.Pipe()
	return &end{toB, fromB, pipe.NewFrames(fromB), -1}, &end{toA, fromA, pipe.NewFrames(fromA), -1}
}

func (e *end) close() {
	e.to.CloseWithError(io.ErrClosedPipe)
	e.from.CloseWithError(io.ErrClosedPipe)
}

func lock(file *os.File) (func(), error) {
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.New("it is being copied")
	}
	return func() {}, nil
}

func me() tree.Owner { return tree.Owner{UID: os.Geteuid(), Lock: lock} }

// trip is one copy of a folder.
type trip struct {
	from, to, name string
	origin         string
	cut            int64                // bytes after which the line is cut; 0: it is not
	refuse         func(*os.File) error // of the sender

	sent, got  tree.Count
	mu         sync.Mutex
	told       []string // troubles of both ends
	sendError  error
	wroteError error
}

func (c *trip) trouble(t tree.Trouble) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	mark := ""
	if t.Passed {
		mark = " (passed)"
	}
	c.told = append(c.told, fmt.Sprintf("%s: %s%s", t.Path, t.Why, mark))
	return nil
}

// goes copies, and gives the folder that it went to.
func (c *trip) goes(t *testing.T) string {
	t.Helper()
	root, err := os.OpenRoot(c.from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	top, err := tree.Open(c.to, c.name, c.origin, me())
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	a, b := ends()
	if c.cut > 0 {
		a.left = c.cut
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		c.sent, c.sendError = tree.Send(t.Context(), tree.Source{Line: a, Content: pipe.FrameOutput, Root: root, Trouble: c.trouble,
			Refuse: c.refuse, Moved: func(string, tree.Count) {}})
		a.close()
	})
	c.got, c.wroteError = tree.Receive(t.Context(), tree.Target{Line: b, Top: top, Mask: 0o777, Trouble: c.trouble,
		Moved: func(string, tree.Count) {}})
	b.close()
	sender.Wait()
	return top.Path
}

// well is goes for a copy of which nothing goes wrong.
func (c *trip) well(t *testing.T) string {
	t.Helper()
	to := c.goes(t)
	if c.sendError != nil || c.wroteError != nil || len(c.told) > 0 || c.sent != c.got {
		t.Errorf("%v, %v, %q, %+v and %+v", c.sendError, c.wroteError, c.told, c.sent, c.got)
	}
	return to
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path string, data []byte, mode os.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o600), os.Chmod(path, mode))
}

func noise(n int) []byte {
	data := make([]byte, 0, n+32)
	for i := 0; len(data) < n; i++ {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		data = append(data, sum[:]...)
	}
	return data[:n]
}

// seen is all that is below a folder, as text.
func seen(t *testing.T, top string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		is := fmt.Sprintf("%v %d", info.Mode(), info.ModTime().UnixMicro())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			is = "-> " + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		all[name] = is
		return nil
	})
	must(t, err)
	return all
}

func alike(t *testing.T, from, to string) {
	t.Helper()
	want, got := seen(t, from), seen(t, to)
	for name, is := range want {
		if got[name] != is {
			t.Errorf("%q is %q, not %q", name, got[name], is)
		}
		delete(got, name)
	}
	for name, is := range got {
		t.Errorf("%q is there: %s", name, is)
	}
}

// forest has a bit of everything that can be copied.
func forest(t *testing.T) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "work")
	in := func(name string) string { return filepath.Join(top, name) }
	must(t, os.MkdirAll(in("empty"), 0o750), os.MkdirAll(in("deep/er/and/deeper"), 0o700))
	for name, mode := range map[string]os.FileMode{
		"a": 0o644, "secret": 0o600, "program": 0o755, "fixed": 0o444, "deep/er/and/deeper/b": 0o640, "-rf": 0o644, " ": 0o644,
		"a\nline": 0o644, "lat\xe9\xff": 0o644, "deep/\"quoted\"'$(id)`id`": 0o644, "shut/c": 0o644, ".hidden": 0o644,
		strings.Repeat("x", 255): 0o644,
	} {
		put(t, in(name), []byte(name), mode)
	}
	put(t, in("nothing"), nil, 0o644)
	put(t, in("large"), noise(3<<20+5), 0o644)
	must(t, os.Symlink("a", in("link")), os.Symlink("/etc/passwd", in("away")), os.Symlink("deep", in("to a folder")),
		os.Symlink("../../nowhere", in("deep/dangling\xff")), os.Link(in("a"), in("same as a")), os.Chmod(in("shut"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(in("shut"), 0o755) })
	holes, err := os.Create(in("holes"))
	must(t, err)
	_, err = holes.WriteAt([]byte("something"), 1<<20)
	must(t, err, holes.Truncate(4<<20), holes.Close())
	old := time.Unix(1_000_000_000, 123456000)
	must(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		old = old.Add(time.Hour)
		return os.Chtimes(path, old, old)
	}))
	return top
}

func TestCarry(t *testing.T) {
	from := forest(t)
	to := filepath.Join(t.TempDir(), "there")
	c := &trip{from: from, to: to, name: "work"}
	if got := c.well(t); got != to {
		t.Errorf("it went to %s", got)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "shut"), 0o755) })
	alike(t, from, to)
	if info, err := os.Stat(filepath.Join(to, "holes")); err != nil || !pipe.Sparse(info) {
		t.Errorf("the file with holes has none: %v, %v", info, err)
	}
	if c.got.Files != 17 || c.got.Same != 0 || c.got.Bytes < 7<<20 {
		t.Errorf("%+v", c.got)
	}
	// A second time nothing goes, and what has another time or size does.
	must(t, os.Chtimes(filepath.Join(from, "a"), time.Time{}, time.Unix(5, 0)),
		os.WriteFile(filepath.Join(from, "secret"), []byte("longer now"), 0o600), os.Chtimes(from, time.Time{}, time.Unix(6, 0)))
	again := &trip{from: from, to: to}
	again.well(t)
	if again.got.Files != 17 || again.got.Same != 14 || again.got.Bytes != int64(2*len("a")+len("longer now")) {
		t.Errorf("the second time: %+v", again.got)
	}
	must(t, os.Chtimes(to, time.Time{}, time.Unix(6, 0))) // what was there keeps its own time
	alike(t, from, to)
}

// TestCarryBits: a program that runs as its owner is not made on another machine.
func TestCarryBits(t *testing.T) {
	from := t.TempDir()
	put(t, filepath.Join(from, "su"), []byte("x"), 0o755|fs.ModeSetuid|fs.ModeSetgid)
	must(t, os.Mkdir(filepath.Join(from, "d"), 0o755), os.Chmod(filepath.Join(from, "d"), 0o777|fs.ModeSetgid|fs.ModeSticky))
	to := (&trip{from: from, to: t.TempDir()}).well(t)
	for name, mode := range map[string]fs.FileMode{"su": 0o755, "d": 0o777 | fs.ModeDir} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestCarryOn: a copy that was cut goes on, within a large file too. A new folder has its name only when all is there, so that the same
// command means the same again.
func TestCarryOn(t *testing.T) {
	from := filepath.Join(t.TempDir(), "work")
	for i := range 40 {
		put(t, filepath.Join(from, fmt.Sprintf("%d/small", i)), noise(1000), 0o644)
	}
	put(t, filepath.Join(from, "large"), noise(8<<20), 0o644)
	for _, there := range []bool{false, true} {
		to := filepath.Join(t.TempDir(), "new")
		if there {
			must(t, os.MkdirAll(filepath.Join(to, "work"), 0o755))
		}
		all := int64(0)
		for range 2 {
			c := &trip{from: from, to: to, name: "work", cut: 3 << 20}
			c.goes(t)
			if all += c.got.Bytes; c.wroteError == nil || len(c.told) > 0 {
				t.Fatalf("it was not cut: %+v", c)
			}
			if _, err := os.Stat(to); err == nil != there {
				t.Errorf("the folder is there: %v", err)
			}
		}
		c := &trip{from: from, to: to, name: "work"}
		got := c.well(t)
		if all += c.got.Bytes; all < 8<<20+40_000 || all > 8<<20+40_000+3*pipe.MaxFrame {
			t.Errorf("%d bytes went in all", all)
		}
		if want := map[bool]string{false: to, true: filepath.Join(to, "work")}[there]; got != want {
			t.Errorf("it went to %s", got)
		}
		must(t, os.Chtimes(got, time.Unix(0, 0), time.Unix(0, 0)), os.Chtimes(from, time.Unix(0, 0), time.Unix(0, 0)))
		alike(t, from, got)
	}
}

// TestCarryLeavesOut: what cannot be copied is told, and the others arrive.
func TestCarryLeavesOut(t *testing.T) {
	from := t.TempDir()
	for _, name := range []string{"a", "b", "shrinks", "z"} {
		put(t, filepath.Join(from, name), noise(200_000), 0o644)
	}
	must(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600))
	to := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(to, "a"), 0o755), syscall.Mkfifo(filepath.Join(to, "z"), 0o600))
	c := &trip{from: from, to: to, refuse: func(file *os.File) error {
		if filepath.Base(file.Name()) == "b" {
			return errors.New("not this one")
		}
		return os.Truncate(filepath.Join(from, "shrinks"), 100_000)
	}}
	c.goes(t)
	if c.sendError != nil || c.wroteError != nil {
		t.Errorf("%v, %v", c.sendError, c.wroteError)
	}
	told := strings.Join(c.told, "\n")
	for _, want := range []string{"a: something else is in its place: a folder", "z: something else is in its place: it is a pipe",
		"pipe: it is a pipe (passed)", "b: not this one", "shrinks: it became shorter while it was read"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q was not told:\n%s", want, told)
		}
	}
	if len(c.told) != 5 {
		t.Errorf("%s", told)
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 3 { // a, z, and the part of what shrank
		t.Errorf("%v, %v", entries, err)
	}
}

// TestOpen: where a folder goes is as with cp -r.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(in("there/work"), 0o755), os.MkdirAll(in("empty"), 0o755), os.Symlink("there", in("link")),
		os.Mkdir(in("bad"), 0o755), os.Symlink("/etc", in("bad/work")))
	put(t, in("file"), nil, 0o644)
	for _, c := range []struct{ to, name, want string }{
		{"there", "work", "there/work"}, {"empty", "work", "empty/work"}, {"new", "work", "new"}, {"new", "", "new"}, {"there", "", "there"},
		{"link", "work", "link/work"}, {"link", "", "link"},
		{"file", "work", "!is no folder: a file"}, {"bad", "work", "!is no folder: a link"}, {"none/new", "work", "!no such file"},
	} {
		top, err := tree.Open(in(c.to), c.name, "", me())
		wrong, fails := strings.CutPrefix(c.want, "!")
		if fails {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", c.to, err)
			}
			continue
		}
		if err != nil || top.Path != in(c.want) {
			t.Errorf("%s: %+v, %v", c.to, top, err)
			continue
		}
		top.Close()
	}
	for _, folder := range []string{".", "empty"} {
		parts, err := filepath.Glob(filepath.Join(dir, folder, ".muster-*"))
		if err != nil || len(parts) > 0 {
			t.Errorf("left behind: %q, %v", parts, err)
		}
	}
}

// TestOpenTwice: two copies do not gather in one folder, and what somebody has put in its place is not taken.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	first, err := tree.Open(filepath.Join(dir, "new"), "", "", me())
	must(t, err)
	if _, err := tree.Open(filepath.Join(dir, "new"), "", "", me()); err == nil || !strings.Contains(err.Error(), "it is being copied") {
		t.Errorf("%v", err)
	}
	first.Close()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v", left)
	}
	elsewhere := t.TempDir()
	must(t, os.Symlink(elsewhere, filepath.Join(dir, partOf("new"))))
	if _, err := tree.Open(filepath.Join(dir, "new"), "", "", me()); err == nil {
		t.Error("it gathers behind a link")
	}
	must(t, os.Remove(filepath.Join(dir, partOf("new"))), os.Mkdir(filepath.Join(dir, partOf("new")), 0o777))
	other := me()
	other.UID++
	if _, err := tree.Open(filepath.Join(dir, "new"), "", "", other); err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("another user's folder: %v", err)
	}
}

// partOf is the name of a folder while it gathers, as the package makes it.
func partOf(name string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s0:", len(name), name)))
	return ".muster-" + hex.EncodeToString(sum[:16]) + ".part"
}

// TestFull: a full disk ends the copy, and does not tell of each file.
func TestFull(t *testing.T) {
	to := t.TempDir()
	if err := syscall.Mount("tmpfs", to, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("NOT RUN: no small file system can be made here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(to, 0); err != nil {
			t.Error(err)
		}
	}()
	from := t.TempDir()
	for i := range 9 {
		put(t, filepath.Join(from, fmt.Sprint(i)), bytes.Repeat([]byte("x"), 100_000), 0o644)
	}
	c := &trip{from: from, to: to}
	c.goes(t)
	if !errors.Is(c.wroteError, syscall.ENOSPC) || len(c.told) > 0 {
		t.Errorf("%v, %q", c.wroteError, c.told)
	}
}
