package join

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"muster/gateway/internal/cli/screen"
)

// terminal is what several boxes print to. Each line is whole, and the box's name stands before it. A note, such as how the agent starts
// after a reboot, is mostly the same on all: it is kept, and told once.
type terminal struct {
	mu    sync.Mutex
	to    io.Writer
	notes []note
}

// note is what boxes note alike.
type note struct {
	text string
	of   []string
}

// noteMark begins the lines of a join that tell what a person may do later.
const noteMark = "note: "

// tellNotes prints what was kept.
func (s *terminal) tellNotes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		fmt.Fprintf(s.to, "%s%s (%s)\n", noteMark, n.text, screen.Cut(strings.Join(n.of, ", "), longestNames))
	}
}

// longestNames is how many characters of the names of boxes stand behind a note.
const longestNames = 200

// mostNotes is how many notes are kept of one box, because a box decides what it writes. Further ones are lines as others.
const mostNotes = 20

// keep keeps a note of a box; false: the line is none.
func (s *terminal) keep(host, line string) bool {
	text, ok := strings.CutPrefix(strings.TrimSpace(line), noteMark)
	if !ok {
		return false
	}
	at := slices.IndexFunc(s.notes, func(n note) bool { return n.text == text })
	if at < 0 {
		at = len(s.notes)
		s.notes = append(s.notes, note{text: text})
	}
	if !slices.Contains(s.notes[at].of, host) {
		s.notes[at].of = append(s.notes[at].of, host)
	}
	return true
}

// of is one box's part of the terminal. If its text cannot be printed, the box is joined all the same, and the command fails in the end.
func (s *terminal) of(host string, single bool) *screen.Lines {
	prefix := host + ": "
	if single {
		prefix = ""
	}
	kept := 0 // notes
	return &screen.Lines{Safe: true, Print: func(text []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for line := range strings.Lines(string(text)) {
			if !single && kept < mostNotes && s.keep(host, line) {
				kept++
				continue
			}
			fmt.Fprint(s.to, prefix+line)
		}
		return nil
	}}
}
