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
	"path/filepath"
	"strings"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// upload copies a file to a node.
func upload(ctx context.Context, s *cli.Session, local string, to place) error {
	file, info, err := openLocal(s, local)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return err
	}
	if strings.HasSuffix(to.path, "/") {
		to.path = path.Join(to.path, filepath.Base(local))
	}
	params := wire.CopyParams{Path: to.path, Write: true, Mode: int(info.Mode().Perm()), Size: size, Sparse: pipe.Sparse(info),
		SHA256: hex.EncodeToString(sum.Sum(nil))}
	v, err := openCopy(ctx, s, to.node, params)
	if err == nil && v.ready.Folder {
		v.close()
		params.Path = path.Join(to.path, filepath.Base(local))
		v, err = openCopy(ctx, s, to.node, params)
	}
	if err != nil {
		return err
	}
	defer v.close()
	to.path = params.Path
	if v.ready.Folder {
		return cli.Hinted(to.path+" is a folder on the node", "name the file that is to be there")
	}
	shown := s.Progress(to.node+":"+to.path, size, v.ready.Offset)
	defer shown.Clear()
	if err := v.send(file, size, shown, sum); err != nil {
		return interrupted(ctx, err)
	}
	shown.Clear()
	done(s, to.node+":"+to.path, size, sum)
	return nil
}

// openLocal opens a file. Its size must be known before its first byte goes, so a pipe does not do.
func openLocal(s *cli.Session, name string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case info.IsDir():
		return nil, nil, folderError(s, name)
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is no file", name)
	}
	file, err := os.Open(name)
	return file, info, err
}

// send sends the rest of a file, and waits for what the node says of it.
func (v *passage) send(file *os.File, size int64, shown *screen.Progress, sum hash.Hash) error {
	if v.ready.Offset > size || v.ready.Offset < 0 {
		return errors.New("the node says that it has more than the file")
	}
	if _, err := file.Seek(v.ready.Offset, io.SeekStart); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		err := v.pour(io.LimitReader(file, size-v.ready.Offset), shown)
		failed <- err
		if err != nil {
			v.attached.Close() // what was sent is no use to the node
		}
	}()
	exit, err := v.result()
	select {
	case broke := <-failed: // what failed here is the reason of what failed there
		if broke != nil {
			return broke
		}
	default:
		v.attached.Close()
	}
	switch {
	case err != nil:
		return err
	case exit.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return errors.New("the node says that it has another file than this one. Copy again")
	}
	return nil
}

// pour sends bytes.
func (v *passage) pour(from io.Reader, shown *screen.Progress) error {
	buffer := make([]byte, pipe.MaxFrame)
	at := v.ready.Offset
	for {
		n, err := io.ReadFull(from, buffer)
		if n > 0 {
			if err := v.attached.Send(pipe.FrameInput, buffer[:n]); err != nil {
				return nil // the other direction knows why
			}
			at += int64(n)
			shown.At(at)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			_ = v.attached.Send(pipe.FrameInputEnd, nil)
			return nil
		case err != nil:
			return err
		}
	}
}

// result waits for the end of the session.
func (v *passage) result() (pipe.Exit, error) {
	for {
		kind, data, err := v.attached.Next()
		if err != nil {
			return pipe.Exit{}, err
		}
		if kind == pipe.FrameExit {
			return v.ended(data)
		}
	}
}
