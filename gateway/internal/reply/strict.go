package reply

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"muster/agent/wire"
)

const restPattern = "/"

// Strict serves mux with the manners of the whole API: Muster-Epoch in every answer, JSON where ServeMux would answer an
// unknown path or a wrong method in plain text (Allow stays), and a bare 500 with a request id where a handler panics. It adds
// the pattern "/" to mux, for what no other one takes.
func (i *Info) Strict(mux *http.ServeMux) http.Handler {
	mux.HandleFunc(restPattern, func(w http.ResponseWriter, r *http.Request) { i.WriteError(w, refusal(w, r, mux)) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.HeaderEpoch, i.Epoch)
		defer i.recover(w)
		mux.ServeHTTP(w, r)
	})
}

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

// refusal tells a path that nothing is at from one that takes other methods.
func refusal(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) error {
	allow := strings.Join(allowed(r, mux), ", ")
	if allow == "" {
		return wire.Refuse(wire.CodeNotFound, "there is nothing at this path",
			"check the URL, and that gateway and client are of about the same version")

	}
	w.Header().Set("Allow", allow)
	return wire.Refuse(wire.CodeMethodNotAllowed, "this path does not take "+Method(r), "it takes "+allow)
}

// allowed are the methods for which mux has more than its rest, in order.
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

// Method is the request's method if it is one that HTTP knows; a client can write anything there.
func Method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "this method"
}
