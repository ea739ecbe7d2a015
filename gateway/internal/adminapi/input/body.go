// Package input reads what a request of the admin API says: its parameters and its body. It refuses what it does not know, and says what it
// knows.
package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
)

// Decode reads a body into the struct that v points to. No body at all leaves v as it is. Unknown fields are refused with the known ones
// named, and a value of the wrong type with its field.
func Decode(body []byte, v any) error {
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return wire.Refuse(wire.CodeBadRequest, "the body is not a JSON object", "send an object such as {}")
	}
	known := namesOf(fieldsOf(reflect.TypeOf(v).Elem()))
	for name := range fields {
		if !slices.Contains(known, name) {
			return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the body has an unknown field %.60q", name), knownHint("fields", known))
		}
	}
	if err := sign.DecodeStrict(body, v); err != nil {
		return fieldError(err, known)
	}
	return nil
}

// fieldError turns an error of the JSON decoder into a refusal that names the field and what it takes.
func fieldError(err error, known []string) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the field %q cannot be a %s", inJSON(wrong.Field), wrong.Value),
			"it takes a "+jsonType(wrong.Type))
	}
	text := strings.TrimSuffix(err.Error(), ": "+sign.ErrMalformed.Error())
	return wire.Refuse(wire.CodeBadRequest, strings.TrimPrefix(text, sign.ErrMalformed.Error()+": "), knownHint("fields", known))
}

// inJSON leaves out the names that only Go has: those of structs whose fields are in JSON the fields of the struct around them.
func inJSON(path string) string {
	names := slices.DeleteFunc(strings.Split(path, "."), func(name string) bool { return name != strings.ToLower(name) })
	return strings.Join(names, ".")
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "JSON object"
	}
	return "string"
}
