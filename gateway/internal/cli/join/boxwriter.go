package join

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"muster/gateway/internal/cli/screen"
)

// longestLine is how many bytes of a line are kept. A longer line is shown in parts.
const longestLine = 8 << 10

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

func (s *terminal) of(host string, single bool) *boxWriter {
	w := &boxWriter{terminal: s}
	if !single {
		w.host = host
		w.prefix = host + ": "
	}
	return w
}

// boxWriter is one box's part of the terminal. If its text cannot be printed, the box is joined all the same, and the command fails in
// the end.
type boxWriter struct {
	*terminal
	host   string // "": the only one
	prefix string
	rest   []byte
	kept   int // notes
}

func (w *boxWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		at := bytes.IndexByte(w.rest, '\n')
		switch {
		case at >= 0:
			w.line(w.rest[:at])
			w.rest = w.rest[at+1:]
		case len(w.rest) > longestLine:
			w.line(w.rest)
			w.rest = nil
		default:
			return len(p), nil
		}
	}
}

// flush shows a last line that has no end.
func (w *boxWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.line(w.rest)
		w.rest = nil
	}
}

func (w *boxWriter) line(raw []byte) {
	text := screen.Printable(strings.TrimRight(string(raw), "\r"))
	if w.host != "" && w.kept < mostNotes && w.keep(w.host, text) {
		w.kept++
		return
	}
	fmt.Fprintf(w.to, "%s%s\n", w.prefix, text)
}
