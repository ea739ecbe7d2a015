package reply

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"muster/agent/wire"
)

const restPattern = "/"

// Strict serves mux as the whole API answers. Muster-Epoch is in every answer. An unknown path and a wrong method are refused in JSON,
// where ServeMux alone would write plain text; Allow stays. If a handler panics the answer is a bare 500 with a request id. Strict
// adds the pattern "/" to mux, for requests that no other pattern takes.
func (i *Info) Strict(mux *http.ServeMux) http.Handler {
	mux.HandleFunc(restPattern, func(w http.ResponseWriter, r *http.Request) { i.WriteError(w, refusal(w, r, mux)) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.HeaderEpoch, i.Epoch)
		defer i.recover(w)
		mux.ServeHTTP(w, r)
	})
}

// recover answers a request whose handler panicked. http.ErrAbortHandler goes on: with it a handler asks net/http to cut the connection.
func (i *Info) recover(w http.ResponseWriter) {
	switch fault := recover(); fault {
	case nil:
	case http.ErrAbortHandler:
		panic(fault)
	default:
		w.Header().Set("Connection", "close")
		i.WriteError(w, fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
	}
}

// refusal is 404 for a path with nothing at it, and 405 for one that takes other methods.
func refusal(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) error {
	allow := strings.Join(allowed(r, mux), ", ")
	if allow == "" {
		return wire.Refuse(wire.CodeNotFound, "there is nothing at this path",
			"check the URL, and that gateway and client are of about the same version")
	}
	w.Header().Set("Allow", allow)
	return wire.Refuse(wire.CodeMethodNotAllowed, "this path does not take "+Method(r), "it takes "+allow)
}

// allowed are the methods for which mux has a pattern other than "/", in order.
func allowed(r *http.Request, mux *http.ServeMux) (methods []string) {
	asked := *r
	for _, asked.Method = range [...]string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut,
	} {
		if _, pattern := mux.Handler(&asked); pattern != restPattern {
			methods = append(methods, asked.Method)
		}
	}
	return methods
}

// Method returns the request's method if HTTP knows it. A client can write anything there.
func Method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "this method"
}
