package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
)

// shownNames is how many of the matches a question shows where what it asks for can be undone.
const shownNames = 10

// confirm asks before a command acts on several selected nodes. It always asks if there is no way back, and then shows all nodes.
func (s *Session) confirm(verb string, nodes []Target, selected, noWayBack bool) error {
	if selected {
		fmt.Fprintf(s.Stderr, "%s: %s\n", screen.Plural(len(nodes), "node"), namesOf(nodes, noWayBack))
	}
	if !noWayBack && (!selected || len(nodes) == 1 && !s.Interactive()) {
		_, err := s.yes()
		return err
	}
	count := screen.Plural(len(nodes), "node")
	question := "these " + count
	if len(nodes) == 1 {
		question = nodes[0].Name
	}
	return s.Agree(verb+" "+question, verb+" "+count)
}

func namesOf(nodes []Target, all bool) string {
	more := ""
	if len(nodes) > shownNames && !all {
		nodes = nodes[:shownNames]
		more = ", ..."
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, screen.Printable(n.Name))
	}
	return strings.Join(names, ", ") + more
}

// yes tells whether --yes was given.
func (s *Session) yes() (bool, error) {
	var o struct{ Yes bool }
	err := s.Flags.Into(&o)
	return o.Yes, err
}

// Agree asks a person, and fails without a yes. If there is nobody to ask, --yes has to stand in the command; deed is what needs it.
func (s *Session) Agree(question, deed string) error {
	yes, err := s.yes()
	if err != nil || yes {
		return err
	}
	if !s.Interactive() {
		return Usagef("add --yes", "to %s needs a yes, and there is no terminal to ask on", deed)
	}
	fmt.Fprint(s.Stderr, screen.Fold(screen.Printable(question)+"? [y/N]", s.Screen(), "  ")+" ")
	answer, err := bufio.NewReader(s.Input()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(s.Stderr) // nobody has ended the line of the question
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}

// Input returns standard input, whose reads end when the command is to end.
func (s *Session) Input() io.Reader {
	return tty.Reader{From: s.Stdin, Until: s.ctx, Err: &EndedWith{Code: 130, Err: errors.New("interrupted")}}
}
