package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// call is one request that the gate let in, for its handler.
type call struct {
	server *server
	w      http.ResponseWriter
	r      *http.Request
	route  Route
	caller account.Caller
	status int // of the answer, unless it is a refusal
}

// serve runs the route's handler. The name of a channel in the path is one, or the handler does not run.
func (c *call) serve() (any, error) {
	if strings.Contains(c.route.Path, "{channel}") {
		if err := wire.CheckChannel(c.channel()); err != nil {
			return nil, err
		}
	}
	return c.route.serve(c.server, c)
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

// showsPSK is true if one of the body's texts is or holds the cluster's PSK.
func (c *call) showsPSK(body []byte) bool {
	return slices.ContainsFunc(secret.Texts(body, 1), secret.HasPSK) || c.server.Bootstrap.PSKInBody(c.r.Context(), body) != ""
}

// fieldError turns an error of the JSON decoder into a refusal that names the field and what it takes.
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

// fieldNames are the names that a request's struct has in JSON.
func fieldNames(v any) []string {
	t := reflect.TypeOf(v).Elem()
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// event begins a security event about what the caller does.
func (c *call) event(kind string) store.Event {
	return store.Event{At: c.server.now(), Kind: kind, Actor: c.caller.Actor.Name, Address: c.caller.Actor.Address, Outcome: store.OutcomeOK,
		Security: true}
}

// again has the gate look at the request once more. An answer that goes on was begun for one tenant: it ends if the account is for another
// one by now.
func (c *call) again() (account.Caller, error) {
	who, err := c.server.Gate.Admit(c.r, c.route.Need)
	if err == nil && who.Tenant != c.caller.Tenant {
		err = wire.Refuse(wire.CodeForbidden, "this account is for another tenant now", "ask again")
	}
	return who, err
}

// admitted is a context for an answer that may take long. It ends when the caller may not call the route any more, or lacks what may asks
// for; nil: it asks for nothing. The caller calls leave.
func (c *call) admitted(may func(account.Caller) error) (ctx context.Context, leave context.CancelCauseFunc) {
	ctx, leave = context.WithCancelCause(c.r.Context())
	go func() {
		leave(livestream.Guard(ctx, c.server.Tail, func() error {
			who, err := c.again()
			if err == nil && may != nil {
				err = may(who)
			}
			return err
		}))
	}()
	return ctx, leave
}
