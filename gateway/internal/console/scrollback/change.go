package scrollback

import "slices"

// within does something to rows where the cursor is among those that scroll.
func (s *Screen) within(do func()) {
	if s.y >= s.top && s.y <= s.bottom {
		do()
		s.move(s.y, 0)
	}
}

// region sets the rows that scroll.
func (s *Screen) region(top, bottom int) {
	bottom = min(bottom, s.height-1)
	if top >= bottom {
		return
	}
	s.top = top
	s.bottom = bottom
	s.move(0, 0)
}

// repeat writes the character before again. Nobody repeats more than a row.
func (s *Screen) repeat(n int) {
	for _, r := range s.last {
		for range min(n, s.width) {
			s.print(r)
		}
	}
}

// eraseScreen clears what is below the cursor, above it, or all. All is kept as text, as if it had scrolled away.
func (s *Screen) eraseScreen(what int) {
	switch {
	case what == 2, what == 0 && s.y == 0 && s.x == 0:
		s.push()
		s.flush()
	case what == 0:
		s.blank(s.y, s.x, s.width)
		s.rows = s.rows[:min(len(s.rows), s.y+1)]
	case what == 1:
		for y := range min(s.y, len(s.rows)) {
			s.blank(y, 0, s.width)
		}
		s.blank(s.y, 0, s.x+1)
	}
}

// eraseLine clears the row from the cursor on, up to it, or all.
func (s *Screen) eraseLine(what int) {
	from, to := 0, s.width
	switch what {
	case 0:
		from = s.x
	case 1:
		to = s.x + 1
	}
	if what <= 2 {
		s.blank(s.y, from, to)
	}
}

// blank clears the cells of a row from one column up to another.
func (s *Screen) blank(y, from, to int) {
	if y >= len(s.rows) {
		return
	}
	line := s.row(y)
	if to >= len(line.cells) {
		line.cells = line.cells[:min(from, len(line.cells))]
		line.wraps = false
		return
	}
	for x := from; x < to; x++ {
		line.cells[x] = " "
	}
}

// deleteCells takes cells away at the cursor. Those behind them move to the left.
func (s *Screen) deleteCells(n int) {
	line := s.row(s.y)
	if s.x < len(line.cells) {
		line.cells = slices.Delete(line.cells, s.x, min(s.x+n, len(line.cells)))
	}
}

// insertCells puts blanks in at the cursor. What is moved over the edge is gone.
func (s *Screen) insertCells(n int) {
	line := s.row(s.y)
	if s.x >= len(line.cells) {
		return
	}
	for range min(n, s.width-s.x) {
		line.cells = slices.Insert(line.cells, s.x, " ")
	}
	line.cells = line.cells[:min(len(line.cells), s.width)]
}
