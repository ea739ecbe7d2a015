package remote

import (
	"bytes"
	"strings"
	"testing"
)

// TestEscapes: only behind a new line, a tilde asks something of muster.
func TestEscapes(t *testing.T) {
	for typed, want := range map[string]struct {
		out   string
		asked []act
	}{
		"ls\r":           {"ls\r", nil},
		"~.":             {"", []act{actLeave}},
		"ls\r~.":         {"ls\r", []act{actLeave}},
		"ls\n~.":         {"ls\n", []act{actLeave}},
		"ls ~.":          {"ls ~.", nil},
		"~~":             {"~", nil},
		"~~.":            {"~.", nil},
		"\r~~\r":         {"\r~\r", nil},
		"~?~?":           {"", []act{actHelp, actHelp}},
		"~?ls":           {"ls", []act{actHelp}},
		"~/bin\r~ada":    {"~/bin\r~ada", nil},
		"~\r~.":          {"~\r", []act{actLeave}},
		"cd ~\r~":        {"cd ~\r", nil},
		"\x1b[200~.":     {"\x1b[200~.", nil},
		"\x03~.":         {"\x03~.", nil},
		"a\r~?b\r~?c":    {"a\rb\rc", []act{actHelp, actHelp}},
		"\x00\xff~\r~\r": {"\x00\xff~\r~\r", nil},
	} {
		for _, size := range []int{1, 2, len(typed)} { // however the bytes come
			out, asked := feedAll(typed, size)
			if out != want.out || !slicesEqual(asked, want.asked) {
				t.Errorf("%q by %d: %q, %v; want %q, %v", typed, size, out, asked, want.out, want.asked)
			}
		}
	}
}

func slicesEqual(a, b []act) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func feedAll(typed string, size int) (string, []act) {
	var keys escapes
	var all []byte
	var asked []act
	for i := 0; i < len(typed); i += size {
		rest := []byte(typed[i:min(i+size, len(typed))])
		for len(rest) > 0 {
			var out []byte
			var one act
			out, one, rest = keys.feed(rest)
			all = append(all, out...)
			if one != actNone {
				asked = append(asked, one)
			}
		}
	}
	return string(all), asked
}

// FuzzEscapes: what is typed without a tilde goes to the node unchanged, and however it comes, the same is made of it.
func FuzzEscapes(f *testing.F) {
	f.Add("ls\r~.x", 3)
	f.Add("~~\r~?", 1)
	f.Fuzz(func(t *testing.T, typed string, size int) {
		if size < 1 {
			size = 1
		}
		out, asked := feedAll(typed, size)
		whole, wholeAsked := feedAll(typed, max(len(typed), 1))
		if out != whole || len(asked) != len(wholeAsked) {
			t.Errorf("%q in parts: %q, as a whole: %q", typed, out, whole)
		}
		if !strings.Contains(typed, "~") && out != typed {
			t.Errorf("%q became %q", typed, out)
		}
	})
}

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
	} {
		var m modes
		for i := range len(shown) {
			_, _ = m.Write([]byte(shown[i : i+1]))
		}
		if got := m.undo(); got != want {
			t.Errorf("%q is undone by %q, want %q", shown, got, want)
		}
	}
}

// TestUndoing: every row of the table is reached by some output.
func TestUndoing(t *testing.T) {
	var m modes
	_, _ = m.Write([]byte("\x1b[2;3r\x1b[>1u\x1b[>4;1m\x1b[3 q\x1b=\x0e\x1b(0\x1b[1m"))
	for _, number := range switchedOff() {
		_, _ = m.Write([]byte("\x1b[?" + number + "l"))
	}
	for _, number := range switchedOn() {
		_, _ = m.Write([]byte("\x1b[?" + number + "h"))
	}
	undone := m.undo()
	for _, pair := range undoing() {
		if !strings.Contains(undone, pair[1]) {
			t.Errorf("%s is not undone", pair[0])
		}
	}
	_, _ = m.Write([]byte(undone))
	if got := m.undo(); got != "" {
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
		var m modes
		_, _ = m.Write([]byte(shown))
		if m.between() != want {
			t.Errorf("%q: between is %v", shown, !want)
		}
	}
}

// FuzzModes: whatever a node writes, what undoes it leaves a terminal at rest.
func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2;3r\x1b]0;x\x07日"))
	f.Add([]byte("\x1b[?1;25l\x1bP\x1b\\"))
	f.Fuzz(func(t *testing.T, shown []byte) {
		var m modes
		_, _ = m.Write(shown)
		undone := m.undo()
		if len(undone) > 1000 {
			t.Fatalf("%d bytes undo %q", len(undone), shown)
		}
		m.more = 0
		_, _ = m.Write([]byte(undone))
		if again := m.undo(); again != "" || !m.between() {
			t.Errorf("%q undone by %q leaves %q", shown, undone, again)
		}
		if bytes.Contains(shown, []byte{esc}) || bytes.ContainsAny(shown, "\x0e\x0f") {
			return
		}
		if strings.Trim(undone, "\r\n") != "" {
			t.Errorf("%q without a sequence is undone by %q", shown, undone)
		}
	})
}
