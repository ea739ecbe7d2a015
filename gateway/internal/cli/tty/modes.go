package tty

import (
	"slices"
	"strconv"
	"strings"
)

// Modes follows what programs make a terminal do. So it can be undone if the programs of the node had no time for that, and so a line of
// muster's own does not break into a sequence. It knows the sequences of ECMA-48 and the modes of xterm that programs use.
type Modes struct {
	state state
	text  []byte // of the sequence that is being read
	more  int    // bytes that are missing of a character in UTF-8
	on    map[string]bool
	Line  bool // something stands on the line of the cursor
}

type state int

const (
	stateGround state = iota
	stateEscape       // behind ESC
	stateMark         // behind ESC and what takes one more byte, such as a set of characters
	stateCSI
	stateString // OSC, DCS and others, up to their end
	stateStringEscape
)

const longestCSI = 1 << 10 // bytes of a sequence that are read; terminals obey some thirty numbers of one

// undoing is what ends each thing that a program can have switched on, in the order in which it is undone.
func undoing() [][2]string {
	pairs := [][2]string{{"region", "\x1b7\x1b[r\x1b8"}, {"kitty", "\x1b[<99u"}, {"modify", "\x1b[>4;0m"}, {"cursor", "\x1b[0 q"},
		{"keypad", "\x1b>"}, {"shift", "\x0f"}, {"charset", "\x1b(B"}, {"style", "\x1b[m"}}
	for _, number := range switchedOff() {
		pairs = append(pairs, [2]string{number, "\x1b[?" + number + "h"})
	}
	for _, number := range switchedOn() {
		pairs = append(pairs, [2]string{number, "\x1b[?" + number + "l"})
	}
	return pairs
}

// switchedOff are the private modes that are on in a terminal at rest: lines that go on, and the cursor.
func switchedOff() []string { return []string{"7", "25"} }

// switchedOn are those that are off: keys in other sequences, the mouse, focus, pasting, updates at once, and at last the other screen.
func switchedOn() []string {
	return append([]string{"1", "5", "6", "66", "9", "1000", "1002", "1003", "1004", "1005", "1006", "1015", "1016", "2004", "2026", "2031"},
		otherScreens()...)
}

func otherScreens() []string { return []string{"47", "1047", "1049"} }

// Write follows what is shown. It never fails.
func (m *Modes) Write(shown []byte) (int, error) {
	for _, c := range shown {
		m.step(c)
	}
	return len(shown), nil
}

func (m *Modes) step(c byte) {
	switch m.state {
	case stateGround:
		m.ground(c)
	case stateEscape:
		m.escape(c)
	case stateMark:
		m.set("charset", m.text[0] == '(' && c != 'B')
		m.state = stateGround
	case stateCSI:
		m.csi(c)
	case stateString:
		m.string(c)
	case stateStringEscape:
		m.state = stateGround
		if c != '\\' {
			m.escape(c)
		}
	}
}

func (m *Modes) ground(c byte) {
	switch {
	case c == escapeByte:
		m.state = stateEscape
		m.more = 0
	case c == '\n' || c == '\r':
		m.Line = false
	case c == 0x0e || c == 0x0f:
		m.set("shift", c == 0x0e)
	case c < 0x20:
	case c >= 0x80 && c < 0xc0:
		m.more = max(m.more-1, 0)
	default:
		m.Line = true
		m.more = following(c)
	}
}

// following is how many bytes follow the first one of a character.
func following(c byte) int {
	switch {
	case c >= 0xf0:
		return 3
	case c >= 0xe0:
		return 2
	case c >= 0xc0:
		return 1
	}
	return 0
}

func (m *Modes) escape(c byte) {
	m.state = stateGround
	m.text = m.text[:0]
	switch c {
	case '[':
		m.state = stateCSI
	case ']', 'P', 'X', '^', '_':
		m.state = stateString
	case '(', ')', '*', '+', '#', '%', ' ':
		m.state = stateMark
		m.text = append(m.text, c)
	case '=', '>':
		m.set("keypad", c == '=')
	case 'c':
		m.on = nil
	case escapeByte:
		m.state = stateEscape
	}
}

func (m *Modes) string(c byte) {
	switch c {
	case 0x07, 0x18, 0x1a: // BEL ends OSC; CAN and SUB end everything
		m.state = stateGround
	case escapeByte:
		m.state = stateStringEscape
	}
}

func (m *Modes) csi(c byte) {
	switch {
	case c == escapeByte:
		m.state = stateEscape
	case c == 0x18 || c == 0x1a:
		m.state = stateGround
	case c >= 0x40 && c <= 0x7e:
		m.state = stateGround
		m.sequence(string(m.text), c)
	case c < 0x20: // a terminal obeys it, and goes on with the sequence
		m.ground(c)
	case c == 0x7f: // it does nothing
	case len(m.text) < longestCSI:
		m.text = append(m.text, c)
	}
}

// sequence is one whole control sequence.
func (m *Modes) sequence(text string, final byte) {
	private, is := strings.CutPrefix(text, "?")
	switch {
	case is && (final == 'h' || final == 'l'):
		for _, number := range strings.Split(private, ";") {
			m.private(number, final == 'h')
		}
	case final == 'r' && !is:
		m.set("region", text != "" && text != ";")
	case final == 'm' && strings.HasPrefix(text, ">4;"):
		m.set("modify", text != ">4;0")
	case final == 'm' && !strings.HasPrefix(text, ">") && !is:
		m.set("style", text != "" && text != "0")
	case final == 'u' && strings.HasPrefix(text, ">"):
		m.set("kitty", true)
	case final == 'u' && strings.HasPrefix(text, "<"):
		m.set("kitty", false)
	case final == 'q' && strings.HasSuffix(text, " "):
		m.set("cursor", text != " " && text != "0 ")
	case final == 'p' && text == "!": // a soft reset leaves the mouse, pasting and the screen as they are
		for _, what := range []string{"region", "keypad", "shift", "charset", "style", "1", "6", "25"} {
			m.set(what, false)
		}
	}
}

func (m *Modes) private(number string, on bool) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return
	}
	number = strconv.Itoa(n) // 0025 is 25
	switch {
	case slices.Contains(switchedOff(), number):
		m.set(number, !on)
	case slices.Contains(switchedOn(), number):
		m.set(number, on)
	}
}

func (m *Modes) set(what string, on bool) {
	if m.on[what] == on {
		return
	}
	if !on {
		delete(m.on, what)
		return
	}
	if m.on == nil {
		m.on = map[string]bool{}
	}
	m.on[what] = true
}

// Between reports whether the next byte begins something new.
func (m *Modes) Between() bool { return m.state == stateGround && m.more == 0 }

// Full reports whether a program has the whole screen to itself.
func (m *Modes) Full() bool {
	return slices.ContainsFunc(otherScreens(), func(number string) bool { return m.on[number] })
}

// Undo returns the bytes that put the terminal back as it was.
func (m *Modes) Undo() string {
	var out strings.Builder
	switch m.state {
	case stateGround:
	case stateString, stateStringEscape:
		out.WriteString("\x1b\\")
	default:
		out.WriteByte(0x18) // CAN: the sequence that has begun does not count
	}
	for _, pair := range undoing() {
		if m.on[pair[0]] {
			out.WriteString(pair[1])
		}
	}
	if m.Line {
		out.WriteString("\r\n")
	}
	return out.String()
}
