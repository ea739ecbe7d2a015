package wire_test

import (
	"testing"

	"muster/agent/wire"
)

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		" two\nlines\tand\r\n more ": "two lines and more",
		"\x1b[31mred\x07 \xff\u200b": "[31mred",
		`<a "b" \ & c>`:              "(a 'b' / + c)",
		"0123456789abcdefghijk":      "0123456789abcdefg...",
		"0123456789abcdefé12345":     "0123456789abcdef...",
	} {
		if got := wire.OneLine(text, 20); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}
