package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/pipe"
)

// part is a file that is on its way. It lies beside its target under a name that says what it will be: a later try goes on with it.
type part struct {
	*os.File
	root    *os.Root
	name    string
	sum     hash.Hash
	bytes   int64
	sparse  bool // zeros take no room
	release func()
}

// partName is beside a path. marks tell what belongs there.
func partName(of string, marks ...string) string {
	folder, name := path.Split(of)
	sum := sha256.New()
	for _, mark := range append([]string{name}, marks...) {
		fmt.Fprintf(sum, "%d:%s", len(mark), mark)
	}
	return folder + ".muster-" + hex.EncodeToString(sum.Sum(nil)[:16]) + ".part"
}

func partOf(e Entry) string {
	return partName(string(e.Path), strconv.FormatInt(e.Size, 10), strconv.FormatInt(e.Time, 10))
}

var errInTheWay = errors.New("its partial file is in the way, and is not a file of this user alone: remove it")

// openPart opens the part of a file, and reads what is there of it. In a folder that others can write to, one of them may have put
// something under that name: it is refused, and not followed.
func (t *Top) openPart(ctx context.Context, w want) (*part, error) {
	p := &part{root: t.root, name: partOf(w.Entry), sum: sha256.New(), sparse: w.Sparse, release: func() {}}
	flags := os.O_RDWR | syscall.O_NONBLOCK
	before, err := t.root.Lstat(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		flags |= os.O_CREATE | os.O_EXCL
	} else if err != nil {
		return nil, err
	} else if !before.Mode().IsRegular() {
		return nil, errInTheWay
	}
	if p.File, err = t.root.OpenFile(p.name, flags, 0o600); err != nil {
		return nil, err
	}
	if err = t.claim(p, before); err == nil {
		err = p.resume(ctx, w.offset)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// claim makes sure that a part is a file of this user, and that no other copy writes it. Under a new folder nobody else can be.
func (t *Top) claim(p *part, before fs.FileInfo) error {
	info, err := p.Stat()
	if err != nil {
		return err
	}
	status, known := info.Sys().(*syscall.Stat_t)
	if !known || int(status.Uid) != t.owner.UID || status.Nlink != 1 || before != nil && !os.SameFile(before, info) {
		return errInTheWay
	}
	if t.fresh {
		return nil
	}
	if p.release, err = t.owner.lock(p.File); err != nil {
		return err
	}
	if now, err := t.root.Lstat(p.name); err != nil || !os.SameFile(now, info) {
		return errors.New("another copy of it has just ended: copy again")
	}
	return nil
}

// resume reads what is there. What is behind it came while another copy ended.
func (p *part) resume(ctx context.Context, offset int64) error {
	for p.bytes < offset {
		n, err := io.CopyN(p.sum, p.File, min(offset-p.bytes, 1<<20))
		p.bytes += n
		if errors.Is(err, io.EOF) {
			err = errors.New("its partial file became shorter meanwhile: copy again")
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
	}
	return p.Truncate(offset)
}

func (p *part) add(data []byte) error {
	var err error
	if p.sparse {
		err = pipe.WriteSparse(p, data)
	} else {
		_, err = p.Write(data)
	}
	p.sum.Write(data)
	p.bytes += int64(len(data))
	return err
}

// syncedFrom is the size of a file that is on the disk before it has its name, in bytes. To wait for the disk for each small one would
// take many times as long as to copy it again.
const syncedFrom = 1 << 20

// finish makes the part the file. A file that root replaces keeps its owner.
func (p *part) finish(e Entry, sum string, mode fs.FileMode) error {
	if p.bytes != e.Size || hex.EncodeToString(p.sum.Sum(nil)) != sum {
		return errors.Join(errors.New("what arrived is not the file: its SHA-256 is another one. Copy again"), p.root.Remove(p.name))
	}
	to := string(e.Path)
	if before, err := p.root.Lstat(to); err == nil {
		if status, known := before.Sys().(*syscall.Stat_t); known && before.Mode().IsRegular() {
			_ = p.Chown(int(status.Uid), int(status.Gid)) // others cannot, and then it is theirs
		}
	}
	at := time.UnixMicro(e.Time)
	err := errors.Join(p.Truncate(e.Size), p.Chmod(mode)) // a hole at the end counts from now on
	if err == nil && e.Size >= syncedFrom {
		err = disk.Steps(nil).Sync("a file of a folder", p.File)
	}
	if err = errors.Join(err, p.root.Chtimes(p.name, at, at)); err != nil {
		return err
	}
	return p.root.Rename(p.name, to)
}

// close lets go of the part. It removes one that holds nothing.
func (p *part) close() {
	if p.bytes == 0 {
		if info, err := p.Stat(); err == nil && info.Size() == 0 {
			p.forget(info)
		}
	}
	p.release()
	p.File.Close()
}

// forget removes the part, if its name is its own still.
func (p *part) forget(info fs.FileInfo) {
	if now, err := p.root.Lstat(p.name); err == nil && os.SameFile(now, info) {
		_ = p.root.Remove(p.name)
	}
}
