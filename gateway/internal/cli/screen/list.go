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
	Most  int  // if there is no screen, a cell that is wider than this does not widen the column; 0: no limit
	Wide  bool // with -o wide alone
	Below bool // a sentence: where the whole of it has no room, it goes on lines of its own, below its row
}

const (
	gap      = 2 // columns of the screen between two cells
	ellipsis = "…"
	stump    = 4 // cells are cut to this if nothing else is left to do
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
	below   []bool
	begun   bool
	err     error // the first that writing met
}

// NewList makes a list that is written to w, for a screen of limit columns; 0: it is no screen. With wide, the list has all columns.
func NewList(w io.Writer, wide bool, limit int, columns []Column) *List {
	l := &List{w: w, columns: columns, widths: make([]int, len(columns)), shown: make([]bool, len(columns)),
		below: make([]bool, len(columns))}
	if !wide {
		l.limit = limit
	}
	for i, c := range columns {
		l.shown[i] = !c.Wide || wide
	}
	return l
}

// Limit returns how many columns of the screen a row may take; 0: no limit.
func (l *List) Limit() int { return l.limit }

// Write writes rows, each with one cell for each column. It makes the cells safe to show. An empty cell means that the value is not known.
// The header comes before the first row.
func (l *List) Write(rows [][]string) error {
	begun := l.begun
	if !begun {
		header := make([]string, len(l.columns))
		for i, c := range l.columns {
			header[i] = c.Name
		}
		rows = append([][]string{header}, rows...)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = OrUnknown(row[i])
		}
	}
	l.fit(rows)
	l.begun = true
	for i, row := range rows {
		text := l.line(row) + "\n"
		if i > 0 || begun {
			text += l.sentences(row)
		}
		if _, err := io.WriteString(l.w, text); l.err == nil {
			l.err = err
		}
	}
	return l.err
}

// sentences are what stands below a row.
func (l *List) sentences(row []string) string {
	var text strings.Builder
	for i, cell := range row {
		if l.below[i] && cell != Unknown {
			for _, line := range wrapped(cell, l.limit-gap) {
				text.WriteString(strings.Repeat(" ", gap) + line + "\n")
			}
		}
	}
	return text.String()
}

// fit decides how wide the columns are. With the first rows it also decides which columns there are.
func (l *List) fit(rows [][]string) {
	for i, c := range l.columns {
		for _, row := range rows {
			if w := Width(row[i]); l.shown[i] && (l.limit > 0 || c.Most == 0 || w <= c.Most) {
				l.widths[i] = max(l.widths[i], w)
			}
		}
	}
	if l.limit == 0 {
		return
	}
	for i, c := range l.columns {
		if l.shown[i] && c.Below && !l.begun && Total(l.widths, gap) > l.limit {
			l.below[i], l.widths[i] = true, 0
		}
	}
	Fit(l.columns, l.widths, l.limit, gap, !l.begun)
	for i, w := range l.widths {
		l.shown[i] = w > 0
	}
	shrink(l.widths, l.limit, gap, func(int) int { return stump })
}

// Fit makes a row fit into limit columns of the screen, with gap blanks between two cells. If cutting cells cannot be enough and drop is
// true, it first drops the columns with the highest rank (their width becomes 0). Then it cuts the widest cells.
func Fit(columns []Column, widths []int, limit, gap int, drop bool) {
	cut := func(i int) int {
		if least := columns[i].Least; least > 0 {
			return min(widths[i], least)
		}
		return widths[i]
	}
	for drop && total(widths, gap, cut) > limit {
		last := -1
		for i, c := range columns {
			if widths[i] > 0 && c.Rank > 0 && (last < 0 || c.Rank > columns[last].Rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		widths[last] = 0
	}
	shrink(widths, limit, gap, func(i int) int { return columns[i].Least })
}

// Total returns how wide a row of these widths is.
func Total(widths []int, gap int) int {
	return total(widths, gap, func(i int) int { return widths[i] })
}

func total(widths []int, gap int, width func(int) int) int {
	sum := -gap
	for i, w := range widths {
		if w > 0 {
			sum += width(i) + gap
		}
	}
	return sum
}

// shrink makes the widest columns narrower first, and none narrower than its least; 0: it stays as it is.
func shrink(widths []int, limit, gap int, least func(int) int) {
	for over := Total(widths, gap) - limit; over > 0; over-- {
		widest := -1
		for i, w := range widths {
			if n := least(i); n > 0 && w > n && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// line is one row without spaces at its end. If there is no screen, a cell that is wider than its column's Most makes only its
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

// Cut shortens a text to this many columns of a screen.
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
