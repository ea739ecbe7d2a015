package sign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DecodeStrict reads a verified JSON document into the struct that v points to. It refuses unknown keys, keys that stand twice or differ in
// case alone, and data after the document. encoding/json takes all of these, and uses the last of two equal keys: two readers could
// understand two things. Errors wrap ErrMalformed.
func DecodeStrict(data []byte, v any) error { return decodeStrict(data, v, false) }

// DecodeOnce does what DecodeStrict does, for a message of a peer that may be newer: it skips unknown keys. An unknown key may not stand
// twice either, and may not be a known key in another case.
func DecodeOnce(data []byte, v any) error { return decodeStrict(data, v, true) }

func decodeStrict(data []byte, v any, newer bool) error {
	if !utf8.Valid(data) || bytes.Equal(bytes.TrimSpace(data), []byte("null")) { // json would repair the one and ignore the other
		return fmt.Errorf("not UTF-8, or null: %w", ErrMalformed)
	}
	if !json.Valid(data) {
		return fmt.Errorf("not JSON, or data after the document: %w", ErrMalformed)
	}
	w := walker{text: data, newer: newer}
	if err := w.value(reflect.TypeOf(v), 0); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// maxDepth is how deeply a document may be nested.
const maxDepth = 32

// walker reads well-formed JSON, and refuses what encoding/json accepts. json.Decoder's tokens would do as well, but json.Decoder decodes
// a value for each of them, which takes five times as long.
type walker struct {
	text  []byte
	at    int
	newer bool // unknown keys are skipped
}

// value reads one JSON value along the Go type into which it is read.
func (w *walker) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested too deeply: %w", ErrMalformed)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch w.next() {
	case '{':
		return w.object(t, depth)
	case '[':
		return w.array(element(t), depth)
	case '"':
		if halved(w.quoted()) {
			return fmt.Errorf("half a character: %w", ErrMalformed)
		}
		return nil
	}
	return w.literal()
}

func (w *walker) array(t reflect.Type, depth int) error {
	w.at++
	for w.more(']') {
		if err := w.value(t, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// object reads an object. encoding/json would take the last of two equal keys.
func (w *walker) object(t reflect.Type, depth int) error {
	w.at++
	seen := map[string]bool{}
	for w.more('}') {
		key, whole := w.key()
		inner, known := member(t, key)
		if !whole || seen[key] || !known && (!w.newer || variant(t, key)) {
			return fmt.Errorf("key %.40q is unknown, stands twice or has half a character: %w", key, ErrMalformed)
		}
		seen[key] = true
		if err := w.value(inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// more goes to the next element of a container, or behind the container's end.
func (w *walker) more(end byte) bool {
	c := w.next()
	if c == ',' {
		w.at++
		c = w.next()
	}
	if c == end {
		w.at++
	}
	return c != end
}

// key reads the key of a member and goes to its value.
func (w *walker) key() (key string, whole bool) {
	raw := w.quoted()
	w.next()
	w.at++ // the colon
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	_ = json.Unmarshal(raw, &key) // it was read before
	return key, !halved(raw)
}

// quoted reads a string as it stands, with its quotes.
func (w *walker) quoted() []byte {
	start := w.at
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	return w.text[start:w.at]
}

// literal reads a number, true, false or null. A number that is skipped must fit a float64 too.
func (w *walker) literal() error {
	start := w.at
	for w.at < len(w.text) && bytes.IndexByte([]byte(",]} \t\r\n"), w.text[w.at]) < 0 {
		w.at++
	}
	if c := w.text[start]; c != 't' && c != 'f' && c != 'n' {
		if _, err := strconv.ParseFloat(string(w.text[start:w.at]), 64); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return nil
}

// next skips white space, and gives the byte after it.
func (w *walker) next() byte {
	for bytes.IndexByte([]byte(" \t\r\n"), w.text[w.at]) >= 0 {
		w.at++
	}
	return w.text[w.at]
}

// variant reports whether encoding/json would take an unknown key for a known one.
func variant(t reflect.Type, key string) bool {
	for i := range t.NumField() {
		field := t.Field(i)
		if strings.EqualFold(jsonName(field), key) {
			return true
		}
		if field.Anonymous && field.Type.Kind() == reflect.Struct && variant(field.Type, key) {
			return true
		}
	}
	return false
}

func element(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		return t.Elem()
	}
	return nil
}

// member gives the type behind a key, and reports whether the key is known in this spelling. In a type without fixed keys (a map, any)
// every key is known.
func member(t reflect.Type, key string) (reflect.Type, bool) {
	switch {
	case t == nil || t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]():
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), true
	case t.Kind() != reflect.Struct:
		return nil, true // of the wrong type: json.Unmarshal says so
	}
	return structMember(t, key)
}

// structMember looks among a struct's own fields first and then in those it embeds, as encoding/json does.
func structMember(t reflect.Type, key string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if field := t.Field(i); jsonName(field) == key && key != "-" && key != "" && field.IsExported() {
			return field.Type, true
		}
	}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.Anonymous || field.Tag.Get("json") != "" || field.Type.Kind() != reflect.Struct {
			continue
		}
		if inner, known := structMember(field.Type, key); known {
			return inner, true
		}
	}
	return nil, false
}

// jsonName is a field's key in JSON. An embedded struct has none.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && !f.Anonymous {
		return f.Name
	}
	return name
}
