package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// Source is a folder that is sent.
type Source struct {
	Line    Line
	Content pipe.FrameKind // of the bytes of files: pipe.FrameInput from the operator, pipe.FrameOutput from the node
	Root    *os.Root
	Refuse  func(*os.File) error // of a file that may not be sent; nil: all may
	Trouble func(Trouble) error  // is told what cannot be sent; its error ends the copy
	Moved   func(string, Count)  // is told how far it is, and with which file; nil: nobody is
}

// Send sends a folder. It reads files only in the goroutine of its caller, which may have the rights of a user. It listens to the other end
// in another goroutine, until Line.Next fails. The error says why the copy ended early; Trouble is told what could not be read.
func Send(ctx context.Context, s Source) (Count, error) {
	w := &sending{Source: s, ctx: ctx, answers: make(chan Want, Window), buffer: make([]byte, pipe.MaxFrame)}
	go w.listen()
	err := w.entry(".")
	if err == nil {
		err = w.serve(0)
	}
	if err == nil {
		err = s.Line.Send(pipe.FrameInputEnd, nil)
	}
	return w.count, err
}

// sending is a folder on its way.
type sending struct {
	Source
	ctx     context.Context
	answers chan Want // closed when nothing more comes
	lost    error     // why, when it is closed
	open    []Entry   // files that were announced, and not answered
	buffer  []byte
	count   Count
}

// listen hears the other end until its last frame, also after an answer that cannot be: the line learns from that frame how it ended.
func (w *sending) listen() {
	w.lost = w.hear()
	close(w.answers)
	for err := error(nil); err == nil; {
		_, _, err = w.Line.Next()
	}
}

func (w *sending) hear() error {
	for {
		kind, data, err := w.Line.Next()
		if err != nil {
			return err
		}
		if kind != pipe.FrameWant {
			continue
		}
		var want Want
		if err := json.Unmarshal(data, &want); err != nil {
			return err
		}
		select {
		case w.answers <- want:
		default:
			return errUnasked
		}
	}
}

var errUnasked = errors.New("the other end wants more files than it was told of")

// entry announces what a path names, and all that is in it.
func (w *sending) entry(name string) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	info, err := w.Root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return w.pass(name, "it went away meanwhile")
	case err != nil:
		return w.fail(name, err)
	}
	e := Entry{Path: []byte(name), Mode: int(info.Mode().Perm()), Time: info.ModTime().UnixMicro()}
	switch {
	case !proper(e.Path):
		return w.fail(name, errors.New("its path is too long"))
	case info.IsDir():
		e.Kind = Folder
		e.Time = max(-wire.MaxNumber, min(e.Time, wire.MaxNumber)) // a time is no reason to leave out all that is in it
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = Link
		target, err := w.Root.Readlink(name)
		if err != nil {
			return w.fail(name, err)
		}
		e.Target = []byte(target)
	case info.Mode().IsRegular():
		e.Kind, e.Size, e.Sparse = File, info.Size(), pipe.Sparse(info)
	default:
		return w.pass(name, KindOf(info.Mode()))
	}
	if err := e.check(); err != nil {
		return w.fail(name, err)
	}
	if err := w.send(pipe.FrameEntry, e); err != nil {
		return err
	}
	switch e.Kind {
	case Folder:
		return w.folder(name)
	case File:
		w.open = append(w.open, e)
		return w.serve(Window - 1)
	}
	return nil
}

// someNames is how many names of a folder are read at once: a folder of millions must not take the memory.
const someNames = 256

func (w *sending) folder(name string) error {
	folder, err := w.Root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return w.fail(name, err)
	}
	defer folder.Close()
	for {
		names, err := folder.Readdirnames(someNames)
		for _, one := range names {
			if err := w.entry(path.Join(name, one)); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return w.fail(name, err)
		}
	}
}

// serve sends files as the other end wants them. It waits until so many at most are without an answer.
func (w *sending) serve(most int) error {
	for len(w.open) > most || len(w.answers) > 0 {
		select {
		case want, more := <-w.answers:
			if !more {
				return w.lost
			}
			if err := w.answer(want); err != nil {
				return err
			}
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
	return nil
}

func (w *sending) answer(want Want) error {
	if len(w.open) == 0 {
		return errUnasked
	}
	e := w.open[0]
	w.open = w.open[1:]
	switch {
	case want.Same:
		w.count.Files++
		w.count.Same++
		w.moved(e)
		return nil
	case want.Skip:
		return nil
	}
	if want.Offset < 0 || want.Offset > e.Size {
		return fmt.Errorf("the other end says that it has more of %.80q than there is", e.Path)
	}
	sum := sha256.New()
	why, err := w.content(e, want.Offset, sum)
	if err != nil {
		return err
	}
	if why != nil {
		if err := w.fail(string(e.Path), why); err != nil {
			return err
		}
		return w.send(pipe.FrameSum, Sum{Error: reason(why)})
	}
	w.count.Files++
	w.moved(e)
	return w.send(pipe.FrameSum, Sum{SHA256: hex.EncodeToString(sum.Sum(nil))})
}

// content sends a file from an offset on. why is what is wrong with the file; err ends the copy.
func (w *sending) content(e Entry, from int64, sum hash.Hash) (why, err error) {
	file, why := w.read(string(e.Path))
	if why != nil {
		return why, nil
	}
	defer file.Close()
	for at := int64(0); at < e.Size; {
		if err := context.Cause(w.ctx); err != nil {
			return nil, err
		}
		piece := w.buffer[:min(int64(len(w.buffer)), e.Size-at)]
		if at < from {
			piece = piece[:min(int64(len(piece)), from-at)] // the other end has that: it is in the sum alone
		}
		n, why := io.ReadFull(file, piece)
		switch {
		case errors.Is(why, io.EOF), errors.Is(why, io.ErrUnexpectedEOF):
			return errors.New("it became shorter while it was read"), nil
		case why != nil:
			return why, nil
		}
		sum.Write(piece)
		if at += int64(n); at <= from {
			continue
		}
		if err := w.Line.Send(w.Content, piece); err != nil {
			return nil, err
		}
		w.count.Bytes += int64(n)
		w.moved(e)
	}
	return nil, nil
}

// read opens a file. It may have become something else since it was announced.
func (w *sending) read(name string) (*os.File, error) {
	file, err := w.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it was a file, and is none any more")
	}
	if err == nil && w.Refuse != nil {
		err = w.Refuse(file)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (w *sending) moved(e Entry) {
	if w.Moved != nil {
		w.Moved(string(e.Path), w.count)
	}
}

func (w *sending) fail(name string, why error) error {
	return w.Trouble(Trouble{Path: []byte(name), Why: reason(why)})
}

func (w *sending) pass(name, why string) error {
	return w.Trouble(Trouble{Path: []byte(name), Why: why, Passed: true})
}

func (w *sending) send(kind pipe.FrameKind, value any) error { return send(w.Line, kind, value) }

func send(to Line, kind pipe.FrameKind, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return to.Send(kind, data)
}
