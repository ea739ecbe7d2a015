package tty

import (
	"fmt"
	"strings"
)

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows int }

// What is believed of a terminal's size.
const (
	usualColumns = 80
	usualRows    = 24
	most         = 1000
)

// believed is a size that can be drawn. Some terminals say 0.
func believed(columns, rows int) Size {
	if columns <= 0 {
		columns = usualColumns
	}
	if rows <= 0 {
		rows = usualRows
	}
	return Size{Columns: min(columns, most), Rows: min(rows, most)}
}

// Control sequences.
const (
	beginUpdate = "\x1b[?2026h" // the terminal shows nothing of an update before its end
	endUpdate   = "\x1b[?2026l"
	clearAll    = "\x1b[0m\x1b[2J"
	clearLine   = "\x1b[K"
	plain       = "\x1b[0m"
	enter       = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the other screen, no cursor, no new line at the end of a line
	leave       = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// painter knows what a terminal shows.
type painter struct {
	shown []string
	blank bool // nothing is known of what is on the screen
}

// paint is what makes the terminal show lines; empty: it shows them already.
func (p *painter) paint(lines []string, rows int) string {
	lines = lines[:min(len(lines), rows)]
	var out strings.Builder
	if p.blank {
		out.WriteString(clearAll)
		p.shown = nil
	}
	for i := range max(len(lines), len(p.shown)) {
		line := ""
		if i < len(lines) {
			line = lines[i]
		}
		if i < len(p.shown) && p.shown[i] == line || i >= len(p.shown) && line == "" {
			continue
		}
		// The line is cleared first: at its end, the cursor may stand on the last character.
		fmt.Fprintf(&out, "\x1b[%d;1H%s%s%s", i+1, clearLine, line, plain)
	}
	p.blank = false
	p.shown = append(p.shown[:0], lines...)
	if out.Len() == 0 {
		return ""
	}
	return beginUpdate + out.String() + endUpdate
}
