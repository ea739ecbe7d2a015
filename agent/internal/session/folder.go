package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"time"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
)

// line carries the frames of a copy.
type line struct {
	*copying
	to   pipe.FrameWriter
	last []byte // the memory of the frame before, for a later one
}

func (c *copying) line() *line { return &line{copying: c, to: pipe.FrameWriter{To: c.main}} }

// Send implements tree.Line.
func (l *line) Send(kind pipe.FrameKind, data []byte) error {
	if err := l.to.Write(kind, data); err != nil {
		return &channelError{err}
	}
	return nil
}

// Next implements tree.Line.
func (l *line) Next() (pipe.FrameKind, []byte, error) {
	select {
	case l.used <- l.last:
	default:
	}
	l.waits.Store(time.Now().UnixNano())
	select {
	case f := <-l.frames:
		l.waits.Store(0)
		l.last = f.data
		return f.kind, f.data, nil
	case <-l.ctx.Done():
		return 0, nil, context.Cause(l.ctx)
	}
}

// readFolder sends a folder. If the path is none, the operator hears so, and nothing is sent.
func (c *copying) readFolder() (pipe.Exit, error) {
	info, err := os.Stat(c.params.Path)
	if err != nil || !info.IsDir() {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	root, err := os.OpenRoot(c.params.Path)
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{Folder: true}))
	}
	defer root.Close()
	if err := c.begin(pipe.Ready{Folder: true}); err != nil {
		return pipe.Exit{}, err
	}
	l := c.line()
	var troubles troubles
	count, err := tree.Send(c.ctx, tree.Source{Line: l, Content: pipe.FrameOutput, Root: root, Trouble: troubles.tell(l),
		Refuse: func(file *os.File) error { return notOurs("it", file) }})
	return troubles.exit(count), err
}

// writeFolder takes a folder.
func (c *copying) writeFolder() (pipe.Exit, error) {
	top, err := tree.Open(path.Clean(c.params.Path), c.params.Name, c.params.Origin, tree.Owner{UID: c.who.UID, Lock: c.hold})
	if err != nil {
		return pipe.Exit{}, errors.Join(err, c.begin(pipe.Ready{}))
	}
	defer top.Close()
	if err := c.begin(pipe.Ready{Folder: true, Directory: top.Path}); err != nil {
		return pipe.Exit{}, err
	}
	l := c.line()
	var troubles troubles
	const mask = 0o777 // a program that runs with the rights of another user is not made so
	count, err := tree.Receive(c.ctx, tree.Target{Line: l, Top: top, Mask: mask, Trouble: troubles.tell(l)})
	return troubles.exit(count), err
}

// hold locks a file or a folder that this copy writes.
func (c *copying) hold(file *os.File) (release func(), err error) {
	return func() { c.all.leave(c) }, c.lock(file)
}

// troubles counts what was not copied.
type troubles int

// tell tells the operator of it.
func (n *troubles) tell(to tree.Line) func(tree.Trouble) error {
	return func(t tree.Trouble) error {
		if !t.Passed {
			*n++
		}
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		return to.Send(pipe.FrameTrouble, data)
	}
}

func (n troubles) exit(count tree.Count) pipe.Exit {
	exit := pipe.Exit{Bytes: count.Bytes}
	if n > 0 {
		exit.Code = 1
	}
	return exit
}
