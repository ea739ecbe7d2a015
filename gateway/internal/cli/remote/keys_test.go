package remote

import (
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
