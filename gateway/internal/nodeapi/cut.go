package nodeapi

import "bytes"

// cutMember takes one member out of a JSON object without decoding it: value is its exact bytes, well-formed (RFC 8259) and
// at most maxDepth levels deep, and rest is the object without it. ok is false where the body has not this form, where the
// member is not there, is the first one or is there twice: encoding/json has the word then.
func cutMember(body []byte, key string) (rest, value []byte, ok bool) {
	s := scanner{text: body}
	var begin, end int
	s.space()
	open := byte('{')
	for s.take(open) {
		from := s.at - 1
		s.space()
		name, fine := s.member()
		if !fine {
			return nil, nil, false
		}
		if string(name) == key {
			if open == '{' || value != nil {
				return nil, nil, false
			}
			begin, end, value = from, s.at, bytes.TrimSpace(s.value)
		}
		s.space()
		open = ','
	}
	if !s.take('}') || value == nil {
		return nil, nil, false
	}
	s.space()
	rest = make([]byte, 0, len(body)-(end-begin))
	return append(append(rest, body[:begin]...), body[end:]...), value, s.at == len(body)
}

// scanner walks JSON text. Its methods tell whether what they are named for stands at at, and go behind it.
type scanner struct {
	text  []byte
	at    int
	value []byte // of the last member
}

// member reads "name": value and leaves the value in s.value. The name is as it stands, escapes and all.
func (s *scanner) member() (name []byte, ok bool) {
	start := s.at
	if !s.quoted() {
		return nil, false
	}
	name = s.text[start+1 : s.at-1]
	s.space()
	if !s.take(':') {
		return nil, false
	}
	s.space()
	start = s.at
	if !s.any(1) {
		return nil, false
	}
	s.value = s.text[start:s.at]
	return name, true
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
		if end == '}' && !s.name() || !s.any(level+1) {
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

func (s *scanner) name() bool {
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
