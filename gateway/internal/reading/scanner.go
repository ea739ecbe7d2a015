package reading

import (
	"bytes"
	"unicode/utf8"

	"muster/agent/wire"
)

// Scanner reads JSON text without decoding it. It accepts nothing that encoding/json refuses, but it refuses more. The caller gives
// such a text to encoding/json, which decides. Each unexported method reads one thing at the place at, and moves at behind it. It
// returns false where that thing is not there; at is then of no use.
type Scanner struct {
	Name  []byte // of the last member; escapes are not decoded
	Value []byte // of the last member, well-formed (RFC 8259) and at most wire.MaxDepth levels deep

	// Shapes gives the shape that a member's value should have. Nil, or a nil shape: any value will do.
	Shapes func(name []byte) *Shape
	Fits   bool    // the last value has its shape
	Seen   Summary // of the last value with the shape Hardware

	text  []byte
	at    int
	ended bool
}

// Scan makes a Scanner for the object that a text is.
func Scan(text []byte) *Scanner { return &Scanner{text: text} }

// Next reads the next member of the object. It is false after the last one, and where the text is broken: Whole says which.
func (s *Scanner) Next() bool {
	s.space()
	open := byte(',')
	if s.Name == nil {
		open = '{'
	}
	if !s.take(open) {
		s.ended = s.Name != nil && s.take('}')
		return false
	}
	s.space()
	return s.member()
}

// Whole is true where Next has read a whole object with one member or more, and nothing comes after it.
func (s *Scanner) Whole() bool {
	s.space()
	return s.ended && s.at == len(s.text)
}

// Plain returns the last member's value, if it is a string without escapes.
func (s *Scanner) Plain() (text string, ok bool) {
	v := s.Value
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 || !utf8.Valid(v) {
		return "", false
	}
	return string(v[1 : len(v)-1]), true
}

// member reads "name": value.
func (s *Scanner) member() bool {
	start := s.at
	if !s.quoted() {
		return false
	}
	s.Name = s.text[start+1 : s.at-1]
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	start = s.at
	if !s.shaped() {
		s.at = start
		if !s.any(1) {
			return false
		}
	}
	s.Value = s.text[start:s.at]
	return true
}

// shaped reads a value that has the shape that Shapes gives. On false, member reads the value again as any value.
func (s *Scanner) shaped() bool {
	s.Fits = false
	if s.Shapes == nil {
		return false
	}
	shape := s.Shapes(s.Name)
	if shape == nil {
		return false
	}
	if shape == Hardware {
		s.Seen = Summary{}
	}
	s.Fits = s.object(shape)
	return s.Fits
}

// any reads any value. level counts how deeply it is nested: deeper text could use up the stack of a reader.
func (s *Scanner) any(level int) bool {
	if s.at >= len(s.text) {
		return false
	}
	switch s.text[s.at] {
	case '{', '[':
		return level <= wire.MaxDepth && s.container(level)
	case '"':
		return s.quoted()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// container reads an object or an array.
func (s *Scanner) container(level int) bool {
	end := s.text[s.at] + 2 // in ASCII, { and } differ by two, and so do [ and ]
	s.at++
	s.space()
	if s.take(end) {
		return true
	}
	for {
		if end == '}' && !s.key() || !s.any(level+1) {
			return false
		}
		s.space()
		if s.take(end) {
			return true
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

func (s *Scanner) key() bool {
	if !s.quoted() {
		return false
	}
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	return true
}

// quoted reads a string with or without escapes. It does not check that the bytes are UTF-8.
func (s *Scanner) quoted() bool {
	if !s.take('"') {
		return false
	}
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < ' ':
			return false
		case c == '\\':
			if !s.escape() {
				return false
			}
		default:
			s.at++
		}
	}
	return false
}

func (s *Scanner) escape() bool {
	if s.at+1 >= len(s.text) {
		return false
	}
	c := s.text[s.at+1]
	s.at += 2
	if c != 'u' {
		return bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0
	}
	for range 4 {
		if s.at >= len(s.text) || !hexDigit(s.text[s.at]) {
			return false
		}
		s.at++
	}
	return true
}

// number reads a number as RFC 8259 section 6 defines it.
func (s *Scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

func (s *Scanner) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *Scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *Scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
