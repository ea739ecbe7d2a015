package reading

import (
	"bytes"
	"hash/maphash"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/agent/wire"
)

// Summary is what one pass over a reading finds out.
type Summary struct {
	State    string // of the probe
	GPUs     int    // the number of rows
	Expected int    // how many GPUs the node remembers; 0: it does not say
	// Ills is a hash of the GPUs' health lists and UUIDs; 0: all lists are empty. The seed differs in every process, so a node
	// cannot choose a reading with an equal hash, and the hash must not be stored.
	Ills uint64
}

// Fits is true where a text is an object of this shape, written as agents write it: the members are in their order, each at most
// once, and no others. A text that does not fit may still be good: Mend finds out.
func (sh *Shape) Fits(raw []byte) bool {
	s := Scanner{text: raw}
	return s.object(sh) && s.at == len(raw) && utf8.Valid(raw)
}

// object reads an object of the shape. A member may be left out if it is not required.
func (s *Scanner) object(sh *Shape) bool {
	if !s.take('{') {
		return false
	}
	var uuid []byte
	next := 0
	comma := false
	for s.space(); !s.take('}'); s.space() {
		if comma && !s.take(',') {
			return false
		}
		comma = true
		s.space()
		start := s.at
		if !s.quoted() {
			return false
		}
		at := sh.find(next, s.text[start+1:s.at-1])
		if at < 0 {
			return false
		}
		f := &sh.fields[at]
		s.space()
		if !s.take(':') {
			return false
		}
		s.space()
		start = s.at
		if !s.field(f) {
			return false
		}
		if f.mark != markNone {
			s.note(f.mark, s.text[start:s.at], &uuid)
		}
		next = at + 1
	}
	return sh.skippable(next, len(sh.fields))
}

// find returns the place of the field with this name, at from or later. It is -1 where there is none, or where a required field comes
// before it.
func (sh *Shape) find(from int, name []byte) int {
	for i := from; i < len(sh.fields); i++ {
		if sh.fields[i].name == string(name) {
			return i
		}
		if sh.fields[i].required {
			return -1
		}
	}
	return -1
}

// skippable is true where none of these fields is required.
func (sh *Shape) skippable(from, to int) bool {
	for i := from; i < to; i++ {
		if sh.fields[i].required {
			return false
		}
	}
	return true
}

// note adds a value to the Summary. A GPU's uuid comes before its health, so it is kept until then.
func (s *Scanner) note(m mark, value []byte, uuid *[]byte) {
	switch m {
	case markState:
		s.Seen.State = string(value[1 : len(value)-1])
	case markExpected:
		s.Seen.Expected, _ = strconv.Atoi(string(value)) // 0 for null
	case markUUID:
		*uuid = value
	case markHealth:
		if len(value) > len("[]") {
			s.Seen.Ills = ill(s.Seen.Ills, *uuid, value)
		}
	}
}

var seed = maphash.MakeSeed()

// ill adds one GPU's health to the hash of the GPUs before it.
func ill(before uint64, uuid, health []byte) uint64 {
	return before*31 + maphash.Bytes(seed, uuid)*7 + maphash.Bytes(seed, health)
}

// field reads a value that the field allows.
func (s *Scanner) field(f *field) bool {
	if s.at < len(s.text) && s.text[s.at] == 'n' {
		return f.null && s.word("null")
	}
	switch f.kind {
	case text:
		return s.textValue(f)
	case whole:
		return s.wholeNumber(f.signed)
	case decimal:
		return s.decimalNumber(f.signed)
	case truth:
		return s.word("true") || s.word("false")
	case moment:
		return s.moment()
	case object:
		return s.object(f.shape)
	case list:
		return s.list(f)
	}
	return s.rows(f)
}

// textValue reads a text without escapes or control characters.
func (s *Scanner) textValue(f *field) bool {
	start := s.at
	if !s.simple() || s.at-start-2 > f.most {
		return false
	}
	return f.words == nil || one(f.words, s.text[start+1:s.at-1])
}

// one is true where the text is one of the words.
func one(words []string, text []byte) bool {
	for _, w := range words {
		if w == string(text) {
			return true
		}
	}
	return false
}

// simple reads a string that is safe to show as it is: no escapes, no control characters, valid UTF-8.
func (s *Scanner) simple() bool {
	if !s.take('"') {
		return false
	}
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"':
			s.at++
			return true
		case c < ' ' || c == '\\' || c == 0x7f:
			return false
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, size := utf8.DecodeRune(s.text[s.at:])
			if r == utf8.RuneError || unicode.IsControl(r) {
				return false
			}
			s.at += size
		}
	}
	return false
}

// wholeNumber reads an integer of 15 digits at most. A reader that keeps numbers as float64, such as JavaScript, holds it exactly.
func (s *Scanner) wholeNumber(signed bool) bool {
	if signed {
		s.take('-')
	}
	start := s.at
	if !s.take('0') && !s.digits() || s.at-start > 15 {
		return false
	}
	return s.at == len(s.text) || s.text[s.at] != '.' && s.text[s.at] != 'e' && s.text[s.at] != 'E'
}

// decimalNumber reads a number below mostDecimal. One that is as short as that and has no exponent is.
func (s *Scanner) decimalNumber(signed bool) bool {
	start := s.at
	if !s.number() || !signed && s.text[start] == '-' || s.at-start > 32 {
		return false
	}
	text := s.text[start:s.at]
	if len(text) <= 15 && !bytes.ContainsAny(text, "eE") {
		return true
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return err == nil && math.Abs(n) < mostDecimal
}

// moment reads a time in UTC.
func (s *Scanner) moment() bool {
	start := s.at
	if !s.simple() || s.text[s.at-2] != 'Z' {
		return false
	}
	var t time.Time
	return t.UnmarshalText(s.text[start+1:s.at-1]) == nil
}

func (s *Scanner) list(f *field) bool { return s.elements(f) >= 0 }

// rows reads a list of objects. It counts the GPUs for the Summary.
func (s *Scanner) rows(f *field) bool {
	n := s.elements(f)
	if f.mark == markGPUs {
		s.Seen.GPUs = n
	}
	return n >= 0
}

// elements reads an array and returns the number of its elements. It is -1 where the text is no array, or where the array has too
// many elements or one that does not fit.
func (s *Scanner) elements(f *field) int {
	if !s.take('[') {
		return -1
	}
	s.space()
	if s.take(']') {
		return 0
	}
	for n := 1; n <= f.most && s.element(f); n++ {
		s.space()
		if s.take(']') {
			return n
		}
		if !s.take(',') {
			break
		}
		s.space()
	}
	return -1
}

func (s *Scanner) element(f *field) bool {
	if f.shape != nil {
		return s.object(f.shape)
	}
	start := s.at
	return s.simple() && s.at-start-2 <= wire.MaxText
}
