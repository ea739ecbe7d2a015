package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/account"
	"muster/agent/pipe"
	"muster/agent/pipe/tree"
	"muster/agent/wire"
)

// far is the operator's end of the copy of a folder.
type far struct {
	*operator
	told []tree.Trouble
	exit chan pipe.Exit
}

func startFolder(t *testing.T, p wire.CopyParams, who account.Login, all *copies) *far {
	t.Helper()
	p.Folder = true
	return &far{operator: startBeside(t, p, who, all), exit: make(chan pipe.Exit, 1)}
}

// Send is of tree.Line.
func (f *far) Send(kind pipe.FrameKind, data []byte) error {
	return pipe.WriteFrame(f.main, kind, data)
}

// Next is of tree.Line.
func (f *far) Next() (pipe.FrameKind, []byte, error) {
	for {
		kind, data, err := f.frames.Next()
		var t tree.Trouble
		if kind != pipe.FrameTrouble || err != nil || json.Unmarshal(data, &t) != nil {
			return kind, data, err
		}
		f.told = append(f.told, t)
	}
}

// fetch receives the folder that the node sends.
func (f *far) fetch(to string) (tree.Count, pipe.Exit, error) {
	f.t.Helper()
	top, err := tree.Open(to, "", "", tree.Owner{UID: os.Geteuid(), Lock: func(*os.File) (func(), error) { return func() {}, nil }})
	if err != nil {
		f.t.Fatal(err)
	}
	defer top.Close()
	count, err := tree.Receive(f.t.Context(), tree.Target{Line: f, Top: top, Mask: 0o777, Trouble: func(t tree.Trouble) error {
		f.told = append(f.told, t)
		return nil
	}})
	return count, f.end(), err
}

// give sends a folder to the node.
func (f *far) give(from string) (tree.Count, pipe.Exit, error) {
	f.t.Helper()
	root, err := os.OpenRoot(from)
	if err != nil {
		f.t.Fatal(err)
	}
	defer root.Close()
	count, err := tree.Send(f.t.Context(), tree.Source{Line: f, Content: pipe.FrameInput, Root: root,
		Trouble: func(tree.Trouble) error { return errors.New("it cannot be read") }})
	return count, f.end(), err
}

func (f *far) whys() string {
	var all []string
	for _, t := range f.told {
		all = append(all, fmt.Sprintf("%s: %s", t.Path, t.Why))
	}
	return strings.Join(all, "\n")
}

func some(t *testing.T, files int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	for i := range files {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(i%3)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, fmt.Sprint(i%3), fmt.Sprint(i)), text(1000*i), 0o640)
	}
	return dir
}

func TestFolderRead(t *testing.T) {
	from := some(t, 100)
	to := filepath.Join(t.TempDir(), "to")
	for _, same := range []int{0, 100} {
		f := startFolder(t, wire.CopyParams{Path: from}, me(), new(copies))
		count, exit, err := f.fetch(to)
		if err != nil || count.Files != 100 || count.Same != same || exit != (pipe.Exit{Bytes: count.Bytes}) || !f.ready.Folder {
			t.Errorf("%+v, %+v, %v", count, exit, err)
		}
	}
	is(t, filepath.Join(to, "0", "99"), text(99_000), 0o640)
}

func TestFolderWrite(t *testing.T) {
	from := some(t, 100)
	for to, want := range map[string]string{t.TempDir(): "work", filepath.Join(t.TempDir(), "new"): ""} {
		f := startFolder(t, wire.CopyParams{Path: to, Write: true, Name: "work"}, me(), new(copies))
		count, exit, err := f.give(from)
		if err != nil || count.Files != 100 || exit.Code != 0 || exit.Error != "" || exit.Bytes != count.Bytes {
			t.Errorf("%+v, %+v, %v", count, exit, err)
		}
		if !f.ready.Folder || f.ready.Directory != filepath.Join(to, want) {
			t.Errorf("%+v", f.ready)
		}
		is(t, filepath.Join(to, want, "0", "99"), text(99_000), 0o640)
	}
}

// TestFolderNone: the operator hears of what is no folder, and that nothing was copied.
func TestFolderNone(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "f"), text(5), 0o600)
	for _, c := range []struct {
		params wire.CopyParams
		error  string
	}{
		{wire.CopyParams{Path: path}, ""},
		{wire.CopyParams{Path: filepath.Join(dir, "none")}, "there is no " + dir},
		{wire.CopyParams{Path: filepath.Join(dir, "none", "d"), Write: true}, "there is no folder " + filepath.Join(dir, "none") + " on the node"},
		{wire.CopyParams{Path: path, Write: true, Name: "work"}, "is no folder: a file"},
	} {
		f := startFolder(t, c.params, me(), new(copies))
		exit := f.end()
		if f.ready.Folder || !strings.Contains(exit.Error, c.error) || (c.error == "") != (exit.Error == "") {
			t.Errorf("%+v: %+v, %+v", c.params, f.ready, exit)
		}
	}
}

// TestFolderAs: the rights of the user count for each file, and what the user may not read is named.
func TestFolderAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can take the rights of another user")
	}
	ada := account.Login{Name: "ada", UID: 54321, GID: 54322}
	dir, err := os.MkdirTemp("", "folder")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	put(t, filepath.Join(dir, "open"), text(5), 0o644)
	put(t, filepath.Join(dir, "secret"), text(5), 0o600)
	if err := os.Mkdir(filepath.Join(dir, "shut"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := startFolder(t, wire.CopyParams{Path: dir}, ada, new(copies))
	to := filepath.Join(t.TempDir(), "to")
	count, exit, err := f.fetch(to)
	if err != nil || count.Files != 1 || exit.Code != 1 || exit.Error != "" {
		t.Errorf("%+v, %+v, %v", count, exit, err)
	}
	if told := f.whys(); !strings.Contains(told, "secret: permission denied") || !strings.Contains(told, "shut: permission denied") {
		t.Errorf("told: %s", told)
	}
	f = startFolder(t, wire.CopyParams{Path: filepath.Join(dir, "new"), Write: true}, ada, new(copies))
	if exit := f.end(); !strings.Contains(exit.Error, "may not do that") {
		t.Errorf("into root's folder: %+v", exit)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f = startFolder(t, wire.CopyParams{Path: filepath.Join(dir, "new"), Write: true}, ada, new(copies))
	if _, exit, err := f.give(to); err != nil || exit.Error != "" || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	for _, name := range []string{"new", "new/open", "new/shut"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != 54321 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestFolderOfAgent: what the kernel tells of the agent alone does not go with a folder either.
func TestFolderOfAgent(t *testing.T) {
	f := startFolder(t, wire.CopyParams{Path: "/proc/self/net"}, me(), new(copies))
	count, exit, err := f.fetch(filepath.Join(t.TempDir(), "to"))
	if err != nil || count.Files != 0 || exit.Code != 1 || !strings.Contains(f.whys(), "belongs to the agent itself") {
		t.Errorf("%+v, %+v, %v, %.300s", count, exit, err, f.whys())
	}
}

// TestFolderTakenOver: the copy of a folder whose operator was killed gives way to the next one, which goes on where it ended.
func TestFolderTakenOver(t *testing.T) {
	from := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	data := text(300_000)
	put(t, filepath.Join(from, "f"), data, 0o644)
	info, err := os.Stat(filepath.Join(from, "f"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "new")
		all := new(copies)
		p := wire.CopyParams{Path: to, Write: true, Name: "work"}
		first := startFolder(t, p, me(), all)
		first.say(pipe.FrameEntry, tree.Entry{Path: []byte("."), Kind: tree.Folder, Mode: 0o755})
		first.say(pipe.FrameEntry, tree.Entry{Path: []byte("f"), Kind: tree.File, Mode: 0o644, Size: info.Size(), Time: info.ModTime().UnixMicro()})
		first.send(data[:100_000])
		time.Sleep(time.Second)
		second := startFolder(t, p, me(), all)
		if r := <-first.done; !errors.Is(r.err, errTaken) {
			t.Errorf("the first one ended with %+v", r)
		}
		count, exit, err := second.give(from)
		if err != nil || exit.Error != "" || exit.Code != 0 || count.Bytes != 200_000 {
			t.Errorf("%+v, %+v, %v", count, exit, err)
		}
		is(t, filepath.Join(to, "f"), data, 0o644)
		if len(all.all) > 0 {
			t.Errorf("%d copies are known still", len(all.all))
		}
	})
}

func (f *far) say(kind pipe.FrameKind, value any) {
	f.t.Helper()
	if err := pipe.WriteJSON(f.main, kind, value); err != nil {
		f.t.Fatal(err)
	}
}

// TestFolderLeft: the operator who leaves ends the copy.
func TestFolderLeft(t *testing.T) {
	f := startFolder(t, wire.CopyParams{Path: filepath.Join(t.TempDir(), "new"), Write: true}, me(), new(copies))
	if err := f.main.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := <-f.done; !errors.Is(r.err, io.EOF) {
		t.Errorf("%+v", r)
	}
}
