package screen

import (
	"io"
	"strings"
)

// Column is one column of a list.
type Column struct {
	Name  string
	Rank  int  // where the screen is too narrow, the column of the highest rank is left out first; 0: it is always there
	Least int  // its cells may be cut to this width, in columns of the screen; 0: they are never cut
	Most  int  // where there is no screen, a cell that is wider than this does not widen the column; 0: no limit
	Wide  bool // with -o wide alone
}

const (
	gap      = 2 // columns of the screen between two cells
	ellipsis = "…"
	stump    = 4 // cells are cut to this where nothing else is left to do
)

// List writes rows under a header. On a terminal no row is wider than the screen: columns are dropped by rank, and cells are cut.
// Elsewhere, and with -o wide, everything is there.
//
// It can be written page by page. The first page decides which columns there are; later pages can make a column wider where there
// is room.
type List struct {
	w       io.Writer
	columns []Column
	limit   int // columns of the screen; 0: no limit
	widths  []int
	shown   []bool
	begun   bool
	err     error // the first that writing met
}

// NewList makes a list that is written to w, for a screen of so many columns; 0: it is no screen. A wide one has all columns.
func NewList(w io.Writer, wide bool, limit int, columns []Column) *List {
	l := &List{w: w, columns: columns, widths: make([]int, len(columns)), shown: make([]bool, len(columns))}
	if !wide {
		l.limit = limit
	}
	for i, c := range columns {
		l.shown[i] = !c.Wide || wide
	}
	return l
}

// Limit is how many columns of the screen a row may take; 0: no limit.
func (l *List) Limit() int { return l.limit }

// Write writes rows, each with one cell for each column. The header comes before the first row.
func (l *List) Write(rows [][]string) error {
	if !l.begun {
		header := make([]string, len(l.columns))
		for i, c := range l.columns {
			header[i] = c.Name
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

// fit decides how wide the columns are. With the first rows it also decides which columns there are.
func (l *List) fit(rows [][]string) {
	for i, c := range l.columns {
		for _, row := range rows {
			if w := Width(row[i]); l.limit > 0 || c.Most == 0 || w <= c.Most {
				l.widths[i] = max(l.widths[i], w)
			}
		}
	}
	if l.limit == 0 {
		return
	}
	for !l.begun && l.total(true) > l.limit && l.drop() {
	}
	l.shrink(func(c Column) int { return c.Least })
	l.shrink(func(Column) int { return stump })
}

// total is how wide a row is: as it stands, or with all cells cut as far as they may be.
func (l *List) total(cut bool) int {
	sum := -gap
	for i, c := range l.columns {
		if !l.shown[i] {
			continue
		}
		w := l.widths[i]
		if cut && c.Least > 0 {
			w = min(w, c.Least)
		}
		sum += w + gap
	}
	return sum
}

// drop takes the least important column away.
func (l *List) drop() bool {
	last := -1
	for i, c := range l.columns {
		if l.shown[i] && c.Rank > 0 && (last < 0 || c.Rank > l.columns[last].Rank) {
			last = i
		}
	}
	if last >= 0 {
		l.shown[last] = false
	}
	return last >= 0
}

// shrink makes the widest columns narrower first, and none narrower than its least.
func (l *List) shrink(least func(Column) int) {
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

// line is one row without spaces at its end. Where there is no screen, a cell that is wider than its column's Most makes only its
// own row longer.
func (l *List) line(row []string) string {
	var line strings.Builder
	for i, cell := range row {
		if !l.shown[i] {
			continue
		}
		if l.limit > 0 {
			cell = cut(cell, l.widths[i])
		}
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", max(l.widths[i]-Width(cell), 0)+gap))
	}
	return strings.TrimRight(line.String(), " ")
}

// Cut makes a text fit into so many columns of a screen.
func Cut(s string, columns int) string { return cut(s, columns) }

func cut(s string, columns int) string {
	if Width(s) <= columns {
		return s
	}
	var out strings.Builder
	left := columns - Width(ellipsis)
	for _, r := range s {
		if left -= Width(string(r)); left < 0 {
			break
		}
		out.WriteRune(r)
	}
	if columns < Width(ellipsis) {
		return ""
	}
	return out.String() + ellipsis
}
