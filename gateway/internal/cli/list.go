package cli

import (
	"io"
	"strings"
)

// column is one column of a list.
type column struct {
	name  string
	rank  int  // 0 is always there; of the others the one of the highest rank is the first to go where the screen is too narrow
	least int  // columns of the screen to which its cells may be cut; 0: they are never cut
	most  int  // columns of the screen that one cell may claim from all the others where nothing is cut; 0: any
	wide  bool // with -o wide alone
}

const (
	gap      = 2 // columns of the screen between two cells
	ellipsis = "…"
	stump    = 4 // to which cells are cut where nothing else is left to do
)

// list writes rows under a header. On a terminal no row is wider than the screen: columns are dropped by rank and cells are cut.
// Elsewhere, and with -o wide, everything is there. It can be written page by page: columns stay what the first page made them, but
// for growing where there is room.
type list struct {
	w       io.Writer
	columns []column
	limit   int // columns of the screen; 0: no limit
	widths  []int
	shown   []bool
	begun   bool
	err     error // the first that writing met
}

// list makes one for a command's output in a form of --output.
func (s *session) list(format string, columns []column) *list {
	l := &list{w: s.Stdout, columns: columns, widths: make([]int, len(columns)), shown: make([]bool, len(columns))}
	if format != "wide" {
		l.limit = s.screen()
	}
	for i, c := range columns {
		l.shown[i] = !c.wide || format == "wide"
	}
	return l
}

// write writes rows of a cell for each column, the header before the first.
func (l *list) write(rows [][]string) error {
	if !l.begun {
		header := make([]string, len(l.columns))
		for i, c := range l.columns {
			header[i] = c.name
		}
		rows = append([][]string{header}, rows...)
	}
	l.fit(rows)
	l.begun = true
	for _, row := range rows {
		if _, err := io.WriteString(l.w, l.line(row)+"\n"); l.err == nil {
			l.err = err
		}
	}
	return l.err
}

// fit decides how wide the columns are, and, with the first rows, which of them are there.
func (l *list) fit(rows [][]string) {
	for i, c := range l.columns {
		for _, row := range rows {
			if w := width(row[i]); l.limit > 0 || c.most == 0 || w <= c.most {
				l.widths[i] = max(l.widths[i], w)
			}
		}
	}
	if l.limit == 0 {
		return
	}
	for !l.begun && l.total(true) > l.limit && l.drop() {
	}
	l.shrink(func(c column) int { return c.least })
	l.shrink(func(column) int { return stump })
}

// total is how wide a row is: as it stands, or with all cells cut as far as they may be.
func (l *list) total(cut bool) int {
	sum := -gap
	for i, c := range l.columns {
		if !l.shown[i] {
			continue
		}
		w := l.widths[i]
		if cut && c.least > 0 {
			w = min(w, c.least)
		}
		sum += w + gap
	}
	return sum
}

// drop takes the least important column away.
func (l *list) drop() bool {
	last := -1
	for i, c := range l.columns {
		if l.shown[i] && c.rank > 0 && (last < 0 || c.rank > l.columns[last].rank) {
			last = i
		}
	}
	if last >= 0 {
		l.shown[last] = false
	}
	return last >= 0
}

// shrink cuts the widest cells first, none below its least.
func (l *list) shrink(least func(column) int) {
	for over := l.total(false) - l.limit; over > 0; over-- {
		widest := -1
		for i, c := range l.columns {
			if n := least(c); l.shown[i] && n > 0 && l.widths[i] > n && (widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		l.widths[widest]--
	}
}

// line is one row; nothing pads its end. A cell that may not claim its width from the others makes its own row longer.
func (l *list) line(row []string) string {
	var line strings.Builder
	for i, cell := range row {
		if !l.shown[i] {
			continue
		}
		if l.limit > 0 {
			cell = cut(cell, l.widths[i])
		}
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", max(l.widths[i]-width(cell), 0)+gap))
	}
	return strings.TrimRight(line.String(), " ")
}

// cut makes a text fit into so many columns of a screen.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	var out strings.Builder
	left := columns - width(ellipsis)
	for _, r := range s {
		if left -= width(string(r)); left < 0 {
			break
		}
		out.WriteRune(r)
	}
	if columns < width(ellipsis) {
		return ""
	}
	return out.String() + ellipsis
}
