package sign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"muster/agent/wire"
)

// Encode does what json.Marshal does, for values that a machine will act on. It refuses a text that is not UTF-8: encoding/json would
// replace each such byte by another character, and the node would act on a file with another name. The error is a *wire.ErrorDetail. It
// says where the text stands, and never the text, which may be a secret.
func Encode(v any) ([]byte, error) {
	if place, found := mangled(reflect.ValueOf(v)); found {
		return nil, wire.Refuse(wire.CodeBadRequest, cmp.Or(strings.TrimPrefix(place, "."), "the text")+
			" is not UTF-8, and cannot be sent as it is",
			"a pattern of a shell on the node can name such a file: muster node exec NAME -- sh -c 'ls /srv/lat*'")
	}
	return json.Marshal(v)
}

// mangled finds a text that json.Marshal would change, and says where it stands: ".command[1]". What encodes itself is left to itself.
func mangled(v reflect.Value) (place string, found bool) {
	if !v.IsValid() || v.Type().Implements(reflect.TypeFor[json.Marshaler]()) {
		return "", false
	}
	switch v.Kind() {
	case reflect.String:
		return "", !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return mangled(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if place, found = mangled(v.Field(i)); found {
				if name := jsonName(v.Type().Field(i)); name != "" {
					place = "." + name + place
				}
				return place, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if place, found = mangled(v.Index(i)); found {
				return fmt.Sprintf("[%d]%s", i, place), true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if place, found = mangled(key); found {
				return place + " (a name in it)", true
			}
			if place, found = mangled(v.MapIndex(key)); found {
				return fmt.Sprintf(".%v%s", key, place), true
			}
		}
	}
	return "", false
}

// halved reports whether a string of well-formed JSON has one half of a surrogate pair alone. Some languages write bytes that are not UTF-8
// so, and encoding/json would put another character in its place.
func halved(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		r := escaped(raw[i:])
		if r < 0 {
			continue
		}
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if raw[i+1] != '\\' || utf16.DecodeRune(r, escaped(raw[i+2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped is the character of an escape behind its backslash, such as u00e9; -1: it is another escape.
func escaped(raw []byte) (r rune) {
	if raw[0] != 'u' {
		return -1
	}
	for _, c := range raw[1:5] {
		digit := c - '0'
		if c > '9' {
			digit = (c | 0x20) - 'a' + 10
		}
		r = r<<4 | rune(digit)
	}
	return r
}
