package logfile

import (
	"bytes"
	"strings"
)

const (
	// overlap is by how much the parts of a long line cover each other, so that a secret lies whole in one of them.
	overlap = longest / 2
	// longestPEM is the length of the longest line of a PEM block, in the forms that are in use.
	longestPEM = 76
	// keyLines is how many lines a private key may have.
	keyLines = 128
)

// Stream masks the lines of one log, one after the other. It also finds a private key whose lines come one by one. It is for one goroutine.
type Stream struct {
	masker Masker
	key    int // so many more lines may be of a key that has begun
}

// Stream makes a Stream that begins with the first line of a log.
func (m Masker) Stream() *Stream { return &Stream{masker: m} }

// Line masks one line, however long it is. It may hold line breaks, as a message of several lines does.
func (s *Stream) Line(text string) string {
	raw := []byte(text)
	found := s.masker.longSpans(raw)
	switch {
	case s.key > 0:
		s.key--
		found = append(found, s.keySpans(raw)...)
	case bareLine(bytes.TrimSpace(raw)):
		found = append(found, span{0, len(raw)}) // of a key whose first line nobody saw
	}
	s.note(raw)
	if len(found) == 0 {
		return text
	}
	return string(hide(raw, found))
}

// keySpans are the parts of a line within a key. What stands in front of the key's own text, such as a name, stays.
func (s *Stream) keySpans(text []byte) []span {
	if base64Line(bytes.TrimSpace(text), true) {
		return []span{{0, len(text)}}
	}
	return behind(text, text, []string{""}, "+/=", 16)
}

// note remembers whether a key has begun or ended.
func (s *Stream) note(text []byte) {
	begun := -1
	for at := keyBegin(text, 0); at >= 0; at = keyBegin(text, at) {
		begun = at
	}
	ended := bytes.LastIndex(text, []byte("-----END"))
	switch {
	case begun > ended:
		s.key = keyLines
	case ended >= 0:
		s.key = 0
	}
}

// bareLine tells whether a line alone is one of a PEM block. Random bytes give letters of both sizes. Digests and ids in hex have those of
// one size.
func bareLine(line []byte) bool {
	has := func(from, to byte) bool {
		return bytes.ContainsFunc(line, func(c rune) bool { return c >= rune(from) && c <= rune(to) })
	}
	return base64Line(line, false) && len(line) <= longestPEM && has('a', 'z') && has('A', 'Z')
}

// longSpans looks into lines of any length, in parts that cover each other. A secret that does not end within its part hides the rest of
// its line.
func (m Masker) longSpans(text []byte) []span {
	if len(text) <= longest {
		return m.spans(text)
	}
	var all []span
	for from := 0; ; from += longest - overlap {
		to := min(from+longest, len(text))
		for _, one := range m.spans(text[from:to]) {
			one.from += from
			one.to += from
			if one.to == to {
				one.to = lineEnd(text, to)
			}
			all = append(all, one)
		}
		if to == len(text) {
			return all
		}
	}
}

func lineEnd(text []byte, at int) int {
	if next := bytes.IndexByte(text[at:], '\n'); next >= 0 {
		return at + next
	}
	return len(text)
}

// Value masks the value of a name, however long it is.
func (m Masker) Value(name, value string) string {
	if value != "" && secretName(strings.ToLower(name), false) {
		return stars
	}
	found := m.longSpans([]byte(value))
	if len(found) == 0 {
		return value
	}
	return string(hide([]byte(value), found))
}
