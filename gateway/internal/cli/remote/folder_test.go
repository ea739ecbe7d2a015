package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/pty"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/cli/remote/standin"
)

// woods is a node with folders below dir, in the place of its own root.
type woods struct {
	dir    string
	refuse string // why a file is not read
	cut    int    // content frames after which the session ends; 0: it does not
}

// wood is one session of it.
type wood struct {
	*standin.Session
	frames *pipe.Frames
	left   int // -1: without end
}

func (w *wood) Send(kind pipe.FrameKind, data []byte) error {
	if kind == pipe.FrameOutput {
		if w.left == 0 {
			w.End("the node went away")
		}
		w.left--
	}
	return pipe.WriteFrame(w.Main, kind, data)
}

func (w *wood) Next() (pipe.FrameKind, []byte, error) {
	kind, data, err := w.frames.Next()
	if kind == pipe.FrameInput && err == nil {
		if w.left == 0 {
			w.End("the node went away")
		}
		w.left--
	}
	return kind, data, err
}

func (w *wood) trouble(t tree.Trouble) error { return pipe.WriteJSON(w.Main, pipe.FrameTrouble, t) }

func (n *woods) play(s *standin.Session) {
	var p wire.CopyParams
	_ = json.Unmarshal(s.Params, &p)
	w := &wood{Session: s, frames: pipe.NewFrames(s.Main), left: n.cut}
	if n.cut == 0 {
		w.left = -1
	}
	exit := n.work(w, p)
	_ = pipe.WriteJSON(s.Main, pipe.FrameExit, exit)
	_ = s.Main.CloseWrite()
}

func (n *woods) work(w *wood, p wire.CopyParams) (exit pipe.Exit) {
	path := filepath.Join(n.dir, p.Path)
	info, err := os.Stat(path)
	if !p.Write && (err != nil || !info.IsDir()) {
		if err == nil && !p.Folder {
			file, _ := os.ReadFile(path)
			sends(file, whole(file))(w.Session)
			return exit
		}
		_ = pipe.WriteJSON(w.Main, pipe.FrameReady, pipe.Ready{})
		if err != nil {
			exit.Error = "there is no " + p.Path
		}
		return exit
	}
	if p.Write {
		top, err := tree.Open(path, p.Name, p.Origin, tree.Owner{UID: os.Geteuid(), Lock: func(*os.File) (func(), error) { return func() {}, nil }})
		if err != nil {
			_ = pipe.WriteJSON(w.Main, pipe.FrameReady, pipe.Ready{})
			return pipe.Exit{Code: 1, Error: err.Error()}
		}
		defer top.Close()
		_ = pipe.WriteJSON(w.Main, pipe.FrameReady, pipe.Ready{Folder: true, Directory: strings.TrimPrefix(top.Path, n.dir)})
		_, err = tree.Receive(context.Background(), tree.Target{Line: w, Top: top, Mask: 0o777, Trouble: w.trouble})
		return ended(err)
	}
	_ = pipe.WriteJSON(w.Main, pipe.FrameReady, pipe.Ready{Folder: true})
	root, err := os.OpenRoot(path)
	if err != nil {
		return ended(err)
	}
	defer root.Close()
	refuse := func(file *os.File) error {
		if n.refuse != "" && filepath.Base(file.Name()) == "shut" {
			return errors.New(n.refuse)
		}
		return nil
	}
	_, err = tree.Send(context.Background(), tree.Source{Line: w, Content: pipe.FrameOutput, Root: root, Trouble: w.trouble, Refuse: refuse})
	return ended(err)
}

func ended(err error) pipe.Exit {
	if err != nil {
		return pipe.Exit{Code: 1, Error: err.Error()}
	}
	return pipe.Exit{}
}

const (
	large  = 6 << 20 // bytes: 96 frames, of which up to 24 are on their way at once
	middle = 56      // a copy that is cut after so many frames has more than that before it and behind it
)

// grove is a folder with some files, one of them large.
func grove(t *testing.T, dir string) string {
	t.Helper()
	for name, data := range map[string][]byte{"a": words(10), "deep/er/b": words(20), "deep/shut": words(30), "large": words(large)} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func alike(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"a", "deep/er/b", "deep/shut", "large"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		is(t, filepath.Join(to, name), data, 0o640)
	}
}

// TestFolderDownload: a folder goes where cp -r puts it. A second time nothing is sent.
func TestFolderDownload(t *testing.T) {
	node := &woods{dir: t.TempDir()}
	from := grove(t, filepath.Join(node.dir, "srv/work"))
	h := newTunnels(t, node.play)
	here := t.TempDir()
	for _, c := range []struct{ path, local, at string }{
		{"/srv/work", ".", "work"}, {"/srv/work/", "./", "work"}, {"/srv/work", "new", "new"}, {"/srv/work/.", "flat", "flat"},
		{"/srv/work", "flat", "flat/work"},
	} {
		said := h.done("node", "cp", "-r", "gpu-1:"+c.path, here+"/"+c.local, "--user", "ada")
		if !strings.Contains(said, filepath.Join(here, c.at)+": 4 files") {
			t.Errorf("%+v: %s", c, said)
		}
		alike(t, from, filepath.Join(here, c.at))
		var p wire.CopyParams
		if h.params(&p); !p.Folder || p.Write || p.User != "ada" || p.Path != c.path {
			t.Errorf("%+v", p)
		}
	}
	if said := h.done("node", "cp", "-r", "gpu-1:/srv/work", here); !strings.Contains(said, "4 files, 0 bytes copied; 4 were there already") {
		t.Error(said)
	}
	if said := h.done("node", "cp", "--recursive", "gpu-1:/srv/work/a", here); !strings.Contains(said, "SHA-256") { // a file goes as a file
		t.Error(said)
	}
}

func TestFolderUpload(t *testing.T) {
	node := &woods{dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(node.dir, "srv"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := newTunnels(t, node.play)
	from := grove(t, filepath.Join(t.TempDir(), "work"))
	for _, c := range []struct{ local, path, at string }{
		{from, "/srv", "/srv/work"}, {from + "/", "/srv/", "/srv/work"}, {from, "/srv/new", "/srv/new"}, {from + "/.", "/srv/flat", "/srv/flat"},
	} {
		if said := h.done("node", "cp", "-r", c.local, "gpu-1:"+c.path); !strings.Contains(said, "gpu-1:"+c.at+": 4 files") {
			t.Errorf("%+v: %s", c, said)
		}
		alike(t, from, filepath.Join(node.dir, c.at))
	}
	if said := h.done("node", "cp", "-r", from, "gpu-1:/srv"); !strings.Contains(said, "4 files, 0 bytes copied; 4 were there already") {
		t.Error(said)
	}
	h.fails(1, "-r copies a folder", "node", "cp", from, "gpu-1:/srv")
	h.fails(1, "no such file", "node", "cp", "-r", from+"/none", "gpu-1:/srv")
	h.fails(1, "is no folder: a file", "node", "cp", "-r", from, "gpu-1:/srv/work/a")
}

// TestFolderOn: the same command goes on after a session that ended in the middle, in both directions.
func TestFolderOn(t *testing.T) {
	node := &woods{dir: t.TempDir(), cut: middle}
	from := grove(t, filepath.Join(node.dir, "srv/work"))
	h := newTunnels(t, node.play)
	to := filepath.Join(t.TempDir(), "new")
	for _, args := range [][]string{{"gpu-1:/srv/work", to}, {from, "gpu-1:/srv/new"}} {
		args = append([]string{"node", "cp", "-r"}, args...)
		node.cut = middle
		h.fails(1, "the node went away", args...)
		h.gateway.Wait() // the next copy would find the folder in use
		node.cut = 0
		said := h.done(args...)
		var sent int64
		_, err := fmt.Sscanf(said[strings.LastIndex(said, "files, "):], "files, %d bytes", &sent)
		if err != nil || sent == 0 || sent > large-20*pipe.MaxFrame {
			t.Errorf("%v: %s", err, said)
		}
	}
	alike(t, from, to)
	alike(t, from, filepath.Join(node.dir, "srv/new"))
	if parts, err := filepath.Glob(filepath.Join(filepath.Dir(to), ".muster-*")); err != nil || len(parts) > 0 {
		t.Errorf("left behind: %q, %v", parts, err)
	}
}

// TestFolderTroubles: what is not copied is named, on either side, and all else is there.
func TestFolderTroubles(t *testing.T) {
	node := &woods{dir: t.TempDir(), refuse: "permission denied\x1b[2J"}
	from := grove(t, filepath.Join(node.dir, "work"))
	if err := syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newTunnels(t, node.play)
	to := t.TempDir()
	code, stderr := h.run(t.Context(), io.Discard, "node", "cp", "-r", "gpu-1:/work", to)
	for _, want := range []string{"left out: pipe: it is a pipe", `not copied: deep/shut: permission denied\x1b[2J`, "1 could not be copied"} {
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%d without %q\n%s", code, want, stderr)
		}
	}
	is(t, filepath.Join(to, "work/large"), words(large), 0o640)

	if err := os.MkdirAll(filepath.Join(node.dir, "there/work/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, stderr = h.run(t.Context(), io.Discard, "node", "cp", "-r", from, "gpu-1:/there")
	for _, want := range []string{
		"left out: pipe: it is a pipe", "not copied: a: something else is in its place: a folder", "1 could not be copied",
	} {
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%d without %q\n%s", code, want, stderr)
		}
	}
}

// TestFolderMany: not every trouble of a hostile node fills the screen.
func TestFolderMany(t *testing.T) {
	h := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true})
		for i := range 1000 {
			_ = pipe.WriteJSON(s.Main, pipe.FrameTrouble, tree.Trouble{Path: fmt.Append(nil, i), Why: "no"})
		}
		_ = pipe.WriteJSON(s.Main, pipe.FrameEntry, tree.Entry{Path: []byte("."), Kind: tree.Folder})
		_ = pipe.WriteFrame(s.Main, pipe.FrameInputEnd, nil)
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 1})
	})
	code, stderr := h.run(t.Context(), io.Discard, "node", "cp", "-r", "gpu-1:/work", t.TempDir())
	if code != 1 || strings.Count(stderr, "\n") > 60 || !strings.Contains(stderr, "and 950 more") || !strings.Contains(stderr, "1000 could not") {
		t.Errorf("%d\n%s", code, stderr)
	}
}

// TestFolderFails: what the node says of the end is the reason, and agents that know no folders are to be updated.
func TestFolderFails(t *testing.T) {
	to := t.TempDir()
	none := &woods{dir: t.TempDir()}
	newTunnels(t, none.play).fails(1, "there is no /none", "node", "cp", "-r", "gpu-1:/none", to)
	old := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameRefused, wire.SessionRefused{Code: wire.CodeTaskParamsInvalid,
			Message: `the params are not those of session.copy: key "folder" is unknown, stands twice or has half a character`})
	})
	old.fails(1, "is too old to copy a folder", "node", "cp", "-r", "gpu-1:/work", to)
	early := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true})
		_ = pipe.WriteJSON(s.Main, pipe.FrameEntry, tree.Entry{Path: []byte("."), Kind: tree.Folder})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{})
	})
	early.fails(1, "ended the copy before its end", "node", "cp", "-r", "gpu-1:/work", to)
	hostile := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true})
		_ = pipe.WriteJSON(s.Main, pipe.FrameEntry, tree.Entry{Path: []byte("."), Kind: tree.Folder})
		_ = pipe.WriteJSON(s.Main, pipe.FrameEntry, tree.Entry{Path: []byte("../../x"), Kind: tree.Folder})
	})
	hostile.fails(1, "leads out of the folder", "node", "cp", "-r", "gpu-1:/work", to)
	if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	full := newTunnels(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true, Directory: "/srv/work"})
		_, _, _ = pipe.NewFrames(s.Main).Next()
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 1, Error: "the disk of the node has no room"})
	})
	full.fails(1, "the disk of the node has no room", "node", "cp", "-r", grove(t, filepath.Join(t.TempDir(), "work")), "gpu-1:/srv")
}

// TestFolderShown: a terminal shows how far the copy is, and what is printed meanwhile stands on a line of its own.
func TestFolderShown(t *testing.T) {
	node := &woods{dir: t.TempDir()}
	from := grove(t, filepath.Join(node.dir, "work"))
	if err := syscall.Mkfifo(filepath.Join(from, "deep/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	pair, err := pty.Open(100, 24)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pair.Close)
	h := newTunnels(t, node.play)
	code := cli.Run(t.Context(), cli.Env{Args: []string{"--data", h.dir, "node", "cp", "-r", "gpu-1:/work", t.TempDir()},
		Getenv: func(string) string { return "" }, Stdin: h.stdin, Stdout: io.Discard, Stderr: pair.Program,
		Screen: func() int { return 100 }}, remote.TunnelCommands())
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	for deadline := time.After(time.Minute); ; {
		said, news := pair.Said()
		far := regexp.MustCompile(`\r\x1b\[K\d files?  \d\.\d MiB  gpu-1:/work\r`).MatchString(said)
		if far && strings.Contains(said, "muster: left out: deep/pipe: it is a pipe\r\n") {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("%q", said)
		}
	}
}
