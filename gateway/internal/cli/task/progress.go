package task

import (
	"bytes"
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

// lines prints what one task writes, whole lines at a time, so that the tasks of several nodes do not mix within a line. On a terminal
// what could control it is escaped. Into a file or a pipe the bytes of a single node go as they are.
type lines struct {
	progress *progress
	name     string // stands before each line
	rest     []byte
}

// longestLine is how much of a line is held back for its end.
const longestLine = 8 << 10

// Write never fails: that a reader of this command is gone shows at the next flush of its own.
func (l *lines) Write(data []byte) (int, error) {
	if l.raw() {
		l.progress.around(func() { l.progress.session.Stdout.Write(data) })
		return len(data), nil
	}
	l.rest = append(l.rest, data...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			l.print(l.rest[:end])
			l.rest = l.rest[end+1:]
		case len(l.rest) >= longestLine:
			l.print(l.rest[:longestLine])
			l.rest = l.rest[longestLine:]
		default:
			return len(data), nil
		}
	}
}

func (l *lines) raw() bool { return l.name == "" && l.progress.session.Screen() == 0 }

// end prints what is left without a newline.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.print(l.rest)
		l.rest = nil
	}
}

func (l *lines) print(line []byte) {
	l.progress.around(func() { fmt.Fprintln(l.progress.session.Stdout, l.name+screen.PrintableLine(string(line))) })
}
