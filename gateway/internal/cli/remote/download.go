package remote

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
	"syscall"

	"muster/agent/disk"
	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// part is a file that is on its way here.
type part struct {
	*os.File
	sum    hash.Hash
	bytes  int64
	sparse bool // zeros take no room
}

// openPart opens the partial file of a target, which may have something of an earlier try.
func openPart(to string) (*part, error) {
	name := to + ".part"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%s is in the way, and is no file: remove it", name)
	}
	if err != nil {
		return nil, err
	}
	p := &part{File: file, sum: sha256.New()}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is in the way, and is no file: remove it", name)
	case syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil:
		err = fmt.Errorf("another muster copies to %s now: wait for it", to)
	default:
		p.bytes, err = io.Copy(p.sum, file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return p, nil
}

// again begins anew.
func (p *part) again() error {
	p.sum.Reset()
	p.bytes = 0
	_, err := p.Seek(0, io.SeekStart)
	return errors.Join(err, p.Truncate(0))
}

func (p *part) add(data []byte) error {
	err := error(nil)
	if p.sparse {
		err = pipe.WriteSparse(p, data)
	} else {
		_, err = p.Write(data)
	}
	if err != nil {
		return fmt.Errorf("%w: what has arrived is kept, and the same command goes on there", err)
	}
	p.sum.Write(data)
	p.bytes += int64(len(data))
	return nil
}

// remove takes the file away if nothing is in it that a later try could use.
func (p *part) remove() { _ = os.Remove(p.Name()) }

// finish makes the part the target.
func (p *part) finish(to string, mode fs.FileMode) error {
	steps := disk.Steps(nil)
	whole := p.Truncate(p.bytes) // a hole at the end counts from now on
	if err := errors.Join(whole, p.Chmod(mode), steps.Sync("the copy", p.File)); err != nil {
		return err
	}
	return steps.Rename(p.Name(), to)
}

// download copies a file from a node.
func download(ctx context.Context, s *cli.Session, from place, local string) error {
	to, err := target(local, path.Base(from.path))
	if err != nil {
		return err
	}
	switch info, err := os.Stat(to); {
	case err != nil || info.Mode().IsRegular():
	case info.IsDir():
		return cli.Hinted(to+" is there and is a folder",
			"if "+from.path+" is a folder too, -r copies it with all that is in it: "+wholeFolder(s))
	default:
		return fmt.Errorf("%s is there and is no file", to)
	}
	p, err := openPart(to)
	if err != nil {
		return err
	}
	defer p.Close()
	if err = fetch(ctx, s, from, p, to); err != nil && p.bytes == 0 {
		p.remove()
	}
	if err == nil {
		done(s, to, p.bytes, p.sum)
	}
	return err
}

func fetch(ctx context.Context, s *cli.Session, from place, p *part, to string) error {
	params := wire.CopyParams{Path: from.path, Offset: p.bytes}
	if p.bytes > 0 {
		params.SHA256 = hex.EncodeToString(p.sum.Sum(nil))
	}
	v, err := openCopy(ctx, s, from.node, params)
	if err != nil {
		return err
	}
	defer v.close()
	if v.ready.Folder {
		return folderError(s, from.path)
	}
	if v.ready.Offset != p.bytes {
		if err := p.again(); err != nil {
			return err
		}
	}
	p.sparse = v.ready.Sparse
	if err := p.fits(v.ready.Size); err != nil {
		return err
	}
	exit, err := v.receive(p, s.Progress(from.node+":"+from.path, v.ready.Size, p.bytes))
	if err != nil {
		return interrupted(ctx, err)
	}
	if exit.SHA256 != hex.EncodeToString(p.sum.Sum(nil)) || exit.Bytes != p.bytes {
		return errors.Join(errors.New("what arrived is not the file: its SHA-256 is another one. Copy again"), p.again())
	}
	return p.finish(to, fs.FileMode(v.ready.Mode)&unshared)
}

// fits looks whether the disk here has room for a file of so many bytes.
func (p *part) fits(size int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(p.Name(), &disk); err != nil {
		return nil // what has no room will say so
	}
	free := int64(disk.Bavail) * int64(disk.Bsize)
	if missing := size - p.bytes; missing > free && !p.sparse {
		return fmt.Errorf("the file needs %d bytes more, and the disk of %s has %d: make room, and copy again", missing, p.Name(), free)
	}
	return nil
}

// receive takes the file. A node that sends more than it said could go on until the disk here is full.
func (v *passage) receive(p *part, shown *screen.Progress) (pipe.Exit, error) {
	defer shown.Clear()
	most := v.ready.Size
	if most <= 0 {
		most = wire.MaxCopyUnknown
	}
	for {
		kind, data, err := v.attached.Next()
		if err != nil {
			return pipe.Exit{}, err
		}
		switch kind {
		case pipe.FrameOutput:
			if p.bytes+int64(len(data)) > most {
				return pipe.Exit{}, errors.Join(fmt.Errorf("the node sends more than %d bytes, which is what it said: nothing is kept", most), p.again())
			}
			if err := p.add(data); err != nil {
				return pipe.Exit{}, err
			}
			shown.At(p.bytes)
		case pipe.FrameExit:
			return v.ended(data)
		}
	}
}
