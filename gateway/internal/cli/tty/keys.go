// Package tty shows live pictures on a terminal. It reads single keys, draws what has changed, and leaves the terminal as it was.
package tty

import (
	"bytes"
	"unicode/utf8"
)

// Key is what a person pressed: a character, or one of the names below, which are no characters.
type Key rune

// Keys that are no characters.
const (
	Escape Key = -1 - iota
	Up
	Down
	Left
	Right
	PageUp
	PageDown
	Home
	End
	Delete
	other // a key that has no name here
)

// Characters that stand for a key or for a key with Ctrl.
const (
	Enter     Key = '\r'
	Backspace Key = 0x7f
	ctrlC     Key = 0x03
	ctrlH     Key = 0x08
	ctrlZ     Key = 0x1a
	ctrlL     Key = 0x0c
	CtrlU     Key = 0x15
)

// Interrupt is what Ctrl-C gives.
const Interrupt = ctrlC

const (
	escapeByte   = 0x1b
	longestInput = 32 // bytes of one sequence; what is longer is no key
)

// Parser makes keys of the bytes that a terminal sends. The bytes of one key may come in parts.
type Parser struct{ pending []byte }

// Feed returns the keys that are complete.
func (p *Parser) Feed(bytes []byte) []Key {
	p.pending = append(p.pending, bytes...)
	var keys []Key
	for len(p.pending) > 0 {
		key, n := first(p.pending)
		if n == 0 {
			return keys
		}
		p.pending = p.pending[n:]
		if key != other {
			keys = append(keys, key)
		}
	}
	p.pending = nil
	return keys
}

// Waiting reports whether bytes are there that are no whole key.
func (p *Parser) Waiting() bool { return len(p.pending) > 0 }

// Flush returns what a person meant if nothing more comes: an escape byte alone is the key Escape.
func (p *Parser) Flush() []Key {
	pending := p.pending
	p.pending = nil
	if len(pending) == 0 || pending[0] != escapeByte {
		return nil
	}
	return append([]Key{Escape}, p.Feed(pending[1:])...)
}

// first reads one key and says how many bytes it takes; 0: more bytes are needed.
func first(b []byte) (Key, int) {
	switch {
	case b[0] == escapeByte:
		return escaped(b)
	case b[0] == '\n':
		return Enter, 1
	case Key(b[0]) == ctrlH:
		return Backspace, 1
	case !utf8.FullRune(b):
		return other, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError {
		return other, n
	}
	return Key(r), n
}

// escaped reads what begins with an escape byte: a sequence, or the key Escape before something else.
func escaped(b []byte) (Key, int) {
	switch {
	case len(b) == 1:
		return other, 0
	case b[1] == 'O' && len(b) == 2:
		return other, 0
	case b[1] == 'O':
		return named("", b[2]), 3
	case b[1] == '[':
		return sequence(b)
	}
	return Escape, 1
}

// sequence reads a control sequence (ECMA-48, 5.4): parameters, and one byte that ends it.
func sequence(b []byte) (Key, int) {
	end := bytes.IndexFunc(b[2:min(len(b), longestInput)], func(r rune) bool { return r < 0x20 || r >= 0x40 })
	switch {
	case end < 0 && len(b) >= longestInput:
		return other, longestInput
	case end < 0:
		return other, 0
	}
	last := 2 + end
	if end == 0 && b[last] == '[' { // a function key of Linux' console: one more byte
		if len(b) == last+1 {
			return other, 0
		}
		return other, last + 2
	}
	if b[last] < 0x20 || b[last] > 0x7e { // it was cut by something else
		return other, last
	}
	return named(string(b[2:last]), b[last]), last + 1
}

// named is the key of a sequence.
func named(parameters string, last byte) Key {
	switch last {
	case 'A':
		return Up
	case 'B':
		return Down
	case 'C':
		return Right
	case 'D':
		return Left
	case 'H':
		return Home
	case 'F':
		return End
	case 'M':
		return Enter // of the keypad
	case '~':
		return numbered(parameters)
	}
	return other
}

func numbered(parameters string) Key {
	switch parameters {
	case "1", "7":
		return Home
	case "4", "8":
		return End
	case "3":
		return Delete
	case "5":
		return PageUp
	case "6":
		return PageDown
	}
	return other
}
