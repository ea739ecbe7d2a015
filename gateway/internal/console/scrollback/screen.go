// Package scrollback gives the text that a terminal has shown, line by line, as the terminal's own scrollback would have it.
//
// It reads what a terminal was sent (ECMA-48, and what xterm's "Control Sequences" adds to it), as far as that moves, writes or erases
// text. Colours, titles and all else that a terminal could be told to do are left out. What was erased by clearing the screen is kept, as
// many terminals do. What a program wrote over is gone. Of a program that takes the whole screen over there is one line, which says so.
package scrollback

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"muster/gateway/internal/cli/screen"
)

// Bounds of a screen, so that nothing that a terminal is sent takes much memory.
const (
	widest  = 500     // columns
	highest = 200     // rows
	longest = 8 << 10 // bytes of a line that wraps; a longer one is several lines
	most    = 8       // characters that are drawn over one another
)

// Line is one line of the text.
type Line struct {
	At    time.Duration // of its last change, since the beginning
	Text  string        // without controls; empty for what follows
	Whole time.Duration // for so long a program had the whole screen, until At; 0: this is a line of text
}

// row is one row of the screen. A cell has a character with what is drawn over it; the second cell of a wide one is empty.
type row struct {
	at    time.Duration
	cells []string
	wraps bool // its line goes on in the next row
}

// Screen is a terminal. It is for one goroutine.
type Screen struct {
	give func(Line) error
	err  error // of give: nothing more is given

	width, height int
	rows          []row // from the top; those below are empty
	y, x          int
	full          bool // the next character wraps: the last column has one
	top, bottom   int  // rows that scroll
	savedY        int
	savedX        int
	last          string // the character before, which can be repeated

	now     time.Duration
	taken   time.Duration // when a program took the whole screen over
	other   bool          // a program has the whole screen
	pending Line          // the beginning of a line that wraps
	began   bool          // there is one

	parser
}

// New makes an empty terminal. It calls give with each line that leaves the screen. An error of give ends the work: Write and End return
// it.
func New(width, height int, give func(Line) error) *Screen {
	s := &Screen{give: give}
	s.Resize(width, height)
	return s
}

// Resize sets the size of the terminal, in columns and rows. Text is not wrapped anew. A size that no terminal can have is brought within
// bounds.
func (s *Screen) Resize(width, height int) {
	s.width = min(max(width, 1), widest)
	s.height = min(max(height, 1), highest)
	for len(s.rows) > s.height {
		s.leave(s.rows[0])
		s.rows = slices.Delete(s.rows, 0, 1)
		s.y--
	}
	s.top = 0
	s.bottom = s.height - 1
	s.move(s.y, s.x)
}

// End calls give with what is still on the screen.
func (s *Screen) End() error {
	s.back()
	s.push()
	s.flush()
	return s.err
}

// move sets the cursor, and keeps it on the screen.
func (s *Screen) move(y, x int) {
	s.y = min(max(y, 0), s.height-1)
	s.x = min(max(x, 0), s.width-1)
	s.full = false
}

// row is one that is to be changed now.
func (s *Screen) row(y int) *row {
	for len(s.rows) <= y {
		s.rows = append(s.rows, row{at: s.now})
	}
	s.rows[y].at = s.now
	return &s.rows[y]
}

// print writes a character where the cursor is.
func (s *Screen) print(r rune) {
	wide := screen.Of(r)
	if wide == 0 || unicode.Is(unicode.Cf, r) { // formats, such as one that turns the direction round, are drawn nowhere
		s.over(r)
		return
	}
	if s.full || s.x+wide > s.width && s.width > 1 {
		s.row(s.y).wraps = true
		s.down()
		s.move(s.y, 0)
	}
	s.last = string(r)
	line := s.row(s.y)
	line.fill(min(s.x+wide, s.width))
	line.cells[s.x] = s.last
	if wide == 2 && s.x+1 < s.width {
		line.cells[s.x+1] = ""
	}
	s.full = s.x+wide >= s.width
	s.x = min(s.x+wide, s.width-1)
}

// over draws a character over the one before the cursor.
func (s *Screen) over(r rune) {
	x := s.x
	if !s.full {
		x--
	}
	line := s.row(s.y)
	for x > 0 && x < len(line.cells) && line.cells[x] == "" {
		x--
	}
	if x < 0 {
		return
	}
	line.fill(x + 1)
	if len([]rune(line.cells[x])) < most {
		line.cells[x] += string(r)
	}
}

// fill makes a row so long, with blanks.
func (l *row) fill(length int) {
	for len(l.cells) < length {
		l.cells = append(l.cells, " ")
	}
}

// down moves the cursor to the next row. At the last one that scrolls, the rows scroll.
func (s *Screen) down() {
	switch {
	case s.y == s.bottom:
		s.scroll(s.top, 1)
	case s.y < s.height-1:
		s.y++
	}
}

// up is down in the other direction.
func (s *Screen) up() {
	switch {
	case s.y == s.top:
		s.insert(s.top, 1)
	case s.y > 0:
		s.y--
	}
}

// scroll takes rows away at a place, and adds empty ones at the last row that scrolls. What leaves at the top of the screen is kept.
func (s *Screen) scroll(from, count int) {
	if from > s.bottom {
		return
	}
	for range min(count, s.bottom-from+1) {
		s.row(max(from, s.bottom))
		if from == 0 {
			s.leave(s.rows[0])
		}
		s.rows = slices.Delete(s.rows, from, from+1)
		s.rows = slices.Insert(s.rows, s.bottom, row{at: s.now})
	}
}

// insert adds empty rows at a place. As many leave at the last row that scrolls.
func (s *Screen) insert(from, count int) {
	if from > s.bottom {
		return
	}
	for range min(count, s.bottom-from+1) {
		s.row(s.bottom)
		s.rows = slices.Delete(s.rows, s.bottom, s.bottom+1)
		s.rows = slices.Insert(s.rows, from, row{at: s.now})
	}
}

// push gives all that is on the screen, and leaves it empty.
func (s *Screen) push() {
	end := len(s.rows)
	for end > 0 && s.rows[end-1].text() == "" {
		end--
	}
	for _, line := range s.rows[:end] {
		s.leave(line)
	}
	s.rows = nil
}

func (l *row) text() string { return strings.TrimRight(strings.Join(l.cells, ""), " ") }

// leave gives a row that leaves the screen, with those that it goes on from.
func (s *Screen) leave(l row) {
	text := strings.Join(l.cells, "")
	if !l.wraps {
		text = strings.TrimRight(text, " ")
	}
	s.pending.Text += text
	s.pending.At = max(s.pending.At, l.at)
	s.began = true
	if !l.wraps || len(s.pending.Text) > longest {
		s.flush()
	}
}

// flush gives the line that was gathered.
func (s *Screen) flush() {
	if !s.began {
		return
	}
	line := s.pending
	s.pending = Line{}
	s.began = false
	if s.err == nil {
		s.err = s.give(line)
	}
}

// away begins what a program does with the whole screen. Until it is back nothing is drawn.
func (s *Screen) away() {
	if !s.other {
		s.other = true
		s.taken = s.now
	}
}

// back ends it. What was on the screen before comes first.
func (s *Screen) back() {
	if !s.other {
		return
	}
	s.other = false
	s.push()
	s.flush()
	if s.err == nil {
		s.err = s.give(Line{At: s.now, Whole: max(s.now-s.taken, 1)})
	}
	s.move(0, 0)
}
