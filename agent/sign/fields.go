package sign

import (
	"fmt"
	"slices"
	"strings"
)

// maxMembers bounds how many signatures a request may carry, foreign ones included.
const maxMembers = 16

// signatureInput is one member of a Signature-Input dictionary: an inner list of components with parameters, and its
// exact text, which goes into the signature base as it is.
type signatureInput struct {
	components                 [len(covered)]string
	count                      int // of all components, with those that do not fit into the array
	created, nonce, keyID, tag parameter
	alien                      bool // it holds something that our signatures never have
	text                       string
}

// parameter is the value of a parameter. Its kind is absent where the list lacks it.
type parameter struct {
	kind int
	text string
}

const (
	absent = iota
	stringItem
	integerItem
	otherItem
)

// findTagged reads a Signature-Input dictionary (RFC 9421 section 4.1, RFC 8941) and gives the one member whose tag is muster. Two such
// members, a name that stands twice, or text of another form is an error, because two readers could choose differently.
func findTagged(header string) (member string, in signatureInput, err error) {
	s := scanner{text: header}
	var names [maxMembers]string
	for n := 0; ; n++ {
		name := s.key()
		if !s.take('=') || name == "" || n == maxMembers || slices.Contains(names[:n], name) {
			return "", in, s.malformed()
		}
		names[n] = name
		one, err := s.innerList()
		if err != nil {
			return "", in, err
		}
		if one.tag.text == Tag {
			if member != "" {
				return "", in, fmt.Errorf("two muster signatures: %w", ErrMalformed)
			}
			member = name
			in = one
		}
		if more, err := s.next(); err != nil {
			return "", in, err
		} else if !more {
			break
		}
	}
	if member == "" {
		return "", in, ErrUnsigned
	}
	return member, in, nil
}

// dictionaryBytes gives the byte sequence of one member of a dictionary such as Signature or Content-Digest. The member may stand in it
// only once. The other members must be byte sequences too.
func dictionaryBytes(header, member string) ([]byte, error) {
	s := scanner{text: header}
	var value string
	found := false
	for more := true; more; {
		name := s.key()
		if !s.take('=') || name == "" {
			return nil, s.malformed()
		}
		one, err := s.bytes()
		if err != nil {
			return nil, err
		}
		if name == member {
			if found {
				return nil, fmt.Errorf("%s stands twice: %w", member, ErrMalformed)
			}
			found = true
			value = one
		}
		if more, err = s.next(); err != nil {
			return nil, err
		}
	}
	out, err := decode64(value)
	if err != nil || len(out) == 0 {
		return nil, fmt.Errorf("no value for %s: %w", member, ErrMalformed)
	}
	return out, nil
}

// scanner reads the part of RFC 8941 that signatures use. It returns what ours need: keys, plain strings, integers and byte sequences.
// It skips the rest, because a foreign signature beside ours may have it.
type scanner struct {
	text string
	at   int
}

func (s *scanner) malformed() error {
	return fmt.Errorf("structured field at character %d: %w", s.at, ErrMalformed)
}

// peek is the next character, 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *scanner) take(c byte) bool {
	if s.at >= len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

// run skips the characters that fit, and returns them.
func (s *scanner) run(fits func(byte) bool) string {
	start := s.at
	for s.at < len(s.text) && fits(s.text[s.at]) {
		s.at++
	}
	return s.text[start:s.at]
}

// next skips the comma between two members. It reports false at the end of the dictionary.
func (s *scanner) next() (more bool, err error) {
	s.run(isBlank)
	if s.at == len(s.text) {
		return false, nil
	}
	if !s.take(',') {
		return false, s.malformed()
	}
	s.run(isBlank)
	return true, nil
}

// key reads the name of a member or of a parameter, "" if there is none.
func (s *scanner) key() string {
	if c := s.peek(); c != '*' && (c < 'a' || c > 'z') {
		return ""
	}
	return s.run(isKey)
}

// quoted reads a string (RFC 8941 section 3.3.3). Ours have no escapes. For a string with escapes plain is false, and text still has
// them.
func (s *scanner) quoted() (text string, plain bool, err error) {
	if !s.take('"') {
		return "", false, s.malformed()
	}
	start := s.at
	for plain = true; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[start : s.at-1], plain, nil
		case c == '\\':
			plain = false
			s.at++
			if c = s.peek(); c != '"' && c != '\\' {
				return "", false, s.malformed()
			}
		case c < ' ' || c > '~':
			return "", false, s.malformed()
		}
	}
	return "", false, s.malformed()
}

// bytes reads a byte sequence and gives its base64 undecoded.
func (s *scanner) bytes() (string, error) {
	if !s.take(':') {
		return "", s.malformed()
	}
	text := s.run(isBase64)
	if !s.take(':') {
		return "", s.malformed()
	}
	return text, nil
}

// innerList reads one member of Signature-Input: the components in brackets, and the parameters. It keeps the exact text, because the
// signature is over that.
func (s *scanner) innerList() (signatureInput, error) {
	var in signatureInput
	start := s.at
	if !s.take('(') {
		return in, s.malformed()
	}
	for s.run(isSpace); !s.take(')'); s.run(isSpace) {
		name, plain, err := s.quoted()
		if err != nil {
			return in, err
		}
		if in.count < len(in.components) {
			in.components[in.count] = name
		}
		in.count++
		in.alien = in.alien || !plain || s.peek() == ';' // a component of ours has no parameters
		if err := s.parameters(nil); err != nil {
			return in, err
		}
		if c := s.peek(); c != ' ' && c != ')' {
			return in, s.malformed()
		}
	}
	if err := s.parameters(&in); err != nil {
		return in, err
	}
	in.text = s.text[start:s.at]
	return in, nil
}

// parameters reads what follows an item or an inner list. With a nil into it only checks their form.
func (s *scanner) parameters(into *signatureInput) error {
	for s.take(';') {
		s.run(isSpace)
		name := s.key()
		if name == "" {
			return s.malformed()
		}
		value := parameter{kind: otherItem} // a name alone is a boolean
		if s.take('=') {
			var err error
			if value, err = s.bareItem(); err != nil {
				return err
			}
		}
		if into != nil && !into.set(name, value) {
			return s.malformed()
		}
	}
	return nil
}

// set keeps a parameter. It reports false if one of ours stands twice.
func (in *signatureInput) set(name string, value parameter) bool {
	var to *parameter
	switch name {
	case "created":
		to = &in.created
	case "nonce":
		to = &in.nonce
	case "keyid":
		to = &in.keyID
	case "tag":
		to = &in.tag
	default:
		in.alien = true
		return true
	}
	twice := to.kind != absent
	*to = value
	return !twice
}

// bareItem reads the value of a parameter. Only strings and whole numbers of up to 15 digits (RFC 8941 section 3.3.1) count.
func (s *scanner) bareItem() (parameter, error) {
	switch s.peek() {
	case '"':
		text, plain, err := s.quoted()
		if !plain {
			return parameter{kind: otherItem}, err
		}
		return parameter{kind: stringItem, text: text}, err
	case ':':
		_, err := s.bytes()
		return parameter{kind: otherItem}, err
	}
	text := s.run(isToken)
	switch {
	case text == "":
		return parameter{}, s.malformed()
	case len(text) <= 15 && strings.Trim(text, "0123456789") == "":
		return parameter{kind: integerItem, text: text}, nil
	}
	return parameter{kind: otherItem}, nil
}
