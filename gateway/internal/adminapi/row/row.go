// Package row has what the parts of the admin API's table begin with that stand in packages of their own: a row, what a handler gets, and
// what makes a handler of a function. Each of those packages has a type Call, which is the Call of this one and the service that it asks.
package row

import (
	"context"
	"net/http"
	"slices"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/adminapi/input"
)

// Row is one row of the API's table.
type Row[C any] struct {
	Method string
	Path   string
	Need   account.Need
	Reads  bool // a body
	Serve  func(C) (any, error)
}

// Of makes a Row.
func Of[C any](method, path string, need account.Need, reads bool, serve func(C) (any, error)) Row[C] {
	return Row[C]{method, path, need, reads, serve}
}

// Call is one request that the gate let in.
type Call struct {
	Request *http.Request
	Caller  account.Caller
	Body    []byte                 // of a row that reads one
	Read    func(filter any) error // reads the parameters
	Created func()                 // the answer is about something new
}

// Context ends with the request.
func (c Call) Context() context.Context { return c.Request.Context() }

// Named is a part of the path.
func (c Call) Named(part string) string { return c.Request.PathValue(part) }

// NoToken refuses a body with a token of this gateway in it: others see what bodies say, and some of it goes to companies.
func (c Call) NoToken() error {
	if slices.ContainsFunc(secret.Texts(c.Body, 1), secret.HasToken) {
		return wire.Refuse(wire.CodeBadRequest, "the body holds a token of this gateway",
			"others see what it says: leave the token out, and revoke it: muster token revoke ID")
	}
	return nil
}

func (c Call) filter(f any) error { return c.Read(f) }

// decode reads the body. An empty one is a request without values.
func (c Call) decode(q any) error {
	if err := c.NoToken(); err != nil {
		return err
	}
	return input.Decode(c.Body, q)
}

// caller is a type Call of a package.
type caller interface {
	filter(f any) error
	decode(q any) error
}

// Plain makes a handler for a route that takes no parameters, and reads its body itself if it has one.
func Plain[C caller](handler func(C) (any, error)) func(C) (any, error) {
	return func(c C) (any, error) {
		if err := c.filter(&struct{}{}); err != nil {
			return nil, err
		}
		return handler(c)
	}
}

// Asks makes a handler for a route whose parameters are a Filter.
func Asks[C caller, Filter any](handler func(C, Filter) (any, error)) func(C) (any, error) {
	return func(c C) (any, error) {
		var f Filter
		if err := c.filter(&f); err != nil {
			return nil, err
		}
		return handler(c, f)
	}
}

// Takes makes a handler for a route whose body is a Request.
func Takes[C caller, Request any](handler func(C, Request) (any, error)) func(C) (any, error) {
	return Plain(func(c C) (any, error) {
		var q Request
		if err := c.decode(&q); err != nil {
			return nil, err
		}
		return handler(c, q)
	})
}
