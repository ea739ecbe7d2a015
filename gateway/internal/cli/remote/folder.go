package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// nameOf is the name that a folder keeps in another one; empty: it is only what is in it that is meant.
func nameOf(base string) string {
	if base == "." || base == ".." || base == "/" {
		return ""
	}
	return base
}

// originOf names a folder of a machine, so that a copy goes on with what came from there alone.
func originOf(machine, folder string) string {
	sum := sha256.Sum256([]byte(machine + "\x00" + folder))
	return hex.EncodeToString(sum[:])
}

// downloadFolder copies a folder from a node.
func downloadFolder(ctx context.Context, s *cli.Session, from place, local string) error {
	v, err := openFolder(ctx, s, from.node, wire.CopyParams{Path: from.path, Folder: true})
	if err != nil {
		return err
	}
	defer v.close()
	l := newLine(v, from.node+":"+from.path)
	if !v.ready.Folder {
		if _, err := l.end(); err != nil { // it may be that there is nothing
			return interrupted(ctx, err)
		}
		return download(ctx, s, from, local)
	}
	origin := originOf(v.attached.NodeID, path.Clean(from.path))
	top, err := tree.Open(filepath.Clean(local), nameOf(path.Base(from.path)), origin, tree.Owner{UID: os.Geteuid(), Lock: lockHere})
	if err != nil {
		return err
	}
	defer top.Close()
	defer l.shown.Clear()
	count, err := tree.Receive(ctx, tree.Target{Line: l, Top: top, Mask: unshared, Trouble: l.trouble, Moved: l.moved})
	if err == nil {
		_, err = l.end()
	}
	if err != nil {
		return l.why(ctx, err)
	}
	return l.done(top.Path, count)
}

// uploadFolder copies a folder to a node.
func uploadFolder(ctx context.Context, s *cli.Session, local string, to place) error {
	root, err := os.OpenRoot(local)
	if err != nil {
		return err
	}
	defer root.Close()
	whole, err := filepath.Abs(local)
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // without it, the path alone tells one folder from another
	params := wire.CopyParams{Path: to.path, Write: true, Folder: true, Name: nameOf(filepath.Base(local)), Origin: originOf(host, whole)}
	v, err := openFolder(ctx, s, to.node, params)
	if err != nil {
		return err
	}
	defer v.close()
	l := newLine(v, to.node+":"+to.path)
	if !v.ready.Folder {
		_, err := l.end()
		return interrupted(ctx, err)
	}
	defer l.shown.Clear()
	count, err := tree.Send(ctx, tree.Source{Line: l, Content: pipe.FrameInput, Root: root, Trouble: l.trouble, Moved: l.moved})
	if err == nil {
		select {
		case <-l.over: // Send listens until then
			err = l.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return l.why(ctx, err)
	}
	return l.done(to.node+":"+v.ready.Directory, count)
}

// openFolder asks for a copy of a folder.
func openFolder(ctx context.Context, s *cli.Session, node string, p wire.CopyParams) (*passage, error) {
	v, err := openCopy(ctx, s, node, p)
	var said *wire.ErrorDetail
	if errors.As(err, &said) && said.Code == wire.CodeTaskParamsInvalid && strings.Contains(said.Message, `"folder"`) {
		return nil, cli.Hinted("the agent of "+node+", or the gateway, is too old to copy a folder",
			"update it (muster help releases); until then it goes as an archive: muster node exec "+node+" -- tar c -C FOLDER . | tar x -C HERE")
	}
	return v, err
}

// unshared are the permissions that a node may give to what comes here: nobody else can write it.
const unshared fs.FileMode = 0o755

// lockHere keeps another muster away from what this one writes.
func lockHere(file *os.File) (release func(), err error) {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil, errors.New("another muster copies the same now: wait for it")
	}
	return func() {}, nil // the lock ends with the open file
}

// mostTold is how many troubles are told one by one.
const mostTold = 50

// line is this end of the copy of a folder.
type line struct {
	*passage
	shown *screen.Progress

	mu     sync.Mutex // guards all below
	failed int
	told   []string

	over chan struct{} // closed when the node has said how it ended, or nothing more comes
	exit pipe.Exit
	err  error
}

func newLine(v *passage, name string) *line {
	const unknown = -1 // how much it is, is known when all has come
	return &line{passage: v, shown: v.Session.Progress(name, unknown, 0), over: make(chan struct{})}
}

// Send implements tree.Line.
func (l *line) Send(kind pipe.FrameKind, data []byte) error { return l.attached.Send(kind, data) }

// Next implements tree.Line. It keeps what the node says of troubles and of its end.
func (l *line) Next() (pipe.FrameKind, []byte, error) {
	for {
		kind, data, err := l.attached.Next()
		switch {
		case err != nil:
			l.ends(pipe.Exit{}, err)
			return 0, nil, err
		case kind == pipe.FrameExit:
			l.ends(l.ended(data))
			l.attached.Close() // what is on its way is no use to the node
			return 0, nil, io.EOF
		case kind != pipe.FrameTrouble:
			return kind, data, nil
		}
		var t tree.Trouble
		if err = json.Unmarshal(data, &t); err == nil {
			err = l.trouble(t)
		}
		if err != nil {
			l.ends(pipe.Exit{}, err)
			return 0, nil, err
		}
	}
}

func (l *line) ends(exit pipe.Exit, err error) {
	select {
	case <-l.over:
		return
	default:
	}
	l.exit, l.err = exit, err
	close(l.over)
}

// end waits for the end of the session. Nobody else reads meanwhile.
func (l *line) end() (pipe.Exit, error) {
	for {
		if _, _, err := l.Next(); err != nil {
			<-l.over
			return l.exit, l.err
		}
	}
}

// trouble notes what was not copied. What never is, is said at once.
func (l *line) trouble(t tree.Trouble) error {
	text := fmt.Sprintf("%.4096s: %.300s", t.Path, t.Why)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case t.Passed:
		l.shown.Around(func() { l.say("left out: " + text) })
		return nil
	case len(l.told) < mostTold:
		l.told = append(l.told, text)
	}
	l.failed++
	return nil
}

func (l *line) moved(_ string, count tree.Count) { l.shown.Files(count.Files, count.Bytes) }

// why is the reason of an error: what the node says of it is nearer to the cause than what it broke here.
func (l *line) why(ctx context.Context, err error) error {
	select {
	case <-l.over:
		if l.err != nil {
			err = l.err
		}
	default:
	}
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the node ended the copy before its end: copy again, and it goes on there")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errors.New("the disk here has no room for more: make room, and copy again: it goes on where it ended")
	}
	return interrupted(ctx, err)
}

// done says what was copied and what was not.
func (l *line) done(to string, count tree.Count) error {
	l.shown.Clear()
	said := fmt.Sprintf("%s: %s, %d bytes copied", screen.Printable(to), screen.Plural(count.Files, "file"), count.Bytes)
	if count.Same > 0 {
		said += fmt.Sprintf("; %d were there already", count.Same)
	}
	fmt.Fprintln(l.Stdout, said)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.told {
		l.Report("not copied: "+text, "")
	}
	if l.failed > len(l.told) {
		l.Report(fmt.Sprintf("and %d more", l.failed-len(l.told)), "")
	}
	if l.failed > 0 {
		return cli.Hinted(fmt.Sprintf("%d could not be copied, see above; all others are there", l.failed),
			"when that is mended, copy again: only what is missing is sent")
	}
	return nil
}
