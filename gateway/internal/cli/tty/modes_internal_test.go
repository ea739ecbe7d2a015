package tty

import (
	"bytes"
	"strings"
	"testing"
)

// TestModes: what programs switch on is undone, and nothing else.
func TestModes(t *testing.T) {
	for shown, want := range map[string]string{
		"":                            "",
		"hello\r\n":                   "",
		"$ ":                          "\r\n",
		"\x1b[?1049h":                 "\x1b[?1049l",
		"\x1b[?1049h\x1b[?1049l":      "",
		"\x1b[?25l":                   "\x1b[?25h",
		"\x1b[?7l\x1b[?7h":            "",
		"\x1b[?1;2004h":               "\x1b[?1l\x1b[?2004l",
		"\x1b[?1000;1006h\x1b[?1049h": "\x1b[?1000l\x1b[?1006l\x1b[?1049l",
		"\x1b[?12345h":                "",
		"\x1b[31m":                    "\x1b[m",
		"\x1b[31m\x1b[0m":             "",
		"\x1b[2;10r":                  "\x1b7\x1b[r\x1b8",
		"\x1b[2;10r\x1b[r":            "",
		"\x1b(0":                      "\x1b(B",
		"\x1b(0\x1b(B":                "",
		"\x0e":                        "\x0f",
		"\x1b=":                       "\x1b>",
		"\x1b[>1u":                    "\x1b[<99u",
		"\x1b[>4;2m":                  "\x1b[>4;0m",
		"\x1b[5 q":                    "\x1b[0 q",
		"\x1b[?25l\x1bc":              "",
		"\x1b[?25l\x1b[!p":            "",
		"\x1b]0;title\x07":            "",
		"\x1b]0;title\x1b\\":          "",
		"\x1b]0;titl":                 "\x1b\\",
		"\x1b[?25":                    "\x18",
		"\x1b]0;?25l\x1b[?5h":         "\x1b[?5l", // the string ends with the escape
		"\x1b[?2\x1b[?25l":            "\x1b[?25h",
		"\x1b[?25\x18l\r":             "",
		"\x1b[?0025l":                 "\x1b[?25h",
		"\x1b[?2\n5\x0e\x7fl":         "\x0f\x1b[?25h", // controls within a sequence are obeyed, and it goes on
		"\x1b[?1000;25;1049h\x1b[!p":  "\x1b[?1000l\x1b[?1049l",
		"\x1b[?" + strings.Repeat("3;", 40) + "1003h": "\x1b[?1003l",
	} {
		var m Modes
		for i := range len(shown) {
			_, _ = m.Write([]byte(shown[i : i+1]))
		}
		if got := m.Undo(); got != want {
			t.Errorf("%q is undone by %q, want %q", shown, got, want)
		}
	}
}

// TestUndoing: every row of the table is reached by some output.
func TestUndoing(t *testing.T) {
	var m Modes
	_, _ = m.Write([]byte("\x1b[2;3r\x1b[>1u\x1b[>4;1m\x1b[3 q\x1b=\x0e\x1b(0\x1b[1m"))
	for _, number := range switchedOff() {
		_, _ = m.Write([]byte("\x1b[?" + number + "l"))
	}
	for _, number := range switchedOn() {
		_, _ = m.Write([]byte("\x1b[?" + number + "h"))
	}
	undone := m.Undo()
	for _, pair := range undoing() {
		if !strings.Contains(undone, pair[1]) {
			t.Errorf("%s is not undone", pair[0])
		}
	}
	_, _ = m.Write([]byte(undone))
	if got := m.Undo(); got != "" {
		t.Errorf("what undoes everything leaves %q to undo", got)
	}
}

// TestBetween: a line of muster's own goes between sequences and characters, never into one.
func TestBetween(t *testing.T) {
	for shown, want := range map[string]bool{
		"":  true,
		"x": true, "é": true, "é"[:1]: false, "日": true, "日"[:2]: false, "\x1b": false, "\x1b[3": false, "\x1b[31m": true,
		"\x1b]0;x": false, "\x1b(": false, "\x1b(B": true, "😀"[:3]: false, "😀": true, "\xe6\r": false, "\xe6\x1b[m": true,
	} {
		var m Modes
		_, _ = m.Write([]byte(shown))
		if m.Between() != want {
			t.Errorf("%q: between is %v", shown, !want)
		}
	}
}

// FuzzModes: whatever a node writes, what undoes it leaves a terminal at rest.
func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2;3r\x1b]0;x\x07日"))
	f.Add([]byte("\x1b[?1;25l\x1bP\x1b\\"))
	f.Fuzz(func(t *testing.T, shown []byte) {
		var m Modes
		_, _ = m.Write(shown)
		undone := m.Undo()
		if len(undone) > 1000 {
			t.Fatalf("%d bytes undo %q", len(undone), shown)
		}
		m.more = 0
		_, _ = m.Write([]byte(undone))
		if again := m.Undo(); again != "" || !m.Between() {
			t.Errorf("%q undone by %q leaves %q", shown, undone, again)
		}
		if bytes.Contains(shown, []byte{escapeByte}) || bytes.ContainsAny(shown, "\x0e\x0f") {
			return
		}
		if strings.Trim(undone, "\r\n") != "" {
			t.Errorf("%q without a sequence is undone by %q", shown, undone)
		}
	})
}
