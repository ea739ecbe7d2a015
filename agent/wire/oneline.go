package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain makes one line of a text, at most limit bytes long, which is safe for a screen and a log.
func Plain(text string, limit int) string {
	return Cut(strings.Join(strings.Fields(strings.Map(plainRune, text)), " "), limit)
}

// plainRune is what stands for a character; -1: nothing does.
func plainRune(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return ' '
	case r == utf8.RuneError || !unicode.IsPrint(r):
		return -1
	}
	return r
}

// OneLine does what Plain does, and leaves out the characters that JSON escapes, because the gateway reads a text without escapes fastest.
func OneLine(text string, limit int) string {
	return Plain(strings.Map(func(r rune) rune {
		if at := strings.IndexRune("<>\"\\&", r); at >= 0 {
			return rune("()'/+"[at])
		}
		return r
	}, text), limit)
}

// Cut cuts a text to this many bytes, between two characters, and marks the cut.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "..."
	return Head(text, limit-len(mark)) + mark
}

// Head returns the beginning of a text, of at most this many bytes, without half a character at its end.
func Head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}
