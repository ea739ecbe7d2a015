package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"muster/agent/disk"
	"muster/agent/pipe"
	"muster/agent/pipe/tree"
)

// write takes a file. It gathers in a partial file beside the target, whose name says what it will be, so that a later try goes on with it.
// The target is replaced when all is there and right.
func (c *copying) write() (pipe.Exit, error) {
	to, err := openPlace(c.params.Path)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	defer to.folder.Close()
	folder, err := to.target()
	if err != nil || folder {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{Folder: folder}))
	}
	to.lock = c.lock
	defer c.all.leave(c)
	part, err := to.partial(c.params.SHA256, c.who.UID)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	defer part.Close()
	sum := sha256.New()
	there, err := c.earlier(part, sum)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	if err := c.begin(pipe.Ready{Offset: there}); err != nil {
		return pipe.Exit{}, err
	}
	if err := c.take(part, sum, there); err != nil {
		return pipe.Exit{}, err
	}
	exit := pipe.Exit{SHA256: hex.EncodeToString(sum.Sum(nil)), Bytes: c.params.Size}
	if exit.SHA256 != c.params.SHA256 {
		return pipe.Exit{}, errors.Join(errors.New("what arrived is not the file: its SHA-256 is another one. Copy again: the file may have "+
			"changed meanwhile"), to.remove(part.Name()))
	}
	return exit, to.finish(part, c.mode())
}

func (c *copying) mode() uint32 {
	if c.params.Mode == 0 {
		return 0o644
	}
	return uint32(c.params.Mode)
}

// earlier reads what an earlier try has left. Nothing longer than the file can be of it.
func (c *copying) earlier(part *os.File, sum hash.Hash) (int64, error) {
	info, err := part.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() > c.params.Size {
		return 0, part.Truncate(0)
	}
	return io.Copy(sum, &readable{c.ctx, part})
}

// take writes what the operator sends behind what is there.
func (c *copying) take(part *os.File, sum hash.Hash, there int64) error {
	from := c.line()
	for {
		kind, data, err := from.Next()
		switch {
		case err != nil:
			return err
		case kind == pipe.FrameInputEnd && there < c.params.Size:
			return fmt.Errorf("only %d of %d bytes came: copy again, and it goes on there", there, c.params.Size)
		case kind == pipe.FrameInputEnd:
			return part.Truncate(there) // a hole at the end counts from now on
		case kind != pipe.FrameInput:
			continue
		}
		there += int64(len(data))
		if there > c.params.Size {
			return fmt.Errorf("more than %d bytes came", c.params.Size)
		}
		if err := c.put(part, data); err != nil {
			return err
		}
		sum.Write(data)
	}
}

func (c *copying) put(part *os.File, data []byte) error {
	if c.params.Sparse {
		return pipe.WriteSparse(part, data)
	}
	_, err := part.Write(data)
	return err
}

// place is where a file is to lie: a folder that is held open, and the name in it.
type place struct {
	folder *os.File
	path   string // of the folder
	name   string
	lock   func(part *os.File) error
	before *syscall.Stat_t // what target has found; nil: there is no such file yet
	disk   disk.Steps      // nil: nobody is told; for tests
}

// openPath is O_PATH of open(2), which package syscall lacks. What is opened so can be looked at, and needs no right to be read.
const openPath = 0x200000

func openPlace(path string) (*place, error) {
	folder, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		folder, name = path, "."
	}
	file, err := os.OpenFile(folder, openPath|syscall.O_DIRECTORY, 0)
	return &place{folder: file, path: folder, name: name}, err
}

// look says what a name is, and nil if there is nothing.
func (p *place) look(name string) (fs.FileInfo, error) {
	file, err := disk.OpenIn(p.folder, name, openPath, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}

// target looks at what the file will replace: a file, or a link, and never where that leads.
func (p *place) target() (folder bool, err error) {
	info, err := p.look(p.name)
	switch {
	case err != nil || info == nil:
		return false, err
	case info.IsDir():
		return true, nil
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return false, fmt.Errorf("%s is there and is no file: %s", filepath.Join(p.path, p.name), tree.KindOf(info.Mode()))
	case info.Mode().IsRegular():
		p.before, _ = info.Sys().(*syscall.Stat_t)
	}
	return false, nil
}

// partial opens the partial file of a sum, and locks it. In a folder that others can write to, one of them may have put something under
// that name: it is refused, and not followed.
func (p *place) partial(sum string, uid int) (*os.File, error) {
	name := ".muster-" + sum[:32] + ".part"
	path := filepath.Join(p.path, name)
	for {
		file, err := disk.OpenIn(p.folder, name, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
			err = fmt.Errorf("%s is in the way, and is no file: remove it", path)
		}
		if err != nil {
			return nil, err
		}
		same, err := p.claim(file, name, path, uid)
		if same && err == nil {
			return file, nil
		}
		file.Close()
		if err != nil {
			return nil, err
		}
	}
}

// claim locks a partial file. It gives false if another copy ended meanwhile, and so the file has another name now.
func (p *place) claim(file *os.File, name, path string, uid int) (same bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	status, known := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !known || int(status.Uid) != uid || status.Nlink > 1 {
		return false, fmt.Errorf("%s is in the way, and is not a file of this user alone: remove it", path)
	}
	if err := p.lock(file); err != nil {
		return false, err
	}
	now, err := p.look(name)
	return now != nil && os.SameFile(info, now), err
}

// finish makes the partial file the target. It is on the disk before it has the name. A file that root replaces keeps its owner.
func (p *place) finish(part *os.File, mode uint32) error {
	if p.before != nil {
		_ = part.Chown(int(p.before.Uid), int(p.before.Gid)) // others cannot, and then it is theirs
	}
	if err := syscall.Fchmod(int(part.Fd()), mode); err != nil {
		return err
	}
	if err := p.disk.Sync("the copy", part); err != nil {
		return err
	}
	at := int(p.folder.Fd())
	if err := syscall.Renameat(at, part.Name(), at, p.name); err != nil {
		return &fs.PathError{Op: "rename", Path: filepath.Join(p.path, p.name), Err: err}
	}
	if err := p.disk.SyncFolder("its folder", p.path); !errors.Is(err, fs.ErrPermission) { // it may be written and not read
		return err
	}
	return nil
}

func (p *place) remove(name string) error { return syscall.Unlinkat(int(p.folder.Fd()), name) }
