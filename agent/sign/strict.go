package sign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// DecodeStrict reads a verified JSON document into the struct that v points to. It refuses unknown keys, keys that stand twice or
// differ in case alone, and data after the document. encoding/json takes all of these, and of two keys the last one counts: two readers
// could understand two things. Errors wrap ErrMalformed.
func DecodeStrict(data []byte, v any) error { return decodeStrict(data, v, false) }

// DecodeOnce is DecodeStrict for a message of a peer that may be newer: it skips unknown keys. An unknown key may not stand twice either,
// and may not be a known key in another case.
func DecodeOnce(data []byte, v any) error { return decodeStrict(data, v, true) }

func decodeStrict(data []byte, v any, newer bool) error {
	if !utf8.Valid(data) || bytes.Equal(bytes.TrimSpace(data), []byte("null")) { // json would repair the one and ignore the other
		return fmt.Errorf("not UTF-8, or null: %w", ErrMalformed)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := strictValue(d, reflect.TypeOf(v), newer, 0); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("data after the document: %w", ErrMalformed)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// strictValue walks one JSON value along the Go type into which it will be read.
func strictValue(d *json.Decoder, t reflect.Type, newer bool, depth int) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := d.Token()
	if err != nil || depth > 32 {
		return fmt.Errorf("not JSON, or nested too deeply: %w", ErrMalformed)
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			if err := strictValue(d, element(t), newer, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		if err := strictObject(d, t, newer, depth); err != nil {
			return err
		}
	default:
		return nil
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", ErrMalformed)
	}
	return nil
}

// strictObject walks the members of one object up to its closing brace. encoding/json would take the last of two equal keys.
func strictObject(d *json.Decoder, t reflect.Type, newer bool, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return fmt.Errorf("not JSON: %w", ErrMalformed)
		}
		inner, known := member(t, key)
		if seen[key] || !known && (!newer || variant(t, key)) {
			return fmt.Errorf("key %.40q is unknown or stands twice: %w", key, ErrMalformed)
		}
		seen[key] = true
		if err := strictValue(d, inner, newer, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// variant reports whether encoding/json would take an unknown key for a known one.
func variant(t reflect.Type, key string) bool {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if strings.EqualFold(name, key) || name == "" && strings.EqualFold(field.Name, key) {
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
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && !field.Anonymous {
			name = field.Name
		}
		if name == key && name != "-" && name != "" && field.IsExported() {
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
