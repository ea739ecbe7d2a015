package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"muster/agent/internal/account"
	"muster/agent/internal/child"
	"muster/agent/pipe"
	"muster/agent/pipe/tree"
	"muster/agent/wire"
)

// copying reads or writes a file or a folder. All work on it is done with the rights of its user and no others: a thread of this process
// gives its own away for that (child.As). A process of its own for each copy would carry every byte once more.
type copying struct {
	ctx    context.Context
	main   *pipe.End
	frames <-chan frame
	used   chan []byte // the memory of frames whose work is done
	params *wire.CopyParams
	who    account.Login // whose rights count
	cancel context.CancelCauseFunc
	all    *copies
	waits  atomic.Int64 // since when the operator has sent nothing, in Unix nanoseconds; 0: it is not waited for
}

// frame is one from the operator.
type frame struct {
	kind pipe.FrameKind
	data []byte
}

// copyFile reads or writes a file or a folder. What is wrong with the file stands in the Exit; an error ends the session early.
func copyFile(ctx context.Context, main *pipe.End, frames *pipe.Frames, p *wire.CopyParams, who account.Login,
	all *copies) (pipe.Exit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	used := make(chan []byte, mostFrames)
	c := &copying{ctx: ctx, main: main, frames: pump(ctx, frames, used, cancel), used: used, params: p, who: who, cancel: cancel,
		all: all}
	work := c.work()
	var exit pipe.Exit
	err := c.as(func() (err error) {
		exit, err = work()
		return err
	})
	var lost *channelError
	switch {
	case errors.As(err, &lost):
		return exit, lost.error
	case ctx.Err() != nil:
		return exit, context.Cause(ctx)
	case err != nil:
		exit = pipe.Exit{Code: 1, Error: c.explain(err)}
	}
	return exit, nil
}

func (c *copying) work() func() (pipe.Exit, error) {
	switch {
	case c.params.Folder && c.params.Write:
		return c.writeFolder
	case c.params.Folder:
		return c.readFolder
	case c.params.Write:
		return c.write
	}
	return c.read
}

// channelError is one of the session and not of the file.
type channelError struct{ error }

// mostFrames is how many frames of the operator wait for a slow disk.
const mostFrames = 8

// pump takes the operator's frames, so that the gateway hears from this end also while a disk is slow. The memory of a frame comes from
// used, where there is some. The end of the channel ends the work.
func pump(ctx context.Context, frames *pipe.Frames, used <-chan []byte, cancel context.CancelCauseFunc) <-chan frame {
	out := make(chan frame, mostFrames)
	go func() {
		for {
			kind, data, err := frames.Next()
			if err != nil {
				cancel(fmt.Errorf("the operator's side ended: %w", err))
				return
			}
			var memory []byte
			select {
			case memory = <-used:
			default:
			}
			select {
			case out <- frame{kind: kind, data: append(memory[:0], data...)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// as does work as the user.
func (c *copying) as(work func() error) error {
	if c.who.UID == os.Geteuid() {
		return work()
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the agent runs as an ordinary user, and cannot act as %s: leave --user out", c.who.Name)
	}
	return child.As(c.who.UID, c.who.GID, c.who.Groups, work)
}

// begin says that the session has begun. It is said also if the file turns out to be none: the node has done as it was asked.
func (c *copying) begin(r pipe.Ready) error {
	r.User = c.who.Name
	if err := pipe.WriteJSON(c.main, pipe.FrameReady, r); err != nil {
		return &channelError{err}
	}
	return nil
}

// read sends the file.
func (c *copying) read() (pipe.Exit, error) {
	file, info, err := openToRead(c.params.Path)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	defer file.Close()
	defer c.release(file)()
	if info.IsDir() {
		return pipe.Exit{}, c.begin(pipe.Ready{Folder: true})
	}
	sum := sha256.New()
	offset, err := c.resume(file, sum)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	if err := c.begin(pipe.Ready{Size: info.Size(), Mode: int(info.Mode().Perm()), Sparse: pipe.Sparse(info), Offset: offset}); err != nil {
		return pipe.Exit{}, err
	}
	sent, err := c.sendAll(file, sum, info.Size()-offset)
	if err == nil && offset+sent < info.Size() {
		err = fmt.Errorf("%s became shorter while it was read", c.params.Path)
	}
	return pipe.Exit{Bytes: offset + sent, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// release ends a read that waits, when the session ends. Some files of the kernel have more to say only later, such as /proc/kmsg.
func (c *copying) release(file *os.File) func() bool {
	return context.AfterFunc(c.ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
}

// openToRead opens what has bytes to read. It looks before it opens: to open a device can do something.
func openToRead(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := hasBytes(path, info); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err = file.Stat()
	if err == nil {
		err = errors.Join(hasBytes(path, info), notOurs(path, file)) // it may be another one by now
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func hasBytes(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	return fmt.Errorf("%s is no file: %s", path, tree.KindOf(info.Mode()))
}

// notOurs refuses what the kernel tells of the agent itself, such as its environment. A copy is made by a thread of the agent, as
// its user, and the kernel lets each thread read that of its own process.
func notOurs(path string, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var name string
	failed := raw.Control(func(fd uintptr) { name, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	var system syscall.Statfs_t
	failed = raw.Control(func(fd uintptr) { err = syscall.Fstatfs(int(fd), &system) })
	if err = errors.Join(failed, err); err != nil || system.Type != procMagic {
		return err
	}
	if of, found := processOf(name, file); !found || isOwn(of) {
		return fmt.Errorf("%s belongs to the agent itself, which copies it, or cannot be told from what does: read that of another process", path)
	}
	return nil
}

// procMagic is the type of the file system proc(5), as statfs(2) has it.
const procMagic = 0x9fa0

// processOf is the process or thread that a file of proc is about; empty: none. It reports false if the file has another name here: it
// was reached through the root of a process that sees other file systems.
func processOf(name string, file *os.File) (id string, found bool) {
	rest, below := strings.CutPrefix(name, "/proc/")
	here, err := os.Stat(name)
	opened, failed := file.Stat()
	if !below || err != nil || failed != nil || !os.SameFile(here, opened) {
		return "", false
	}
	id, _, _ = strings.Cut(rest, "/")
	return strings.TrimFunc(id, func(r rune) bool { return r < '0' || r > '9' }), true
}

// isOwn reports whether a number is that of a thread of the agent. Each has a folder of its own in proc, which no listing shows.
func isOwn(id string) bool {
	if id == "" {
		return false
	}
	_, err := os.Stat("/proc/self/task/" + id)
	return err == nil
}

// resume reads what the operator has already. It gives 0 where the operator has the beginning of another file.
func (c *copying) resume(file *os.File, sum hash.Hash) (int64, error) {
	if c.params.Offset == 0 {
		return 0, nil
	}
	n, err := io.Copy(sum, &readable{c.ctx, io.LimitReader(file, c.params.Offset)})
	if err != nil {
		return 0, err
	}
	if n == c.params.Offset && hex.EncodeToString(sum.Sum(nil)) == c.params.SHA256 {
		return n, nil
	}
	sum.Reset()
	_, err = file.Seek(0, io.SeekStart)
	return 0, err
}

// sendAll sends so many bytes of the file. Files of the kernel say that they have none: those are read to their end.
func (c *copying) sendAll(file *os.File, sum hash.Hash, size int64) (sent int64, err error) {
	from := &readable{c.ctx, io.LimitReader(file, cmp.Or(size, wire.MaxCopyUnknown))}
	buffer := make([]byte, pipe.MaxFrame)
	to := c.line()
	for {
		n, err := io.ReadFull(from, buffer)
		if n > 0 {
			sum.Write(buffer[:n])
			if err := to.Send(pipe.FrameOutput, buffer[:n]); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return sent, nil
		case err != nil:
			return sent, err
		}
	}
}

// readable is a reader that fails when ctx is done.
type readable struct {
	ctx  context.Context
	from io.Reader
}

func (r *readable) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// explain says what an error of the file means for the operator.
func (c *copying) explain(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Sprintf("the disk of the node has no room for %s: make room there, and copy again: it goes on where it ended", c.params.Path)
	case errors.Is(err, fs.ErrNotExist) && c.params.Write:
		return fmt.Sprintf("there is no folder %s on the node (as its user %s sees it): make it first", filepath.Dir(c.params.Path), c.who.Name)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no %s on the node (as its user %s sees it)", c.params.Path, c.who.Name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("the user %s of the node may not do that: %v", c.who.Name, err)
	}
	return err.Error()
}
