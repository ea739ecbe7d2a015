package nodeapi

import (
	"bytes"
	"unicode/utf8"
)

// scanner walks JSON text without decoding it. Its methods tell whether what they are named for stands at at, and go behind it.
// It takes less than encoding/json does, nothing more: who meets a text that it does not take asks encoding/json, which has the word.
type scanner struct {
	text  []byte
	at    int
	name  []byte // of the last member, as it stands: escapes and all
	value []byte // of the last member, well-formed (RFC 8259) and at most maxDepth levels deep
	ended bool
}

// next reads the next member of the object that text is. After the last one it is false, and whole says whether that was the end.
func (s *scanner) next() bool {
	s.space()
	open := byte(',')
	if s.name == nil {
		open = '{'
	}
	if !s.take(open) {
		s.ended = s.name != nil && s.take('}')
		return false
	}
	s.space()
	return s.member()
}

// whole says that next has read an object of one member or more, and that nothing stands behind it.
func (s *scanner) whole() bool {
	s.space()
	return s.ended && s.at == len(s.text)
}

// plain gives the last member's value when it is a string that stands there as it is.
func (s *scanner) plain() (text string, ok bool) {
	v := s.value
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 || !utf8.Valid(v) {
		return "", false
	}
	return string(v[1 : len(v)-1]), true
}

// member reads "name": value.
func (s *scanner) member() bool {
	start := s.at
	if !s.quoted() {
		return false
	}
	s.name = s.text[start+1 : s.at-1]
	s.space()
	if !s.take(':') {
		return false
	}
	s.space()
	start = s.at
	if !s.any(1) {
		return false
	}
	s.value = s.text[start:s.at]
	return true
}

func (s *scanner) any(level int) bool {
	if s.at >= len(s.text) {
		return false
	}
	switch s.text[s.at] {
	case '{', '[':
		return level <= maxDepth && s.container(level)
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

func (s *scanner) container(level int) bool {
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

func (s *scanner) key() bool {
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

func (s *scanner) quoted() bool {
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

func (s *scanner) escape() bool {
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

func (s *scanner) number() bool {
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

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
