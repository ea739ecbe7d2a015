package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
)

// call is one authorized request on its way through a handler.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	caller caller
	within time.Duration // for the body
	status int           // of the answer when it is no refusal

	pskIn func(ctx context.Context, body []byte) (id string)
}

// decode reads the body into the struct that v points to. No body at all leaves v as it is. Unknown fields are refused
// with the known ones named, and a value of the wrong type with its field.
func (c *call) decode(v any) error {
	body, err := reply.ReadBody(c.w, c.r, wire.MaxBody, c.within)
	if err != nil || len(strings.TrimSpace(string(body))) == 0 {
		return err
	}
	if _, sets := v.(*client.PSKRequest); !sets && (slices.ContainsFunc(secret.Texts(body, 1), secret.HasPSK) || c.pskIn(c.r.Context(), body) != "") {
		return plainPSK("stands in what this would keep and show")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return badRequest("the body is not a JSON object", "send an object such as {}")
	}
	known := fieldNames(v)
	for name := range fields {
		if !slices.Contains(known, name) {
			return badRequest(fmt.Sprintf("the body has an unknown field %.60q", name), knownHint("fields", known))
		}
	}
	if err := sign.DecodeStrict(body, v); err != nil {
		return fieldError(err, known)
	}
	return nil
}

func fieldError(err error, known []string) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return badRequest(fmt.Sprintf("the field %q cannot be a %s", wrong.Field, wrong.Value), "it takes a "+jsonType(wrong.Type))
	}
	text := strings.TrimSuffix(err.Error(), ": "+sign.ErrMalformed.Error())
	return badRequest(strings.TrimPrefix(text, sign.ErrMalformed.Error()+": "), knownHint("fields", known))
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "JSON object"
	}
	return "string"
}

func fieldNames(v any) []string {
	t := reflect.TypeOf(v).Elem()
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func badRequest(message, hint string) error {
	return wire.Refuse(wire.CodeBadRequest, message, hint)
}

func knownHint(what string, known []string) string {
	if len(known) == 0 {
		return "it takes no " + what
	}
	return "it takes the " + what + " " + strings.Join(known, ", ")
}

// query reads the parameters that a route knows, each at most once.
func (c *call) query(known ...string) (parameters, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query string is malformed", "encode it as application/x-www-form-urlencoded")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, badRequest(fmt.Sprintf("unknown parameter %.60q", name), knownHint("parameters", known))
		}
		if len(values[name]) > 1 {
			return nil, badRequest(fmt.Sprintf("the parameter %q stands more than once", name), "give it once")
		}
	}
	return parameters(values), nil
}

// parameters are a query's values by name.
type parameters map[string][]string

func (p parameters) text(name string) string { return url.Values(p).Get(name) }

func (p parameters) has(name string) bool { return len(p[name]) > 0 }

func (p parameters) flag(name string) (bool, error) {
	switch p.text(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, badRequest(fmt.Sprintf("the parameter %q is neither true nor false", name), "write "+name+"=true")
}

func (p parameters) number(name string, least, most int64) (int64, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, badRequest(fmt.Sprintf("the parameter %q is no number from %d to %d", name, least, most), "correct it or leave it out")
	}
	return n, nil
}

func (p parameters) time(name string) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badRequest(fmt.Sprintf("the parameter %q is no time", name), "write it as 2026-11-21T10:00:00Z")
	}
	return at, nil
}
