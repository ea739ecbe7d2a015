// Package row has what the rows of the admin API's table are made of: what a handler gets, and functions that make a handler out of a
// function whose argument is the parameters or the body as a struct. Each package with rows has a type Call of its own: the Call of this
// package and the services that the handlers use.
package row

import (
	"context"
	"net/http"
	"slices"
	"time"

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
	W       http.ResponseWriter
	Request *http.Request
	Caller  account.Caller
	Status  int                    // of the answer, unless it is a refusal
	Body    func() ([]byte, error) // reads the body within the row's bounds
	Now     func() time.Time
}

// Context ends with the request.
func (c *Call) Context() context.Context { return c.Request.Context() }

// Named returns a part of the path.
func (c *Call) Named(part string) string { return c.Request.PathValue(part) }

// Created sets the answer's status to 201: the answer is about something new.
func (c *Call) Created() { c.Status = http.StatusCreated }

// Query reads the parameters of a route that it knows.
func (c *Call) Query(known ...string) (input.Parameters, error) {
	return input.Query(c.Request.URL, known...)
}

// Ask reads the parameters into a filter. The tenant in it is the caller's own, or one that the caller may ask for.
func (c *Call) Ask(filter any) error {
	return input.Filter(c.Request.URL, filter, c.Caller.Within, c.Now())
}

// Decode reads the body into the struct that v points to. No body at all leaves v as it is.
func (c *Call) Decode(v any) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	return input.Decode(body, v)
}

// Clean reads the body, and refuses it if it holds a token of this gateway: others see what bodies say, and some of it goes to companies.
func (c *Call) Clean() ([]byte, error) {
	body, err := c.Body()
	if err == nil && slices.ContainsFunc(secret.Texts(body, 1), secret.HasToken) {
		err = wire.Refuse(wire.CodeBadRequest, "the body holds a token of this gateway",
			"others see what it says: leave the token out, and revoke it: muster token revoke ID")
	}
	return body, err
}

// caller is a type Call of a package.
type caller interface {
	Query(known ...string) (input.Parameters, error)
	Ask(filter any) error
	Decode(v any) error
	Clean() ([]byte, error)
}

// Plain makes a handler for a route that takes no parameters: it refuses a request that has some.
func Plain[C caller](handler func(C) (any, error)) func(C) (any, error) {
	return func(c C) (any, error) {
		if _, err := c.Query(); err != nil {
			return nil, err
		}
		return handler(c)
	}
}

// Asks makes a handler for a route whose parameters are a Filter. It reads them before the handler runs.
func Asks[C caller, Filter any](handler func(C, Filter) (any, error)) func(C) (any, error) {
	return func(c C) (any, error) {
		var f Filter
		if err := c.Ask(&f); err != nil {
			return nil, err
		}
		return handler(c, f)
	}
}

// Reads makes a handler for a route whose body is a Request, and whose parameters, if it has any, the handler reads. An empty body is a
// Request without values.
func Reads[C caller, Request any](handler func(C, Request) (any, error)) func(C) (any, error) {
	return func(c C) (any, error) {
		var q Request
		if err := c.Decode(&q); err != nil {
			return nil, err
		}
		return handler(c, q)
	}
}

// Takes makes a handler for a route whose body is a Request without a token in it, and which takes no parameters.
func Takes[C caller, Request any](handler func(C, Request) (any, error)) func(C) (any, error) {
	return Plain(func(c C) (any, error) {
		body, err := c.Clean()
		if err != nil {
			return nil, err
		}
		var q Request
		if err := input.Decode(body, &q); err != nil {
			return nil, err
		}
		return handler(c, q)
	})
}
