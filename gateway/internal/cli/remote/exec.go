package remote

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/work"
	"muster/gateway/internal/client"
	"muster/gateway/internal/paste"
)

// mostNodes is how many nodes are at work at the same time unless --at-most says otherwise. The gateway's socket has room for no more.
const mostNodes = 32

// mostCopied is how much of standard input is kept for copies of it, in bytes.
const mostCopied = 64 << 20

// order is one call of node exec.
type order struct {
	*cli.Session
	client  *client.Client
	key     ed25519.PrivateKey // of the operator; nil: the gateway signs
	command []string
	user    string
	timeout time.Duration // of the program on a node; 0: none
	atMost  int
	copied  []byte // what each of several nodes gets as its input

	life  context.Context // of all sessions
	leave context.CancelCauseFunc

	mu          sync.Mutex
	open        map[*Session]bool
	interrupted bool
}

func nodeExec(ctx context.Context, s *cli.Session) error {
	o := &order{Session: s, open: map[*Session]bool{}}
	several, err := o.read()
	if err != nil {
		return err
	}
	if o.client, err = s.Client(ctx); err != nil {
		return err
	}
	nodes, err := s.Chosen(ctx, s.Words, "run "+o.command[0]+" on", false)
	if err != nil {
		return err
	}
	if o.atMost == 0 || o.client.Token == "" {
		o.atMost = min(cmp.Or(o.atMost, mostNodes), mostNodes)
	}
	signals, stop := s.Signals()
	defer stop()
	o.life, o.leave = context.WithCancelCause(context.WithoutCancel(ctx)) // the first ^C does not end it
	defer o.leave(nil)
	go o.listen(signals)
	if several {
		return o.many(nodes)
	}
	return o.one(nodes[0])
}

// read reads the words and the flags. several: the nodes' lines are shown by node.
func (o *order) read() (several bool, err error) {
	o.command = o.Behind
	if len(o.command) == 0 {
		return false, cli.Usagef("write "+o.written(), "muster %s: which program? It stands behind --", o.Name)
	}
	var f struct {
		User    string
		Timeout time.Duration
		AtMost  int
		Stdin   bool
	}
	if err := o.Flags.Into(&f); err != nil {
		return false, err
	}
	o.user = f.User
	o.timeout = f.Timeout
	o.atMost = f.AtMost
	if o.key, err = work.Key(o.Session); err != nil {
		return false, err
	}
	several = len(o.Words) != 1
	if !f.Stdin || !several {
		return several, nil
	}
	o.copied, err = io.ReadAll(io.LimitReader(o.Input(), mostCopied+1))
	if err == nil && len(o.copied) > mostCopied {
		err = cli.Hinted(fmt.Sprintf("standard input is longer than %d MiB", mostCopied>>20), "muster node cp brings a file to a node")
	}
	return several, err
}

// written is how the command goes, with the words that were given, as it can be pasted: the first is a node, unless a selector picks nodes.
func (o *order) written() string {
	nodes, program := "NAME", o.Words
	if o.Flags.Given("selector") {
		nodes = "-l " + paste.Quote(o.Flags.Text("selector"))
	} else if len(program) > 0 {
		nodes = paste.Quote(program[0])
		program = program[1:]
	}
	line := "CMD ARG..."
	switch {
	case len(program) == 1 && paste.Quote(program[0]) != program[0]: // as ssh takes it: for a shell there
		line = paste.Line("sh", "-c", program[0])
	case len(program) > 0:
		line = paste.Line(program...)
	}
	return "muster " + o.Name + " " + nodes + " -- " + line
}

// listen passes the first ^C on to the programs. A second one leaves them, and so does any other signal.
func (o *order) listen(signals <-chan os.Signal) {
	for {
		select {
		case s := <-signals:
			if s != os.Interrupt || !o.interrupt() {
				o.leave(errInterrupted)
				return
			}
		case <-o.life.Done():
			return
		}
	}
}

// interrupt gives false the second time.
func (o *order) interrupt() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.interrupted {
		return false
	}
	o.interrupted = true
	for a := range o.open {
		go interrupt(a)
	}
	return true
}

func interrupt(a *Session) { _ = a.Send(pipe.FrameSignal, []byte("INT")) }

func (o *order) stopped() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.interrupted
}

// enter and exit keep the list of who hears of a ^C.
func (o *order) enter(a *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[a] = true
	if o.interrupted {
		go interrupt(a)
	}
}

func (o *order) exit(a *Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, a)
}

// one runs the program on one node. What it reads and writes is what this command reads and writes.
func (o *order) one(node cli.Target) error {
	say := sayer(o.Session)
	way := func(err error) { say(WayWords(err)) }
	exit, err := o.run(node, streams{in: o.Stdin, out: o.Stdout, err: o.Stderr, say: say, way: way})
	switch {
	case err != nil && (exit.Code == notFound || exit.Code == notRun):
		return &cli.EndedWith{Code: exit.Code, Err: err}
	case err != nil:
		return &cli.EndedWith{Code: failed, Err: err}
	case exit.Code != 0:
		return &cli.EndedWith{Code: exit.Code}
	}
	return nil
}

// streams are what a program on a node reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
	say      func(string) // sentences of the gateway and of muster
	way      func(error)  // that the way to the gateway is lost, and nil when it is good again
}

// run runs the program on a node, to its end.
func (o *order) run(node cli.Target, to streams) (pipe.Exit, error) {
	params := wire.ExecParams{User: o.user, Command: o.command}
	if o.timeout > 0 {
		params.LimitSeconds = int(min(o.timeout+wire.SessionBridge, wire.MaxSession) / time.Second) // if nobody is here any more to end it
	}
	ask, err := work.Session(o.life, o.Session, o.key, node.ID, wire.SessionExec, &params)
	if err != nil {
		return pipe.Exit{}, o.why(err)
	}
	a, err := Open(o.life, o.client, node.ID, ask)
	if err != nil {
		return pipe.Exit{}, o.why(err)
	}
	o.enter(a)
	defer o.exit(a)
	a.Notice = to.say
	a.Trouble = to.way
	exit, err := o.follow(a, to)
	if err != nil {
		a.Leave()
		return exit, o.why(err)
	}
	a.Close()
	if exit.Error != "" {
		return exit, errors.New(exit.Error)
	}
	return exit, nil
}

// why is why a session ended: that a person left it says more than what that looks like on the way.
func (o *order) why(err error) error {
	if o.life.Err() != nil {
		return context.Cause(o.life)
	}
	return err
}

// follow carries the streams of a session until its last frame.
func (o *order) follow(a *Session, to streams) (pipe.Exit, error) {
	if _, err := begin(o.Session, a, to.say); err != nil {
		return pipe.Exit{}, err
	}
	go feed(a, to.in, to.say)
	late := o.limit(a)
	for {
		kind, data, err := a.Next()
		switch {
		case err != nil && late():
			return pipe.Exit{}, fmt.Errorf("the program had %s, and was ended", o.timeout)
		case err != nil:
			return pipe.Exit{}, err
		case kind == pipe.FrameOutput:
			_, err = to.out.Write(data)
		case kind == pipe.FrameError:
			_, err = to.err.Write(data)
		case kind == pipe.FrameExit:
			return ReadExit(data)
		}
		if err != nil {
			return pipe.Exit{}, err
		}
	}
}

// limit ends a session when its time is up. The func tells whether that was so.
func (o *order) limit(a *Session) func() bool {
	if o.timeout == 0 {
		return func() bool { return false }
	}
	ctx, cancel := context.WithCancel(o.life)
	ended := make(chan bool, 1)
	go func() {
		if o.Pause(ctx, o.timeout) != nil {
			ended <- false
			return
		}
		ended <- true
		a.Leave()
	}()
	return func() bool {
		cancel()
		return <-ended
	}
}

// feed sends what the program reads.
func feed(a *Session, from io.Reader, say func(string)) {
	buffer := make([]byte, pipe.MaxFrame)
	for {
		n, err := from.Read(buffer)
		if n > 0 && a.Send(pipe.FrameInput, buffer[:n]) != nil {
			return // Next says why
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) {
			say("standard input: " + err.Error())
		}
		_ = a.Send(pipe.FrameInputEnd, nil)
		return
	}
}
