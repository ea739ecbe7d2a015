package task

import (
	"fmt"
	"sync"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// progress is the line at the bottom of the terminal that counts, and everything that is printed above it. It is safe for concurrent use.
// Without a terminal there is no such line.
type progress struct {
	session *cli.Session
	mu      sync.Mutex
	on      bool
	line    string
}

func newProgress(s *cli.Session, on bool) *progress {
	return &progress{session: s, on: on && s.Screen() > 0}
}

// set replaces the line.
func (p *progress) set(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return
	}
	p.hide()
	p.line = line
	p.show()
}

// clear takes the line away for good.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	p.line = ""
}

// say prints a line for a person.
func (p *progress) say(line string) {
	p.around(func() { fmt.Fprintln(p.session.Stderr, line) })
}

// around prints something while the line is away.
func (p *progress) around(print func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	print()
	p.show()
}

func (p *progress) hide() {
	if p.line != "" {
		fmt.Fprint(p.session.Stderr, "\r\x1b[K")
	}
}

func (p *progress) show() {
	if p.line != "" {
		fmt.Fprint(p.session.Stderr, p.line)
	}
}

// output prints what a task writes, with a name before each line. What could control the terminal is escaped. Into a file or a pipe the
// bytes of a single task, which has no name, go as they are.
func (p *progress) output(name string) *screen.Lines {
	return &screen.Lines{Name: name, Safe: true, Whole: name == "" && p.session.Screen() == 0, Print: func(text []byte) error {
		p.around(func() { _, _ = p.session.Stdout.Write(text) }) // the session remembers what Stdout refused
		return nil
	}}
}
