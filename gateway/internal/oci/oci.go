// Package oci is the registry's HTTP API: the OCI distribution specification 1.1 below /v2/, on top of package artifact.
//
// Its routes are a table. Each row has the method and path, what a caller needs, and the handler. Package account judges the caller by
// the row before the handler runs. Errors have the form of that specification.
//
// A client logs in at /v2/token with an account's name and API token. It gets a pass for the repositories and actions that it names, as
// far as the account may do that. Basic is good on every other route too.
package oci

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
)

// API is what the routes need.
type API struct {
	Gate     *account.Gate // of the listener; it has passes
	Registry *artifact.Registry
	Info     *reply.Info
	URL      string           // under which clients reach this gateway
	Now      func() time.Time // nil: time.Now
	Logger   *slog.Logger     // nil: slog.Default
}

// Routes makes the handler of the whole table.
func (a *API) Routes() http.Handler {
	s := &server{API: *a, routes: Table()}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	return s
}

// server is an API whose optional fields are filled in.
type server struct {
	API
	routes []Route
}

// call is one request that the gate let in, for its handler.
type call struct {
	server *server
	w      http.ResponseWriter
	r      *http.Request
	route  *Route
	query  url.Values
	caller account.Caller
	place
}

// place is what a path names.
type place struct {
	name string // a repository; empty: none
	what string // a digest, a tag, or an upload
}

// ServeHTTP finds the row of a request. No content is ever run by a browser, whatever its media type says.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answersEarly(w, r)
	h := w.Header()
	h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	path := strings.TrimPrefix(r.URL.Path, wire.PathRegistry)
	var allowed []string
	for i := range s.routes {
		route := &s.routes[i]
		found, ok := route.match(path)
		if ok && route.takes(r.Method) {
			s.guarded(w, r, route, found)
			return
		}
		if ok {
			allowed = append(allowed, route.methods()...)
		}
	}
	if len(allowed) == 0 {
		write(w, http.StatusNotFound, problem{Code: artifact.CodeNameUnknown, Message: "there is nothing at this path"})
		return
	}
	h.Set("Allow", strings.Join(allowed, ", "))
	write(w, http.StatusMethodNotAllowed, problem{Code: codeUnsupported, Message: "this path does not take " + reply.Method(r)})
}

// guarded is the only way to a handler. It runs a route's handler if the gate lets the caller in. The account is judged first: a client
// whose account may not do this at all must not go for another pass.
func (s *server) guarded(w http.ResponseWriter, r *http.Request, route *Route, at place) {
	wrong := checkPlace(at)
	if wrong != nil {
		at.name = "" // no challenge may quote it
	}
	who, err := s.Gate.Admit(r, route.Need)
	if err != nil {
		s.refuse(w, r, who, route, at, err)
		return
	}
	if wrong != nil {
		s.fail(w, r, wrong)
		return
	}
	if route.Action != "" && !who.Opens(at.name, route.Action) {
		defer linger(w, r)
		s.challenge(w, route, at, insufficient)
		write(w, http.StatusUnauthorized, problem{Code: codeUnauthorized, Message: "this pass does not open that"})
		return
	}
	c := &call{server: s, w: httpserver.Patient(w), r: r, route: route, query: r.URL.Query(), caller: who, place: at}
	if err := route.serve(c); err != nil {
		s.fail(w, r, err)
	}
}

// checkPlace refuses a repository whose name is none, or looks like a token. Names are shown and logged.
func checkPlace(at place) error {
	if at.name == "" {
		return nil
	}
	for segment := range strings.SplitSeq(at.name, "/") {
		if secret.TokenLike(segment) {
			return &artifact.Error{Code: artifact.CodeNameInvalid, Message: "the name looks like a token: revoke it if it is one"}
		}
	}
	return artifact.CheckName(at.name)
}

// refuse answers a caller who is not let in.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, who account.Caller, route *Route, at place, err error) {
	wait, err := s.Gate.Refused(r, who, route.Need, err)
	if wait > 0 {
		w.Header().Set("Retry-After", account.RetryAfter(wait))
	}
	s.challenge(w, route, at, "")
	s.fail(w, r, err)
}

// path is where something of a repository lies, without the gateway's URL: so it is right behind every proxy.
func (c *call) path(kind, what string) string {
	return wire.PathRegistry + c.name + "/" + kind + "/" + what
}

// body is the request's body, which may take as long as the peer goes on sending it.
func (c *call) body() *incoming { return &incoming{from: httpserver.PatientBody(c.w, c.r)} }

// created answers that something is there now.
func (c *call) created(location, digest string) {
	h := c.w.Header()
	h.Set("Location", location)
	h.Set(headerDigest, digest)
	c.w.WriteHeader(http.StatusCreated)
}
