package reply

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"muster/agent/wire"
)

// Strict serves mux with the manners of the whole API: Muster-Epoch in every answer, JSON where ServeMux would answer an
// unknown path or a wrong method in plain text (Allow stays), and a bare 500 with a request id where a handler panics.
func (i *Info) Strict(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(wire.HeaderEpoch, i.Epoch)
		defer i.hurry(w)
		defer i.recover(w)
		if h, pattern := mux.Handler(r); pattern == "" {
			i.WriteError(w, refusal(w, r, h))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// hurry bounds how long net/http may read what a handler has left of a body: it does so before the answer goes out and
// before the connection is closed, and by itself it would wait for ever.
func (i *Info) hurry(w http.ResponseWriter) {
	within := i.RestTime
	if within == 0 {
		within = 15 * time.Second
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // the kernel's clock; a writer of a test has none
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

// refusal asks ServeMux's own handler which of its two refusals it would give.
func refusal(w http.ResponseWriter, r *http.Request, h http.Handler) error {
	answer := &unsent{header: http.Header{}}
	h.ServeHTTP(answer, r)
	allow := answer.header.Get("Allow")
	if answer.status != http.StatusMethodNotAllowed {
		return &wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is nothing at this path",
			Hint: "check the URL, and that gateway and client are of about the same version"}
	}
	w.Header().Set("Allow", allow)
	return &wire.ErrorDetail{Code: wire.CodeMethodNotAllowed, Message: "this path does not take " + Method(r), Hint: "it takes " + allow}
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

// unsent is a ResponseWriter that keeps status and header and drops the body.
type unsent struct {
	header http.Header
	status int
}

func (u *unsent) Header() http.Header         { return u.header }
func (u *unsent) WriteHeader(status int)      { u.status = status }
func (u *unsent) Write(b []byte) (int, error) { return len(b), nil }
