package remote

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// outcome is what a program came to on one node.
type outcome struct {
	exit  pipe.Exit
	err   error // of the session
	begun bool
	took  time.Duration
}

// many runs the program on several nodes, and shows what it writes line by line, with the node's name.
func (o *order) many(nodes []cli.Target) error {
	p := &printer{session: o.Session}
	outcomes := make([]outcome, len(nodes))
	cli.AtOnce(len(nodes), o.atMost, func(i int) {
		if o.life.Err() == nil && !o.stopped() {
			outcomes[i] = o.on(nodes[i], p)
		}
	})
	return o.sum(nodes, outcomes)
}

func (o *order) on(node cli.Target, p *printer) outcome {
	name := screen.Printable(node.Name) + ": "
	out := p.lines(o.Stdout, o.Screen() > 0, name)
	errs := p.lines(o.Stderr, screen.Columns(o.Stderr, "") > 0, name)
	began := o.Now()
	exit, err := o.run(node, streams{in: bytes.NewReader(o.copied), out: out, err: errs, say: p.sayer(node.Name), way: p.way})
	out.End()
	errs.End()
	return outcome{exit: exit, err: err, begun: true, took: o.Now().Sub(began)}
}

// words says in one cell what came of it.
func (r outcome) words() string {
	switch {
	case !r.begun:
		return "not started"
	case r.err != nil:
		return "failed: " + screen.Printable(r.err.Error())
	case r.exit.Signal != "":
		return "signal " + screen.Printable(r.exit.Signal)
	}
	return "exit " + strconv.Itoa(r.exit.Code)
}

func (r outcome) well() bool { return r.begun && r.err == nil && r.exit.Code == 0 }

// sum prints what each node gave, on standard error. It gives the error that makes the exit code.
func (o *order) sum(nodes []cli.Target, outcomes []outcome) error {
	columns := []screen.Column{{Name: "NODE"}, {Name: "TOOK"}, {Name: "RESULT", Least: 10}}
	rows := make([][]string, 0, len(nodes))
	for i, r := range outcomes {
		rows = append(rows, []string{nodes[i].Name, took(r), r.words()})
	}
	list := screen.NewList(o.Stderr, false, screen.Columns(o.Stderr, o.Getenv("COLUMNS")), columns)
	if err := list.Write(rows); err != nil {
		return err
	}
	bad := 0
	for _, r := range outcomes {
		if !r.well() {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	fmt.Fprintf(o.Stderr, "%d of %s failed\n", bad, screen.Plural(len(nodes), "node"))
	return cli.ErrReported
}

func took(r outcome) string {
	if !r.begun {
		return screen.Unknown
	}
	return strconv.FormatFloat(r.took.Seconds(), 'f', 1, 64) + "s"
}

// printer prints the lines of several nodes. Lines do not mix, and those of one node keep their order.
type printer struct {
	session *cli.Session

	mu   sync.Mutex
	lost bool // the way to the gateway
}

// lines prints what a node's program writes to standard output or standard error. On a terminal, what could control it is escaped.
func (p *printer) lines(to io.Writer, terminal bool, name string) *screen.Lines {
	return &screen.Lines{Name: name, Safe: terminal, Print: func(text []byte) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, err := to.Write(text)
		return err
	}}
}

// sayer prints what muster says of a node.
func (p *printer) sayer(node string) func(string) {
	return func(line string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(p.session.Stderr, "muster: %s\n", screen.Printable(node+": "+line))
	}
}

// way prints once what the sessions of all nodes say of the way to the gateway.
func (p *printer) way(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost := err != nil; lost != p.lost {
		p.lost = lost
		fmt.Fprintf(p.session.Stderr, "muster: %s\n", screen.Printable(WayWords(err)))
	}
}
