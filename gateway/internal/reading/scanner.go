package reading

import (
	"bytes"
	"unicode/utf8"

	"muster/agent/wire"
)

// Scanner walks JSON text without decoding it. It takes less than encoding/json does, nothing more: who meets a text that it does
// not take asks encoding/json, which has the word. Its unexported methods tell whether what they are named for stands at at, and
// go behind it.
type Scanner struct {
	Name  []byte // of the last member, as it stands: escapes and all
	Value []byte // of the last member, well-formed (RFC 8259) and at most wire.MaxDepth levels deep

	// Shapes gives the shape that a member's value should have; nil, or nil from it: any. Fits tells whether the last one has it.
	Shapes func(name []byte) *Shape
	Fits   bool
	Seen   Summary // of the last value that had to have the shape Hardware and does

	text  []byte
	at    int
	ended bool
}

// Scan begins to walk a text.
func Scan(text []byte) *Scanner { return &Scanner{text: text} }

// Next reads the next member of the object that the text is. After the last one it is false, and Whole says whether that was the end.
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

// Whole says that Next has read an object of one member or more, and that nothing stands behind it.
func (s *Scanner) Whole() bool {
	s.space()
	return s.ended && s.at == len(s.text)
}

// Plain gives the last member's value when it is a string that stands there as it is.
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

// shaped reads a value that has the shape it should have.
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

func (s *Scanner) container(level int) bool {
	end := s.text[s.at] + 2 // both pairs of brackets are two apart
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
