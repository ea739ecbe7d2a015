package task

import (
	"fmt"

	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// progress is the line at the bottom of the terminal that counts, and everything that is printed above it.
type progress struct {
	*screen.StatusLine
	session *cli.Session
}

func newProgress(s *cli.Session) progress {
	return progress{s.StatusLine(), s}
}

// say prints a line for a person.
func (p progress) say(line string) {
	p.Around(func() { fmt.Fprintln(p.session.Stderr, line) })
}

// output prints what a task writes, with a name before each line. What could control the terminal is escaped. Into a file or a pipe the
// bytes of a single task, which has no name, go as they are.
func (p progress) output(name string) *screen.Lines {
	return &screen.Lines{Name: name, Safe: true, Whole: name == "" && p.session.Screen() == 0, Print: func(text []byte) error {
		p.Around(func() { _, _ = p.session.Stdout.Write(text) }) // the session remembers what Stdout refused
		return nil
	}}
}
