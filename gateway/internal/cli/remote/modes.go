package remote

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// modes follows what a terminal is made to do, so that it can be undone where the programs of the node had no time for that, and so that a
// line of muster's own does not break into a sequence. It knows the sequences of ECMA-48 and the modes of xterm that programs use.
type modes struct {
	state state
	text  []byte // of the sequence that is being read
	more  int    // bytes that are missing of a character in UTF-8
	on    map[string]bool
	line  bool // something stands on the line of the cursor
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

const (
	esc        = 0x1b
	longestCSI = 64 // bytes; what is longer is no sequence that programs use
)

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
func (m *modes) Write(shown []byte) (int, error) {
	for _, c := range shown {
		m.step(c)
	}
	return len(shown), nil
}

func (m *modes) step(c byte) {
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

func (m *modes) ground(c byte) {
	switch {
	case c == esc:
		m.state = stateEscape
		m.more = 0
	case c == '\n' || c == '\r':
		m.line = false
	case c == 0x0e || c == 0x0f:
		m.set("shift", c == 0x0e)
	case c < 0x20:
	case c >= 0x80 && c < 0xc0:
		m.more = max(m.more-1, 0)
	default:
		m.line = true
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

func (m *modes) escape(c byte) {
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
	case esc:
		m.state = stateEscape
	}
}

func (m *modes) string(c byte) {
	switch c {
	case 0x07, 0x18, 0x1a: // BEL ends OSC; CAN and SUB end everything
		m.state = stateGround
	case esc:
		m.state = stateStringEscape
	}
}

func (m *modes) csi(c byte) {
	switch {
	case c == esc:
		m.state = stateEscape
	case c == 0x18 || c == 0x1a:
		m.state = stateGround
	case c >= 0x40 && c <= 0x7e:
		m.state = stateGround
		m.sequence(string(m.text), c)
	case len(m.text) < longestCSI:
		m.text = append(m.text, c)
	}
}

// sequence is one whole control sequence.
func (m *modes) sequence(text string, final byte) {
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
	case final == 'p' && text == "!":
		m.on = nil
	}
}

func (m *modes) private(number string, on bool) {
	if _, err := strconv.Atoi(number); err != nil {
		return
	}
	switch {
	case slices.Contains(switchedOff(), number):
		m.set(number, !on)
	case slices.Contains(switchedOn(), number):
		m.set(number, on)
	}
}

func (m *modes) set(what string, on bool) {
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

// between tells that the next byte begins something new.
func (m *modes) between() bool { return m.state == stateGround && m.more == 0 }

// full tells that a program has the whole screen to itself.
func (m *modes) full() bool {
	return slices.ContainsFunc(otherScreens(), func(number string) bool { return m.on[number] })
}

// undo is what makes the terminal as it was.
func (m *modes) undo() string {
	var out strings.Builder
	switch m.state {
	case stateGround:
	case stateString, stateStringEscape:
		out.WriteString("\x1b\\")
	default:
		out.WriteByte(0x18) // CAN: the sequence that has begun does not count
	}
	on := maps.Clone(m.on)
	for _, pair := range undoing() {
		if on[pair[0]] {
			out.WriteString(pair[1])
		}
	}
	if m.line {
		out.WriteString("\r\n")
	}
	return out.String()
}
