package reading

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"muster/agent/wire"
)

const (
	maxNamed   = 8   // how many of the members that were left out a notice names
	maxMembers = 256 // how many members one object may have: names are compared with each other
)

// Mend returns a text of this shape, and the paths of what it left out: members with a wrong type, out of bounds, unknown, or there
// twice. A text that fits is returned unchanged. For a text that is no object, fits is "".
func (sh *Shape) Mend(raw string) (fits string, left []string) {
	if sh.Fits([]byte(raw)) {
		return raw, nil
	}
	m := mender{}
	v := reflect.New(sh.of).Elem()
	if !utf8.ValidString(raw) || !m.object(sh, []byte(raw), v, "") {
		return "", []string{"all of it"}
	}
	out, err := json.Marshal(v.Interface())
	if err != nil {
		return "", []string{"all of it"}
	}
	return string(out), m.named()
}

// LeftOut is the notice that names what a node sent and the gateway left out.
func LeftOut(what string, paths []string) string {
	return "the gateway left out of " + what + " what does not fit its API: " + strings.Join(paths, ", ")
}

// Summarise returns the Summary of a text that Mend gave for the shape Hardware.
func Summarise(text string) Summary {
	s := Scanner{text: []byte(text)}
	if s.object(Hardware) {
		return s.Seen
	}
	var h wire.Hardware // the pass does not read texts with an escape
	if json.Unmarshal([]byte(text), &h) != nil {
		return Summary{}
	}
	seen := Summary{State: h.Probe.State, GPUs: len(h.GPUs)}
	if h.GPUsExpected != nil {
		seen.Expected = *h.GPUsExpected
	}
	for _, g := range h.GPUs {
		if len(g.Health) > 0 {
			seen.Ills = ill(seen.Ills, []byte(g.UUID), []byte(strings.Join(g.Health, ",")))
		}
	}
	return seen
}

// mender builds a value from the parts that fit, and collects the paths of the others.
type mender struct {
	left []string
	more int // paths beyond maxNamed
}

// leave notes a member that was left out. A node can send any number of them, so it names the first and counts the rest.
func (m *mender) leave(path string) {
	if len(m.left) < maxNamed {
		m.left = append(m.left, path)
	} else {
		m.more++
	}
}

func (m *mender) named() []string {
	if m.more > 0 {
		return append(m.left, fmt.Sprintf("%d more", m.more))
	}
	return m.left
}

// object reads the members that fit into v. A member that is there twice is left out: readers differ in which one they take. It is
// false where the text is no object.
func (m *mender) object(sh *Shape, raw []byte, v reflect.Value, path string) bool {
	names, values, ok := members(raw)
	if !ok || len(names) > maxMembers {
		return false
	}
	for i, name := range names {
		at := sh.index(name)
		inner := join(path, name)
		switch first := slices.Index(names, name); {
		case first < i: // it was left out and named when the first one came
		case at < 0, slices.Contains(names[i+1:], name):
			m.leave(shown(inner))
		case !m.field(&sh.fields[at], values[i], v.Field(at), inner):
			m.leave(inner)
		}
	}
	sh.complete(v)
	return true
}

// members splits an object into names and values, in their order. encoding/json would give one of two equal names.
func members(raw []byte) (names []string, values []json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, nil, false
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, nil, false
		}
		names = append(names, fmt.Sprint(name))
		values = append(values, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, false
	}
	_, err := d.Token()
	return names, values, err == io.EOF
}

// index is the place of the member with this name; -1: there is none. encoding/json would also match another case of the letters.
func (sh *Shape) index(name string) int {
	for i := range sh.fields {
		if sh.fields[i].name == name {
			return i
		}
	}
	return -1
}

// complete fills in the required members that are missing: a list becomes empty, and a text its usual word.
func (sh *Shape) complete(v reflect.Value) {
	for i := range sh.fields {
		f := &sh.fields[i]
		field := v.Field(i)
		switch {
		case !f.required:
		case f.kind == object:
			f.shape.complete(field)
		case (f.kind == list || f.kind == rows) && field.IsNil():
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		case f.kind == text && field.String() == "":
			field.SetString(f.usual)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown makes a name that a node sent safe to show: it is printable and short.
func shown(path string) string {
	const most = 80
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, path)
	if runes := []rune(clean); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return clean
}

// field reads one value. It is false where the value does not fit; v is unchanged then. A null for a list that may not be null counts
// as an empty list: a Go program writes null for a nil slice.
func (m *mender) field(f *field, raw json.RawMessage, v reflect.Value, path string) bool {
	if string(raw) == "null" {
		return f.null || f.kind == list || f.kind == rows
	}
	if v.Kind() == reflect.Pointer {
		inner := reflect.New(v.Type().Elem())
		if !m.value(f, raw, inner.Elem(), path) {
			return false
		}
		v.Set(inner)
		return true
	}
	return m.value(f, raw, v, path)
}

// value reads a value that is not null into v, by the kind of its field.
func (m *mender) value(f *field, raw json.RawMessage, v reflect.Value, path string) bool {
	switch f.kind {
	case text:
		return setText(f, raw, v)
	case whole:
		return setWhole(f, raw, v)
	case decimal:
		return setDecimal(f, raw, v)
	case truth:
		return json.Unmarshal(raw, v.Addr().Interface()) == nil
	case moment:
		return setMoment(raw, v)
	case object:
		return m.object(f.shape, raw, v, path)
	}
	return m.elements(f, raw, v, path)
}

func setText(f *field, raw []byte, v reflect.Value) bool {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > f.most || strings.ContainsFunc(s, unreadable) ||
		f.words != nil && !one(f.words, []byte(s)) {
		return false
	}
	v.SetString(s)
	return true
}

// unreadable is true for control characters, and for the replacement character: encoding/json gives that for half of a surrogate pair.
func unreadable(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }

// setWhole has the bounds of wholeNumber.
func setWhole(f *field, raw []byte, v reflect.Value) bool {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 && !f.signed || n >= 1e15 || n <= -1e15 {
		return false
	}
	v.SetInt(n)
	return true
}

// mostDecimal bounds numbers with a fraction, as whole numbers are. The gateway adds up what nodes say: a sum that no JSON text can hold
// would cost everybody the list of the fleet.
const mostDecimal = 1e15

// setDecimal refuses a text in quotes, and has the bound of decimalNumber.
func setDecimal(f *field, raw []byte, v reflect.Value) bool {
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(math.Abs(n) < mostDecimal) || n < 0 && !f.signed || raw[0] == '"' {
		return false
	}
	v.SetFloat(n)
	return true
}

func setMoment(raw []byte, v reflect.Value) bool {
	var t time.Time
	if json.Unmarshal(raw, &t) != nil {
		return false
	}
	t = t.UTC()
	if _, err := t.MarshalJSON(); err != nil { // in UTC the year may have more than four digits
		return false
	}
	v.Set(reflect.ValueOf(t))
	return true
}

// elements reads the elements that fit. A row without an index gets its place in the list as its index.
func (m *mender) elements(f *field, raw []byte, v reflect.Value, path string) bool {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return false
	}
	if len(all) > f.most {
		m.leave(fmt.Sprintf("%s from %d on", path, f.most))
		all = all[:f.most]
	}
	kept := reflect.MakeSlice(v.Type(), 0, len(all))
	for i, one := range all {
		element := reflect.New(v.Type().Elem()).Elem()
		at := fmt.Sprintf("%s[%d]", path, i)
		fits := false
		if f.kind == list {
			fits = setText(&field{most: wire.MaxText}, one, element)
		} else {
			fits = m.row(f.shape, one, element, at, i)
		}
		if !fits {
			m.leave(at)
			continue
		}
		kept = reflect.Append(kept, element)
	}
	v.Set(kept)
	return true
}

// row reads one row. The index that the node sent, if it fits, replaces the one from its place.
func (m *mender) row(sh *Shape, raw []byte, v reflect.Value, path string, place int) bool {
	if at := sh.index("index"); at >= 0 {
		v.Field(at).SetInt(int64(place))
	}
	return m.object(sh, raw, v, path)
}
