package tty

import (
	"slices"
	"testing"
)

// TestKeys: each key, as terminals send it.
func TestKeys(t *testing.T) {
	for text, want := range map[string][]Key{
		"q": {'q'}, "é": {'é'}, "\r": {Enter}, "\n": {Enter}, "\x1bOM": {Enter}, "\x7f": {Backspace}, "\b": {Backspace},
		"\x03": {Interrupt}, "\x0c": {ctrlL}, "\x15": {CtrlU},
		"\x1b": {Escape}, "\x1b\x1b": {Escape, Escape}, "\x1bq": {Escape, 'q'},
		"\x1b[A": {Up}, "\x1bOA": {Up}, "\x1b[B": {Down}, "\x1b[C": {Right}, "\x1b[D": {Left}, "\x1b[1;5A": {Up},
		"\x1b[H": {Home}, "\x1b[1~": {Home}, "\x1b[7~": {Home}, "\x1b[F": {End}, "\x1b[4~": {End}, "\x1b[8~": {End},
		"\x1b[3~": {Delete}, "\x1b[5~": {PageUp}, "\x1b[6~": {PageDown},
		"\x1b[99~x": {'x'}, "\x1b[[Ax": {'x'}, "\x1b[2;2Rj": {'j'}, "\x1bOPk": {'k'}, "\x1b[12\x03": {Interrupt},
		"\xffx": {'x'}, "\xc3": nil, "\x1b[": {Escape, '['}, "\x1bO": {Escape, 'O'}, "": nil,
		"\x1b[1234567890123456789012345678901234567890": {'1', '2', '3', '4', '5', '6', '7', '8', '9', '0'},
	} {
		var p Parser
		got := append(p.Feed([]byte(text)), p.Flush()...)
		if !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// FuzzKeys: the bytes of a key may come in any parts, and no bytes stay behind for ever.
func FuzzKeys(f *testing.F) {
	for _, text := range []string{"\x1b[1;5Aq", "\x1bOA\x1b", "é\x1b[[A", "\x1b[5~\xc3", "\x1b[\x1b[A"} {
		f.Add([]byte(text), 2)
	}
	f.Fuzz(func(t *testing.T, input []byte, at int) {
		if at < 0 || at > len(input) {
			return
		}
		var whole, parts Parser
		want := whole.Feed(input)
		got := append(parts.Feed(input[:at]), parts.Feed(input[at:])...)
		if !slices.Equal(got, want) {
			t.Fatalf("%q cut at %d: got %d, want %d", input, at, got, want)
		}
		if n := len(whole.pending); n >= longestInput {
			t.Fatalf("%q: %d bytes wait", input, n)
		}
		for _, key := range append(want, whole.Flush()...) {
			if key == other || key < other {
				t.Fatalf("%q: key %d", input, key)
			}
		}
		if whole.Waiting() && whole.pending[0] == escapeByte {
			whole.Flush()
		}
	})
}
