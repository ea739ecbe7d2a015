package join

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"muster/gateway/internal/cli/screen"
)

// longestLine is how many bytes of a line are kept. A longer line is shown in parts.
const longestLine = 8 << 10

// terminal is what several boxes print to. Each line is whole, and the box's name stands before it.
type terminal struct {
	mu sync.Mutex
	to io.Writer
}

func (s *terminal) of(host string, single bool) *boxWriter {
	w := &boxWriter{terminal: s}
	if !single {
		w.prefix = host + ": "
	}
	return w
}

// boxWriter is one box's part of the terminal. If its text cannot be printed, the box is joined all the same, and the command fails in
// the end.
type boxWriter struct {
	*terminal
	prefix string
	rest   []byte
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
	fmt.Fprintf(w.to, "%s%s\n", w.prefix, screen.Printable(strings.TrimRight(string(raw), "\r")))
}
