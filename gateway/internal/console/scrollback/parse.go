package scrollback

import (
	"time"
	"unicode"
)

// States of the parser.
const (
	ground   = iota
	escape   // behind ESC
	skip     // one more character of an escape belongs to it
	sequence // behind CSI
	text     // a string for the terminal itself, such as its title
	textEnd  // ESC within one: its end, if a backslash follows
)

// C0 and C1 controls by their names in ECMA-48.
const (
	bs  = '\b'
	ht  = '\t'
	lf  = '\n'
	vt  = '\v'
	ff  = '\f'
	cr  = '\r'
	bel = '\a'
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	ind = 0x84
	nel = 0x85
	ri  = 0x8d
	dcs = 0x90
	sos = 0x98
	csi = 0x9b
	st  = 0x9c
	osc = 0x9d
	pm  = 0x9e
	apc = 0x9f
)

// Bounds of a control sequence.
const (
	numbers = 16
	largest = 9999
)

// parser reads controls.
type parser struct {
	state   int
	args    []int
	private rune // such as ?; 0: none
	between bool // the sequence has an intermediate character, so it is none that is known here
}

// Write takes what the terminal was sent, at a time counted from the beginning.
func (s *Screen) Write(at time.Duration, sent string) error {
	s.now = max(s.now, at)
	for _, r := range sent {
		if s.err != nil {
			return s.err
		}
		s.take(r)
	}
	return s.err
}

func (s *Screen) take(r rune) {
	switch {
	case s.state == text || s.state == textEnd:
		s.inText(r)
	case r == esc:
		s.state = escape
	case r == can || r == sub:
		s.state = ground
	case r < ' ' || r == 0x7f:
		s.control(r)
	case r >= 0x80 && r < 0xa0:
		s.state = ground
		s.upper(r)
	default:
		s.plain(r)
	}
}

// plain takes a character that is no control.
func (s *Screen) plain(r rune) {
	switch s.state {
	case ground:
		if !s.other {
			s.print(r)
		}
	case escape:
		s.afterEscape(r)
	case skip:
		s.state = ground
	case sequence:
		s.inSequence(r)
	}
}

// control does what a control of C0 says. It can stand within a sequence.
func (s *Screen) control(r rune) {
	if s.other {
		return
	}
	switch r {
	case lf, vt, ff:
		s.down()
		s.full = false
	case cr:
		s.move(s.y, 0)
	case bs:
		s.move(s.y, s.x-1)
	case ht:
		s.move(s.y, (s.x/8+1)*8)
	}
}

// upper does what a control of C1 says.
func (s *Screen) upper(r rune) {
	switch {
	case r == csi:
		s.begin()
	case r == osc, r == dcs, r == sos, r == pm, r == apc:
		s.state = text
	case s.other:
	case r == ri:
		s.up()
		s.full = false
	case r == nel:
		s.down()
		s.move(s.y, 0)
	case r == ind:
		s.down()
		s.full = false
	}
}

// afterEscape takes the character behind ESC. ESC with one of @ to _ is a control of C1.
func (s *Screen) afterEscape(r rune) {
	s.state = ground
	switch {
	case r >= '@' && r <= '_':
		s.upper(r + 0x40)
	case r >= ' ' && r <= '/':
		s.state = skip
	case r == '7':
		s.keep()
	case r == '8':
		s.restore()
	case r == 'c': // a full reset
		s.back()
		s.push()
		s.Resize(s.width, s.height)
		s.move(0, 0)
	}
}

// inText leaves a string out, up to its end.
func (s *Screen) inText(r rune) {
	ended := s.state == textEnd && r == '\\'
	switch {
	case ended, r == bel, r == st, r == can, r == sub:
		s.state = ground
	case r == esc:
		s.state = textEnd
	case s.state == textEnd: // another escape ends the string too
		s.afterEscape(r)
	}
}

// begin begins a control sequence.
func (s *Screen) begin() {
	s.state = sequence
	s.args = append(s.args[:0], 0)
	s.private = 0
	s.between = false
}

func (s *Screen) inSequence(r rune) {
	last := len(s.args) - 1
	switch {
	case unicode.IsDigit(r) && r < 0x80:
		s.args[last] = min(s.args[last]*10+int(r-'0'), largest)
	case r == ';' || r == ':':
		if len(s.args) < numbers {
			s.args = append(s.args, 0)
		}
	case r >= '<' && r <= '?':
		s.private = r
	case r >= ' ' && r <= '/':
		s.between = true
	default: // the last character says what it is; another one breaks it off
		s.state = ground
		if r >= '@' && r <= '~' && !s.between {
			s.do(r)
		}
	}
}

// arg is a number of the sequence, and the usual one where it is left out or 0.
func (s *Screen) arg(i, usual int) int {
	if i >= len(s.args) || s.args[i] == 0 {
		return usual
	}
	return s.args[i]
}

// do does what a sequence says: it moves the cursor, or changes text or rows.
func (s *Screen) do(what rune) {
	if s.private == '?' && (what == 'h' || what == 'l') {
		s.mode(what == 'h')
	}
	if s.private != 0 || s.other {
		return
	}
	n := s.arg(0, 1)
	switch what {
	case 'A':
		s.move(s.y-n, s.x)
	case 'B', 'e':
		s.move(s.y+n, s.x)
	case 'C', 'a':
		s.move(s.y, s.x+n)
	case 'D':
		s.move(s.y, s.x-n)
	case 'E':
		s.move(s.y+n, 0)
	case 'F':
		s.move(s.y-n, 0)
	case 'G', '`':
		s.move(s.y, n-1)
	case 'd':
		s.move(n-1, s.x)
	case 'H', 'f':
		s.move(n-1, s.arg(1, 1)-1)
	case 's':
		s.keep()
	case 'u':
		s.restore()
	case 'J':
		s.eraseScreen(s.arg(0, 0))
	case 'K':
		s.eraseLine(s.arg(0, 0))
	case 'X':
		s.blank(s.y, s.x, s.x+n)
	case 'P':
		s.deleteCells(n)
	case '@':
		s.insertCells(n)
	case 'L':
		s.within(func() { s.insert(s.y, n) })
	case 'M':
		s.within(func() { s.scroll(s.y, n) })
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.insert(s.top, n)
	case 'b':
		s.repeat(n)
	case 'r':
		s.region(n-1, s.arg(1, s.height)-1)
	}
}

// mode takes the whole screen over, or gives it back.
func (s *Screen) mode(on bool) {
	for _, number := range s.args {
		switch number {
		case 47, 1047, 1049:
			if on {
				s.away()
			} else {
				s.back()
			}
		}
	}
}

func (s *Screen) keep() { s.savedY, s.savedX = s.y, s.x }

func (s *Screen) restore() { s.move(s.savedY, s.savedX) }
