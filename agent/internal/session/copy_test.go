package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/account"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// cable is a gateway in small, as one of its ends sees it.
type cable struct {
	out, in func(channel int) *pipe.Room
}

func (c cable) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	return c.out(channel).Put(ctx, at, p)
}

func (c cable) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	p, err := c.in(channel).Get(ctx, at, wire.MaxPiece)
	if err == nil && len(p.Data) == 0 && !p.End {
		err = ctx.Err() // as a request that was given up
	}
	return p, err
}

// operator is the other end of a session, in a test.
type operator struct {
	t      *testing.T
	main   *pipe.End
	frames *pipe.Frames
	ready  pipe.Ready
	done   chan result
}

type result struct {
	exit pipe.Exit
	err  error
}

func me() account.Login { return account.Login{Name: "me", UID: os.Geteuid(), GID: os.Getegid()} }

// copying begins to copy, and waits until the node says so.
func startCopy(t *testing.T, p wire.CopyParams, who account.Login) *operator {
	t.Helper()
	return startBeside(t, p, who, new(copies))
}

// startBeside is startCopy in an agent with other copies.
func startBeside(t *testing.T, p wire.CopyParams, who account.Login, all *copies) *operator {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	there := pipe.NewRoom(wire.PipeRoom)
	back := pipe.NewRoom(wire.PipeRoom)
	up := func(int) *pipe.Room { return there }
	down := func(int) *pipe.Room { return back }
	node := pipe.Open(t.Context(), cable{down, up}, pipe.Main)
	o := &operator{t: t, main: pipe.Open(t.Context(), cable{up, down}, pipe.Main), done: make(chan result, 1)}
	o.frames = pipe.NewFrames(o.main)
	go func() {
		exit, err := copyFile(t.Context(), node, pipe.NewFrames(node), &p, who, all)
		_ = node.CloseWrite()
		o.done <- result{exit, err}
	}()
	kind, data, err := o.frames.Next()
	if err != nil || kind != pipe.FrameReady || json.Unmarshal(data, &o.ready) != nil {
		t.Fatalf("%c %s, %v", kind, data, err)
	}
	if o.ready.User != who.Name {
		t.Errorf("as %q", o.ready.User)
	}
	return o
}

// TestReadWaits: a file of the kernel may have nothing to say for ever. The end of the session ends the read.
func TestReadWaits(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c := &copying{ctx: ctx}
	defer c.release(from)()
	ended := make(chan error, 1)
	go func() {
		_, err := c.sendAll(from, sha256.New(), 0)
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	from.Close()
}

// read gives what the node sends until its end.
func (o *operator) read() (got []byte, exit pipe.Exit) {
	o.t.Helper()
	for {
		kind, data, err := o.frames.Next()
		if err != nil {
			break
		}
		if kind == pipe.FrameOutput {
			got = append(got, data...)
		}
	}
	return got, o.end()
}

func (o *operator) end() pipe.Exit {
	o.t.Helper()
	r := <-o.done
	if r.err != nil {
		o.t.Error(r.err)
	}
	return r.exit
}

// send sends bytes of the file.
func (o *operator) send(data []byte) {
	o.t.Helper()
	for len(data) > 0 {
		n := min(len(data), pipe.MaxFrame)
		if err := pipe.WriteFrame(o.main, pipe.FrameInput, data[:n]); err != nil {
			o.t.Fatal(err)
		}
		data = data[n:]
	}
}

func (o *operator) sendEnd() pipe.Exit {
	o.t.Helper()
	if err := pipe.WriteFrame(o.main, pipe.FrameInputEnd, nil); err != nil {
		o.t.Fatal(err)
	}
	return o.end()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func text(n int) []byte { return bytes.Repeat([]byte("some lines\n"), n)[:n] }

func put(t *testing.T, path string, data []byte, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCopyRead(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, pipe.MaxFrame, pipe.MaxFrame + 1, 3 << 20} {
		want := text(size)
		o := startCopy(t, wire.CopyParams{Path: put(t, filepath.Join(t.TempDir(), "f"), want, 0o640)}, me())
		got, exit := o.read()
		if !bytes.Equal(got, want) || exit.SHA256 != sumOf(want) || exit.Bytes != int64(size) || exit.Error != "" {
			t.Errorf("%d bytes of %d, %+v", len(got), size, exit)
		}
		if o.ready.Size != int64(size) || o.ready.Mode != 0o640 || o.ready.Offset != 0 || o.ready.Folder {
			t.Errorf("%+v", o.ready)
		}
	}
}

// TestCopyReadOn: what the operator has is sent again only if it is of another file.
func TestCopyReadOn(t *testing.T) {
	want := text(300_000)
	path := put(t, filepath.Join(t.TempDir(), "f"), want, 0o600)
	for name, c := range map[string]struct {
		has    []byte
		offset int64
	}{
		"the beginning": {want[:100_000], 100_000}, "all": {want, 300_000}, "another file": {make([]byte, 100_000), 0},
		"more than there is": {text(300_001), 0},
	} {
		o := startCopy(t, wire.CopyParams{Path: path, Offset: int64(len(c.has)), SHA256: sumOf(c.has)}, me())
		got, exit := o.read()
		if o.ready.Offset != c.offset || !bytes.Equal(got, want[c.offset:]) || exit.SHA256 != sumOf(want) || exit.Bytes != 300_000 {
			t.Errorf("%s: from %d on, %d bytes, %+v", name, o.ready.Offset, len(got), exit)
		}
	}
}

func TestCopyReadKernel(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Skip(err)
	}
	if got, exit := startCopy(t, wire.CopyParams{Path: "/proc/version"}, me()).read(); !bytes.Equal(got, want) || exit.Error != "" {
		t.Errorf("%q, %+v", got, exit)
	}
}

// anotherThread is the number of a thread of this process that is not its first.
func anotherThread(t *testing.T) string {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if thread.Name() != fmt.Sprint(os.Getpid()) {
			return thread.Name()
		}
	}
	t.Fatal("this process has one thread")
	return ""
}

// TestCopyReadOthers: what the kernel tells of another process can be copied. Through the file systems that another process sees, no way
// leads back to the agent.
func TestCopyReadOthers(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command("sh", "-c", "echo ok; exec sleep 600")
	if os.Geteuid() == 0 {
		other = exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
			"mount --bind /proc "+dir+" && mount --bind /proc/$PPID /proc/1 && echo ok && exec sleep 600")
	}
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	if n, err := out.Read(make([]byte, 3)); n != 3 {
		t.Skipf("NOT RUN: no file systems of its own can be given to a process here: %v", err)
	}
	base := fmt.Sprintf("/proc/%d", other.Process.Pid)
	if got, exit := startCopy(t, wire.CopyParams{Path: base + "/limits"}, me()).read(); len(got) == 0 || exit.Error != "" {
		t.Errorf("another process: %+v", exit)
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, path := range []string{fmt.Sprintf("%s/root%s/%d/environ", base, dir, os.Getpid()), base + "/root/proc/1/environ"} {
		if got, exit := startCopy(t, wire.CopyParams{Path: path}, me()).read(); len(got) > 0 || !strings.Contains(exit.Error, "belongs to the agent") {
			t.Errorf("%s: %d bytes, %+v", path, len(got), exit)
		}
	}
}

// TestCopyReadNone: what is no file is said to be none.
func TestCopyReadNone(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/proc/self/environ": "belongs to the agent itself", fmt.Sprintf("/proc/%d/maps", os.Getpid()): "belongs to the agent itself",
		"/proc/thread-self/environ": "belongs to the agent itself", "/proc/" + anotherThread(t) + "/environ": "belongs to the agent itself",
		"/proc/self/root/proc/self/environ": "belongs to the agent itself",
		fifo:                                "is no file: it is a pipe", "/dev/null": "is no file: it is a device", filepath.Join(dir, "none"): "there is no",
	} {
		got, exit := startCopy(t, wire.CopyParams{Path: path}, me()).read()
		if len(got) > 0 || exit.Code != 1 || !strings.Contains(exit.Error, want) {
			t.Errorf("%s: %+v", path, exit)
		}
	}
	o := startCopy(t, wire.CopyParams{Path: dir}, me())
	if got, exit := o.read(); !o.ready.Folder || len(got) > 0 || exit.Error != "" {
		t.Errorf("a folder: %+v, %+v", o.ready, exit)
	}
}

// TestCopyReadShorter: a file that is cut while it is read is no whole file.
func TestCopyReadShorter(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "f"), text(4<<20), 0o600)
	o := startCopy(t, wire.CopyParams{Path: path}, me()) // 4 MiB do not fit into the channel, so it is at the beginning still
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, exit := o.read(); !strings.Contains(exit.Error, "became shorter") {
		t.Errorf("%+v", exit)
	}
}

// TestCopyGone: the end of the operator ends the work.
func TestCopyGone(t *testing.T) {
	for _, p := range []wire.CopyParams{
		{Path: put(t, filepath.Join(t.TempDir(), "f"), text(4<<20), 0o600)},
		{Path: filepath.Join(t.TempDir(), "f"), Write: true, Size: 10, SHA256: sumOf(text(10))},
	} {
		o := startCopy(t, p, me())
		if err := o.main.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, _, err := o.frames.Next(); err != nil {
				break
			}
		}
		if r := <-o.done; r.err == nil || !strings.Contains(r.err.Error(), "the operator's side ended") {
			t.Errorf("%+v", r)
		}
	}
}
