package adminapi

import (
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
	"muster/gateway/internal/account"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
	"muster/store"
)

// call is one admitted request on its way through a handler.
type call struct {
	server *server
	w      http.ResponseWriter
	r      *http.Request
	route  Route
	caller account.Caller
	status int // of the answer when it is no refusal
}

// decode reads the body into the struct that v points to. No body at all leaves v as it is. Unknown fields are refused
// with the known ones named, and a value of the wrong type with its field.
func (c *call) decode(v any) error {
	body, err := reply.ReadBody(c.w, c.r, c.route.Body.Bytes, c.route.Body.Time)
	if err != nil || len(strings.TrimSpace(string(body))) == 0 {
		return err
	}
	if !c.route.Body.PSK && c.showsPSK(body) {
		return account.PlainPSK("stands in what this would keep and show")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return wire.Refuse(wire.CodeBadRequest, "the body is not a JSON object", "send an object such as {}")
	}
	known := fieldNames(v)
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

// showsPSK tells whether one of the body's texts is or holds the cluster's PSK.
func (c *call) showsPSK(body []byte) bool {
	return slices.ContainsFunc(secret.Texts(body, 1), secret.HasPSK) || c.server.Bootstrap.PSKInBody(c.r.Context(), body) != ""
}

func fieldError(err error, known []string) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the field %q cannot be a %s", wrong.Field, wrong.Value),
			"it takes a "+jsonType(wrong.Type))
	}
	text := strings.TrimSuffix(err.Error(), ": "+sign.ErrMalformed.Error())
	return wire.Refuse(wire.CodeBadRequest, strings.TrimPrefix(text, sign.ErrMalformed.Error()+": "), knownHint("fields", known))
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

func knownHint(what string, known []string) string {
	if len(known) == 0 {
		return "it takes no " + what
	}
	return "it takes the " + what + " " + strings.Join(known, ", ")
}

// list reads the parameters of a list that has a whole form, and may be of one tenant.
func (c *call) list() (all bool, tenant string, err error) {
	p, err := c.query("all", "tenant")
	if err != nil {
		return false, "", err
	}
	if all, err = p.flag("all"); err != nil {
		return false, "", err
	}
	tenant, err = c.caller.Within(p.text("tenant"))
	return all, tenant, err
}

// event is a security event of what the caller does.
func (c *call) event(kind string) store.Event {
	return store.Event{At: c.server.now(), Kind: kind, Actor: c.caller.Actor.Name, Address: c.caller.Actor.Address, Outcome: store.OutcomeOK,
		Security: true}
}

// query reads the parameters that a route knows, each at most once.
func (c *call) query(known ...string) (parameters, error) {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "the query string is malformed", "encode it as application/x-www-form-urlencoded")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("unknown parameter %.60q", name), knownHint("parameters", known))
		}
		if len(values[name]) > 1 {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q stands more than once", name), "give it once")
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
	return false, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is neither true nor false", name), "write "+name+"=true")
}

func (p parameters) number(name string, least, most int64) (int64, error) {
	text := p.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no number from %d to %d", name, least, most),
			"correct it or leave it out")
	}
	return n, nil
}

// Entries of one page.
const (
	usualPage   = 100
	largestPage = 1000
)

func (p parameters) limit() (int, error) {
	n, err := p.number("limit", 1, largestPage)
	if n == 0 {
		n = usualPage
	}
	return int(n), err
}

func (p parameters) time(name string) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("the parameter %q is no time", name), "write it as 2026-11-21T10:00:00Z")
	}
	return at, nil
}
