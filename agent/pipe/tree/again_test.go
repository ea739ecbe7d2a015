package tree_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
	"muster/agent/wire"
)

// cut is a copy of two folders that is cut before its end.
func cut(t *testing.T, to, origin string, names ...string) {
	t.Helper()
	into, err := tree.Open(to, "", origin, me())
	must(t, err)
	defer into.Close()
	says := []said{top}
	for _, name := range names {
		says = append(says, folder(name))
	}
	if _, err := tree.Receive(t.Context(), target(into, says...)); err == nil {
		t.Fatal("it was not cut")
	}
}

func target(into *tree.Top, says ...said) tree.Target {
	return tree.Target{Line: &script{says: says}, Top: into, Mask: 0o777, Trouble: func(tree.Trouble) error { return nil }}
}

func permissions(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().Perm()
}

// umask is what a unit with UMask=0077 has.
func umask(t *testing.T) {
	t.Helper()
	before := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(before) })
}

// TestPermissionsAfterCut: the folders of a copy that was cut and goes on have their permissions, in a new folder and in one that was
// there.
func TestPermissionsAfterCut(t *testing.T) {
	umask(t)
	for _, there := range []bool{false, true} {
		to := filepath.Join(t.TempDir(), "to")
		if there {
			must(t, os.Mkdir(to, 0o700), os.Mkdir(filepath.Join(to, "mine"), 0o700))
		}
		cut(t, to, "", "a", "a/b", "mine")
		if there {
			if got := permissions(t, filepath.Join(to, "a/b")); got != 0o755 {
				t.Errorf("after the cut: %v", got)
			}
		}
		into, err := tree.Open(to, "", "", me())
		must(t, err)
		_, err = tree.Receive(t.Context(), target(into, top, folder("a"), folder("a/b"), folder("mine"), over))
		into.Close()
		must(t, err)
		mine := map[bool]os.FileMode{false: 0o755, true: 0o700}[there]
		for name, want := range map[string]os.FileMode{".": mine, "a": 0o755, "a/b": 0o755, "mine": mine} {
			if got := permissions(t, filepath.Join(to, name)); got != want {
				t.Errorf("there before: %v: %s has %v, not %v", there, name, got, want)
			}
		}
	}
}

// TestOrigin: a new folder holds nothing of a copy from elsewhere that was cut.
func TestOrigin(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "data")
	cut(t, to, "one", "of one")
	cut(t, to, "other", "of other")
	into, err := tree.Open(to, "", "other", me())
	must(t, err)
	defer into.Close()
	_, err = tree.Receive(t.Context(), target(into, top, over))
	must(t, err)
	if got, _ := os.ReadDir(to); len(got) != 1 || got[0].Name() != "of other" {
		t.Errorf("%v", got)
	}
	// What came to be there meanwhile stays.
	late, err := tree.Open(filepath.Join(dir, "late"), "", "", me())
	must(t, err)
	defer late.Close()
	put(t, filepath.Join(dir, "late/file"), nil, 0o600)
	if _, err = tree.Receive(t.Context(), target(late, top, over)); err == nil || !strings.Contains(err.Error(), "meanwhile") {
		t.Errorf("%v", err)
	}
}

// TestFarTime: a file with a time that cannot be announced is named, and all others go; a folder goes too.
func TestFarTime(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	put(t, filepath.Join(from, "d/far"), []byte("x"), 0o644)
	put(t, filepath.Join(from, "d/near"), []byte("x"), 0o644)
	far := time.UnixMicro(wire.MaxNumber + 1e6)
	for _, name := range []string{"d/far", "d"} {
		must(t, os.Chtimes(filepath.Join(from, name), far, far))
		if info, err := os.Stat(filepath.Join(from, name)); err != nil || info.ModTime().UnixMicro() <= wire.MaxNumber {
			t.Skipf("NOT RUN: this file system has no such times: %v", err)
		}
	}
	c := &trip{from: from, to: to}
	c.goes(t)
	if c.sendError != nil || c.wroteError != nil || len(c.told) != 1 || !strings.HasPrefix(c.told[0], "d/far: ") {
		t.Errorf("%v, %v, %q", c.sendError, c.wroteError, c.told)
	}
	if _, err := os.Stat(filepath.Join(to, "d/near")); err != nil {
		t.Error(err)
	}
}

// acting is a script that does something before it says its last word.
type acting struct {
	script
	act func()
}

func (a *acting) Next() (pipe.FrameKind, []byte, error) {
	if len(a.says) == 1 {
		a.act()
	}
	return a.script.Next()
}

// TestSettleOther: a folder that came in the place of one that was made keeps its permissions.
func TestSettleOther(t *testing.T) {
	for _, last := range []said{over, {pipe.FrameSum, "{}"}} { // the copy ends well, and it fails
		for what, swap := range map[string]func(to string) error{
			"a folder": func(to string) error { return os.Rename(filepath.Join(to, "private"), filepath.Join(to, "a")) },
			"a link":   func(to string) error { return os.Symlink("private", filepath.Join(to, "a")) },
		} {
			to := t.TempDir()
			must(t, os.Mkdir(filepath.Join(to, "private"), 0o700))
			into, err := tree.Open(to, "", "", me())
			must(t, err)
			var told []string
			_, err = tree.Receive(t.Context(), tree.Target{Top: into, Mask: 0o777,
				Line: &acting{script{says: []said{top, folder("a"), last}}, func() {
					must(t, os.Rename(filepath.Join(to, "a"), filepath.Join(to, "was a")), swap(to))
				}},
				Trouble: func(x tree.Trouble) error {
					told = append(told, fmt.Sprintf("%s: %s", x.Path, x.Why))
					return nil
				}})
			into.Close()
			if last == over && (err != nil || len(told) != 1 || !strings.HasPrefix(told[0], "a: something else is in its place")) {
				t.Errorf("%s: %q, %v", what, told, err)
			}
			if got := permissions(t, filepath.Join(to, "a")); got != 0o700 {
				t.Errorf("%s: %v", what, got)
			}
		}
	}
}

// again says the same folder again and again.
type again struct{ left int }

func (a *again) Send(pipe.FrameKind, []byte) error { return nil }

func (a *again) Next() (pipe.FrameKind, []byte, error) {
	a.left--
	path := "."
	if a.left >= 0 {
		path = strings.Repeat(strings.Repeat("a", 255)+"/", 15) + "a"
	}
	data, err := json.Marshal(tree.Entry{Path: []byte(path), Kind: tree.Folder, Mode: 0o755})
	return pipe.FrameEntry, data, err
}

// TestFolderMemory: what is kept of folders is bounded in bytes.
func TestFolderMemory(t *testing.T) {
	to := t.TempDir()
	path := to
	root, err := os.OpenRoot(to)
	must(t, err)
	defer root.Close()
	for _, name := range slices.Repeat([]string{strings.Repeat("a", 255)}, 15) {
		path = filepath.Join(path, name)
	}
	must(t, root.MkdirAll(path[len(to)+1:]+"/a", 0o755))
	into, err := tree.Open(to, "", "", me())
	must(t, err)
	defer into.Close()
	line := &first{again{left: 1 << 15}, false}
	if _, err := tree.Receive(t.Context(), tree.Target{Line: line, Top: into, Mask: 0o777,
		Trouble: func(x tree.Trouble) error { return fmt.Errorf("%s", x.Why) }}); err == nil || !strings.Contains(err.Error(), "some of them at a time") {
		t.Errorf("%v", err)
	}
}

// first says the top before all else.
type first struct {
	again
	said bool
}

func (f *first) Next() (pipe.FrameKind, []byte, error) {
	if !f.said {
		f.said = true
		return top.kind, []byte(top.data), nil
	}
	return f.again.Next()
}
