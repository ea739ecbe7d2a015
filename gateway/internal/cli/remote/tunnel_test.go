package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/remote"
	"muster/gateway/internal/cli/remote/standin"
	"muster/gateway/internal/client"
)

// tunnels is a gateway in small, with a node in small, that commands are run on.
type tunnels struct {
	t       *testing.T
	gateway *standin.Gateway
	dir     string
	stdin   io.Reader
	env     map[string]string // nil: the data directory is given by a flag
}

func newTunnels(t *testing.T, play func(*standin.Session)) *tunnels {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	h := &tunnels{t: t, gateway: &standin.Gateway{Play: play}, dir: dir, stdin: strings.NewReader("")}
	server := &http.Server{Handler: h.gateway}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-done
		h.gateway.EndAll("the test is over")
		h.gateway.Wait() // it may work in the test's folders
		os.RemoveAll(dir)
	})
	return h
}

// run runs a command line with an output of its own.
func (h *tunnels) run(ctx context.Context, stdout io.Writer, args ...string) (code int, stderr string) {
	h.t.Helper()
	var errs shownLines
	if h.env == nil {
		args = append([]string{"--data", h.dir}, args...)
	}
	code = cli.Run(ctx, cli.Env{Args: args, Getenv: func(name string) string { return h.env[name] }, Stdin: h.stdin,
		Stdout: stdout, Stderr: &errs, Screen: func() int { return 0 }}, remote.TunnelCommands())
	return code, errs.text()
}

// done runs a command that must succeed.
func (h *tunnels) done(args ...string) string {
	h.t.Helper()
	var out bytes.Buffer
	if code, stderr := h.run(h.t.Context(), &out, args...); code != 0 {
		h.t.Fatalf("%q ended with %d\n%s", args, code, stderr)
	}
	return out.String()
}

// fails runs a command that must fail, with these words.
func (h *tunnels) fails(code int, want string, args ...string) {
	h.t.Helper()
	got, stderr := h.run(h.t.Context(), io.Discard, args...)
	if got != code || !strings.Contains(stderr, want) {
		h.t.Errorf("%q ended with %d\n%s", args, got, stderr)
	}
}

// params are those of the last session that was asked for.
func (h *tunnels) params(into any) {
	h.t.Helper()
	asked := h.gateway.Asked()
	if len(asked) == 0 {
		h.t.Fatal("no session was asked for")
	}
	if err := json.Unmarshal(asked[len(asked)-1].Params, into); err != nil {
		h.t.Fatal(err)
	}
}

// shownLines is what several goroutines write.
type shownLines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *shownLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *shownLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func words(n int) []byte { return bytes.Repeat([]byte("some words\n"), n)[:n] }

// sends is a node that sends this file.
func sends(file []byte, exit pipe.Exit) func(*standin.Session) {
	return func(s *standin.Session) {
		var p wire.CopyParams
		_ = json.Unmarshal(s.Params, &p)
		offset := p.Offset
		if int64(len(file)) < offset || sumOf(file[:offset]) != p.SHA256 {
			offset = 0
		}
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Size: int64(len(file)), Mode: 0o640, Offset: offset})
		for rest := file[offset:]; len(rest) > 0; {
			n := min(len(rest), pipe.MaxFrame)
			_ = pipe.WriteFrame(s.Main, pipe.FrameOutput, rest[:n])
			rest = rest[n:]
		}
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, exit)
		_ = s.Main.CloseWrite()
	}
}

func whole(file []byte) pipe.Exit { return pipe.Exit{SHA256: sumOf(file), Bytes: int64(len(file))} }

func is(t *testing.T, path string, want []byte, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, not %d, %v", path, len(got), len(want), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: %v, %v", path, info, err)
	}
	if _, err := os.Stat(path + ".part"); err == nil {
		t.Errorf("a part of %s is left", path)
	}
}

func TestDownload(t *testing.T) {
	for _, size := range []int{0, 1, 3 << 20} {
		file := words(size)
		h := newTunnels(t, sends(file, whole(file)))
		dir := t.TempDir()
		if said := h.done("node", "cp", "gpu-1:/var/log/f", dir, "--user", "ada"); !strings.Contains(said, sumOf(file)) {
			t.Error(said)
		}
		is(t, filepath.Join(dir, "f"), file, 0o640)
		var p wire.CopyParams
		if h.params(&p); p.User != "ada" || p.Path != "/var/log/f" || p.Write || p.Offset != 0 {
			t.Errorf("%+v", p)
		}
	}
}

// TestCopyWaits: a node that takes its time is waited for, and a line says so.
func TestCopyWaits(t *testing.T) {
	h := newHouse(t, nil)
	h.pause = func(context.Context, time.Duration) error { return nil }
	var out, errs safe
	code := make(chan int)
	go func() {
		code <- cli.Run(t.Context(), h.environment([]string{"node", "cp", "gpu-1:/f", t.TempDir()}, &out, &errs), remote.TunnelCommands())
	}()
	for !strings.Contains(errs.String(), "waiting for gpu-1; ^C gives up") {
		<-time.After(time.Millisecond)
	}
	h.gateway.EndAll("the node did not take it")
	if code := <-code; code != 1 || !strings.Contains(errs.String(), "the node did not take it") {
		t.Errorf("code %d: %q", code, errs.String())
	}
}

// TestDownloadOn: a copy that was cut goes on, where the node has the same file still.
func TestDownloadOn(t *testing.T) {
	file := words(300_000)
	for name, part := range map[string][]byte{"the beginning": file[:100_000], "all": file, "of another file": make([]byte, 1000)} {
		h := newTunnels(t, sends(file, whole(file)))
		to := filepath.Join(t.TempDir(), "g")
		if err := os.WriteFile(to+".part", part, 0o600); err != nil {
			t.Fatal(err)
		}
		h.done("node", "cp", "gpu-1:/f", to)
		is(t, to, file, 0o640)
		var p wire.CopyParams
		if h.params(&p); p.Offset != int64(len(part)) || p.SHA256 != sumOf(part) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestDownloadFails: the target is as it was, and what can be used again stays.
func TestDownloadFails(t *testing.T) {
	file := words(1000)
	folder := func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{})
	}
	none := func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{})
		_ = pipe.WriteJSON(s.Main, pipe.FrameExit, pipe.Exit{Code: 1, Error: "there is no /f"})
	}
	refused := func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameRefused, wire.SessionRefused{Code: wire.CodeTaskForbidden, Message: "the policy says no"})
	}
	cut := func(s *standin.Session) {
		sends(file, pipe.Exit{Code: 1, Error: "the disk broke"})(s)
	}
	more := func(size int64) func(*standin.Session) {
		return func(s *standin.Session) {
			_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Size: size, Mode: 0o640})
			for pipe.WriteFrame(s.Main, pipe.FrameOutput, file) == nil {
			}
		}
	}
	for name, c := range map[string]struct {
		play func(*standin.Session)
		want string
		part int64 // bytes that stay; -1: no file
	}{
		"more than it said":      {more(2500), "more than 2500 bytes", -1},
		"endless, of no size":    {more(0), "more than 67108864 bytes", -1},
		"more than the disk has": {more(1 << 60), "make room", -1},
		"a folder":               {folder, "-r copies a folder", -1},
		"no file":                {none, "there is no /f", -1},
		"refused":                {refused, "the policy says no", -1},
		"cut":                    {cut, "the disk broke", 1000},
		"other bytes":            {sends(file, whole(words(1001))), "its SHA-256 is another one", -1},
	} {
		h := newTunnels(t, c.play)
		to := filepath.Join(t.TempDir(), "g")
		if err := os.WriteFile(to, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.fails(1, c.want, "node", "cp", "gpu-1:/f", to)
		if got, err := os.ReadFile(to); err != nil || string(got) != "before" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		size := int64(-1)
		if info, err := os.Stat(to + ".part"); err == nil {
			size = info.Size()
		}
		if size != c.part {
			t.Errorf("%s: the part has %d bytes, not %d", name, size, c.part)
		}
	}
}

// TestDownloadPlanted: a link in the place of the part is not followed.
func TestDownloadPlanted(t *testing.T) {
	file := words(10)
	h := newTunnels(t, sends(file, whole(file)))
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "g.part")); err != nil {
		t.Fatal(err)
	}
	h.fails(1, "is in the way", "node", "cp", "gpu-1:/f", filepath.Join(dir, "g"))
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// taker is a node that takes a file.
type taker struct {
	folders map[string]bool
	has     int64
	fails   string // before the first byte

	mu  sync.Mutex
	got []byte
}

func (n *taker) play(s *standin.Session) {
	var p wire.CopyParams
	_ = json.Unmarshal(s.Params, &p)
	_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Offset: n.has, Folder: n.folders[p.Path]})
	exit := pipe.Exit{Error: n.fails, Bytes: p.Size, SHA256: p.SHA256}
	if n.fails == "" && !n.folders[p.Path] {
		n.mu.Lock()
		n.got = take(s)
		n.mu.Unlock()
	}
	_ = pipe.WriteJSON(s.Main, pipe.FrameExit, exit)
}

func take(s *standin.Session) (got []byte) {
	frames := pipe.NewFrames(s.Main)
	for {
		kind, data, err := frames.Next()
		if err != nil || kind == pipe.FrameInputEnd {
			return got
		}
		if kind == pipe.FrameInput {
			got = append(got, data...)
		}
	}
}

func TestUpload(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		has  int64
		to   string
		path string
	}{
		"nothing": {0, 0, "/srv/g", "/srv/g"}, "a byte": {1, 0, "/srv/g", "/srv/g"}, "much": {3 << 20, 0, "/srv/g", "/srv/g"},
		"the rest": {300_000, 100_000, "/srv/g", "/srv/g"}, "into a folder": {1, 0, "/srv/", "/srv/f"},
		"a folder by itself": {1, 0, "/srv", "/srv/f"},
		"all is there":       {1000, 1000, "/srv/g", "/srv/g"},
	} {
		file := words(c.size)
		node := &taker{has: c.has, folders: map[string]bool{"/srv": true}}
		h := newTunnels(t, node.play)
		from := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(from, file, 0o640); err != nil {
			t.Fatal(err)
		}
		if said := h.done("node", "cp", from, "gpu-1:"+c.to); !strings.Contains(said, "gpu-1:"+c.path) || !strings.Contains(said, sumOf(file)) {
			t.Errorf("%s: %s", name, said)
		}
		var p wire.CopyParams
		h.params(&p)
		if p.Path != c.path || !p.Write || p.Mode != 0o640 || p.Size != int64(c.size) || p.SHA256 != sumOf(file) {
			t.Errorf("%s: %+v", name, p)
		}
		if !bytes.Equal(node.got, file[c.has:]) {
			t.Errorf("%s: %d bytes came", name, len(node.got))
		}
	}
}

// TestUploadSeveral: several files go into one folder.
func TestUploadSeveral(t *testing.T) {
	h := newTunnels(t, (&taker{folders: map[string]bool{"/srv": true}}).play)
	dir := t.TempDir()
	args := []string{"node", "cp"}
	for _, name := range []string{"a.py", "b.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(dir, name))
	}
	said := h.done(append(args, "gpu-1:/srv/")...)
	if !strings.Contains(said, "gpu-1:/srv/a.py: 0 bytes") || !strings.Contains(said, "gpu-1:/srv/b.py: 0 bytes") {
		t.Errorf("got %s", said)
	}
}

func TestUploadFails(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "f")
	if err := os.WriteFile(from, words(3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	full := &taker{fails: "the disk of the node has no room"}
	newTunnels(t, full.play).fails(1, "no room", "node", "cp", from, "gpu-1:/f")
	ahead := &taker{has: 4 << 20}
	newTunnels(t, ahead.play).fails(1, "more than the file", "node", "cp", from, "gpu-1:/f")
	folders := &taker{folders: map[string]bool{"/srv": true, "/srv/f": true}}
	newTunnels(t, folders.play).fails(1, "is a folder on the node", "node", "cp", from, "gpu-1:/srv")
	nobody := newTunnels(t, nil)
	nobody.fails(1, "-r copies a folder", "node", "cp", dir, "gpu-1:/srv")
	nobody.fails(1, "is no file", "node", "cp", "/dev/null", "gpu-1:/srv/f")
	nobody.fails(1, "no such file", "node", "cp", filepath.Join(dir, "none"), "gpu-1:/srv/f")
}

func TestCopyWords(t *testing.T) {
	h := newTunnels(t, nil)
	for _, args := range [][]string{{"gpu-1:/a", "gpu-2:/b"}, {"a", "b"}, {"./a:b", "c"}, {"/a:b", "c"}, {":a", "b"}} {
		h.fails(2, "one of the two is NAME:PATH", append([]string{"node", "cp"}, args...)...)
	}
	h.fails(2, "one of the two is NAME:PATH", "node", "cp", "a", "gpu-1:/b", "gpu-1:/c/")
	h.fails(2, "end the target with a slash", "node", "cp", "a", "b", "gpu-1:/srv")
	h.fails(2, "end the target with a slash", "node", "cp", "gpu-1:/a", "gpu-1:/b", filepath.Join(t.TempDir(), "none"))
	h.fails(2, "one folder at a time", "node", "cp", "-r", "a", "b", "gpu-1:/srv/")
	h.fails(2, "is not absolute", "node", "cp", "gpu-1:a", "b")
	latin := filepath.Join(t.TempDir(), "lat\xe9")
	if err := os.WriteFile(latin, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"gpu-1:/lat\xe9", latin}, {latin, "gpu-1:/srv/lat\xe9"}, {latin, "gpu-1:/srv/"}} {
		h.fails(2, `is not UTF-8`, append([]string{"node", "cp"}, args...)...)
	}
	h.fails(2, "muster exec gpu-1 -- cat /a\n", "node", "cp", "gpu-1:/a", "-")
	h.fails(2, "muster exec gpu-1 -- sh -c 'cat > /srv/a'\n", "node", "cp", "-", "gpu-1:/srv/a")
	h.fails(2, "muster exec gpu-1 -- cat /a\n", "node", "cp", "-r", "gpu-1:/a", "-")
	if asked := h.gateway.Asked(); len(asked) > 0 {
		t.Errorf("a node was asked for %s", asked[0].Params)
	}
	h.fails(1, "there is no folder", "node", "cp", "gpu-1:/a", filepath.Join(t.TempDir(), "none")+"/")
	h.fails(1, "is there and is no file", "node", "cp", "gpu-1:/a", "/dev/null")
	got := t.TempDir()
	if err := os.Mkdir(filepath.Join(got, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.fails(1, "if /srv/work is a folder too, -r copies it", "node", "cp", "gpu-1:/srv/work", got)
}
