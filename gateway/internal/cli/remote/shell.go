package remote

import (
	"context"
	"errors"
	"os"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/tty"
	"muster/gateway/internal/cli/work"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

func nodeShell(ctx context.Context, s *cli.Session) error {
	if rest := s.Words[1:]; len(rest) > 0 {
		if s.Behind != nil || s.Name != "ssh" {
			return cli.Usagef("write muster "+s.Name+" "+s.Words[0]+" -- "+paste.Line(rest...), "muster %s does not take %q", s.Name, rest[0])
		}
		s.Behind = rest // ssh takes it so
		s.Words = s.Words[:1]
	}
	in, out := s.Keyboard()
	if in == nil && len(s.Behind) > 0 { // as ssh does without a terminal
		return nodeExec(ctx, s)
	}
	if in == nil {
		return cli.Usagef("muster node exec NAME -- CMD ARG... runs a program without one", "muster node shell needs a terminal here")
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	ask, err := askShell(ctx, s, c, tty.WindowSize(out))
	if err != nil {
		return err
	}
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	free := context.AfterFunc(ctx, cut) // until it has begun, ^C ends it; from then on ^C is for the node
	a, err := Open(life, c, s.Words[0], ask)
	if err != nil {
		return &cli.EndedWith{Code: failed, Err: err}
	}
	v := newVisit(s, a, out)
	_, err = begin(s, a, sayer(s))
	if !free() {
		err = errInterrupted
	}
	if err != nil {
		a.Leave()
		return &cli.EndedWith{Code: failed, Err: err}
	}
	return v.terminal(ctx, in, out)
}

var errInterrupted = errors.New("interrupted")

func askShell(ctx context.Context, s *cli.Session, c *client.Client, size tty.Size) (api.SessionAsk, error) {
	key, err := work.Key(s)
	if err != nil {
		return api.SessionAsk{}, err
	}
	var o struct{ User string }
	if err := s.Flags.Into(&o); err != nil {
		return api.SessionAsk{}, err
	}
	params := wire.ShellParams{User: o.User, Term: s.Getenv("TERM"), Rows: size.Rows, Columns: size.Columns, Command: s.Behind}
	if params.Check() != nil {
		params.Term = "" // a name that the node cannot know; the usual one is
	}
	return work.Session(ctx, s, key, s.Words[0], wire.SessionShell, &params)
}

// visit is a shell on a node, in the terminal here.
type visit struct {
	*cli.Session
	attached *Session
	board    *board
	raw      *tty.Raw
	size     tty.Size
	over     chan error    // why the session has ended; a cli.EndedWith where it ended by itself
	left     chan struct{} // a person leaves
}

func newVisit(s *cli.Session, a *Session, out *os.File) *visit {
	v := &visit{Session: s, attached: a, size: tty.WindowSize(out), over: make(chan error, 1), left: make(chan struct{}, 1)}
	v.board = newBoard(out)
	a.Notice = v.board.say
	a.Trouble = func(err error) { v.board.say(WayWords(err)) }
	return v
}

// terminal has the terminal here be the one of the node, until that ends or the person leaves.
func (v *visit) terminal(ctx context.Context, in, out *os.File) error {
	raw, err := tty.OpenRaw(in, out)
	if err != nil {
		v.attached.Leave()
		return &cli.EndedWith{Code: failed, Err: err}
	}
	defer raw.Close()
	v.raw = raw
	v.board.through(raw)
	go v.read()
	go v.follow()
	go v.show()
	select {
	case err = <-v.over:
		raw.Close()
		v.attached.Close()
		return err
	case <-v.left:
		err = errors.New("left " + v.attached.Node + "; what ran there is ended")
	case err = <-raw.Ended():
	case <-ctx.Done():
		err = errInterrupted
	}
	raw.Close()
	v.attached.Leave()
	return &cli.EndedWith{Code: failed, Err: err}
}

// read sends what is typed.
func (v *visit) read() {
	defer v.raw.Guard()
	var keys escapes
	buffer := make([]byte, 4<<10)
	for {
		n, err := v.raw.Read(buffer)
		if err != nil { // the terminal is gone
			v.leave()
			return
		}
		if !v.typed(&keys, buffer[:n]) {
			return
		}
	}
}

// typed handles what was typed at once. It gives false if nothing more is read.
func (v *visit) typed(keys *escapes, rest []byte) bool {
	for len(rest) > 0 {
		var out []byte
		var asked act
		out, asked, rest = keys.feed(rest)
		if len(out) > 0 && v.attached.Send(pipe.FrameInput, out) != nil {
			return false // show knows why
		}
		if v.board.covered() {
			v.redraw()
		}
		switch asked {
		case actLeave:
			v.leave()
			return false
		case actHelp:
			v.board.say(keysHelp)
		}
	}
	return true
}

func (v *visit) leave() {
	select {
	case v.left <- struct{}{}:
	default:
	}
}

// follow tells the node the size of the terminal.
func (v *visit) follow() {
	defer v.raw.Guard()
	if now := tty.WindowSize(v.board.out); now != v.size {
		v.sized(now)
	}
	for {
		select {
		case size := <-v.raw.Sizes():
			v.sized(size)
		case <-v.attached.Over():
			return
		}
	}
}

func (v *visit) sized(size tty.Size) {
	if size.Rows > 0 && size.Columns > 0 {
		_ = v.attached.SendJSON(pipe.FrameSize, pipe.Size{Rows: size.Rows, Columns: size.Columns})
	}
}

// redraw makes a program that has the whole screen draw it again: it sees another size for a moment.
func (v *visit) redraw() {
	size := tty.WindowSize(v.board.out)
	if size.Columns < 2 {
		return
	}
	v.sized(tty.Size{Rows: size.Rows, Columns: size.Columns - 1})
	v.sized(size)
}

// show shows what comes from the node, until the session ends.
func (v *visit) show() {
	defer v.raw.Guard()
	for {
		kind, data, err := v.attached.Next()
		switch {
		case err != nil:
			v.over <- &cli.EndedWith{Code: failed, Err: outlived(err)}
			return
		case kind == pipe.FrameOutput:
			v.board.show(data)
		case kind == pipe.FrameExit:
			v.over <- ending(data)
			return
		}
	}
}

// ending is what a session's last frame makes of this command.
func ending(data []byte) error {
	exit, err := ReadExit(data)
	switch {
	case err != nil:
		return &cli.EndedWith{Code: failed, Err: err}
	case exit.Error != "":
		return &cli.EndedWith{Code: failed, Err: errors.New(exit.Error)}
	case exit.Code != 0:
		return &cli.EndedWith{Code: exit.Code}
	}
	return nil
}

// outlived adds a hint where a session was lost.
func outlived(err error) error {
	if errors.Is(err, pipe.ErrLost) {
		return cli.Hinted(err.Error(), "what ran on the node has ended; in tmux it outlives the connection")
	}
	return err
}
