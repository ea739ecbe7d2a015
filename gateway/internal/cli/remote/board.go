package remote

import (
	"fmt"
	"io"
	"os"
	"sync"

	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
)

// board is the terminal here as the node's programs and muster share it: their output goes through unchanged, and lines of muster's own
// stand between. It is safe for concurrent use.
type board struct {
	out *os.File

	mu    sync.Mutex
	raw   *tty.Raw // nil: the node has not got the terminal yet
	modes tty.Modes
	held  []string // lines that wait for the end of a sequence
	cover bool     // a line stands over a program's picture
}

func newBoard(out *os.File) *board { return &board{out: out} }

// through has all go through the terminal that was taken over.
func (b *board) through(raw *tty.Raw) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.raw = raw
}

// show shows what a program has written. What undoes it is known first: a signal can give the terminal back at any moment. That the
// terminal is gone shows where keys are read.
func (b *board) show(output []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.modes.Write(output)
	b.raw.Undo(b.modes.Undo())
	_, _ = b.raw.Write(output)
	if b.modes.Between() {
		for _, line := range b.held {
			b.put(line)
		}
		b.held = nil
	}
}

// say shows a line of muster's own.
func (b *board) say(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	line = screen.Printable(line)
	switch {
	case b.raw == nil:
		fmt.Fprintf(b.out, "muster: %s\n", line)
	case !b.modes.Between():
		b.held = append(b.held, line)
	default:
		b.put(line)
	}
}

// put writes a line: where a program has the whole screen, over its first line, else as a line of its own.
func (b *board) put(line string) {
	if b.modes.Full() {
		b.cover = true
		columns := max(tty.WindowSize(b.out).Columns, 1)
		_, _ = fmt.Fprintf(b.raw, "\x1b7\x1b[1;1H\x1b[0;7m%s\x1b[0m\x1b[K\x1b8", screen.Cut("muster: "+line, columns))
		return
	}
	before := ""
	if b.modes.Line {
		before = "\r\n"
	}
	b.modes.Line = false
	_, _ = io.WriteString(b.raw, before+"muster: "+line+"\r\n")
	b.raw.Undo(b.modes.Undo())
}

// covered tells once that a line stands over a program's picture, which the person has seen by now.
func (b *board) covered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.cover
	b.cover = false
	return was
}
