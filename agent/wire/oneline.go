package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine makes one line of a text, at most limit bytes long, which a screen, a log and JSON show as it is. Characters that JSON escapes are
// replaced, because the gateway reads a text without escapes fastest.
func OneLine(text string, limit int) string {
	return Cut(strings.Join(strings.Fields(strings.Map(plainRune, text)), " "), limit)
}

// plainRune is what stands for a character; -1: nothing does.
func plainRune(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return ' '
	case r == utf8.RuneError || !unicode.IsPrint(r):
		return -1
	case r == '<':
		return '('
	case r == '>':
		return ')'
	case r == '"':
		return '\''
	case r == '\\':
		return '/'
	case r == '&':
		return '+'
	}
	return r
}

// Cut cuts a text to this many bytes, between two characters, and marks the cut.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "..."
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}
