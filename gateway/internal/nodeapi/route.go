package nodeapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/fleet"
)

// Proof is what a route wants of its caller before it looks at anything else.
type Proof int

const (
	NoProof     Proof = iota // anyone may ask
	Credential               // a token or a PSK, proven by a MAC over the body; its key proves the answer too
	Certificate              // the certificate that the body shows, with a proof of its key; it need not be on record
	Identity                 // a certificate on record, by the TLS connection, by a signature, or by both
	FetchPart                // a bootstrap token in the path: its fetch part, or all of it over TLS that the gateway itself ends
	WholeToken               // all of a bootstrap token in the path, over TLS that the gateway itself ends
)

// Route is one path of this API. Both network listeners have all of them; the operator's socket has none.
type Route struct {
	Method   string // GET takes HEAD as well
	Path     string // as http.ServeMux has patterns; with Identity, {id} is the node, where there is one
	Proof    Proof
	Purpose  fleet.Purpose // of Identity; the zero value: for anything
	MaxBody  int64         // bytes
	BodyTime time.Duration // how long the body may take to arrive; 0: Config.BodyTime

	// Node answers a proven request of a node, for the proof Identity. A nil result is an answer without a body, a Content is a file, and
	// Bytes is an answer that is not JSON.
	Node func(context.Context, Call) (any, error)

	// serve answers a request, for all other proofs, and checks the proof itself.
	serve func(http.ResponseWriter, *http.Request, *Route)
}

// Call is one proven request of a node.
type Call struct {
	Identity *fleet.Identity
	Body     []byte
	Proof    fleet.Proof

	request *http.Request
	signed  bool // by a signature of ours, beside which there may be a client certificate
}

// anyone serves a route that wants no proof.
func anyone(h http.HandlerFunc) func(http.ResponseWriter, *http.Request, *Route) {
	return func(w http.ResponseWriter, r *http.Request, _ *Route) { h(w, r) }
}

// endpoint is a route of an API as a mux has it.
type endpoint struct {
	*Route
	api *API
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.Proof == Identity {
		e.api.node(w, r, e.Route)
		return
	}
	e.serve(w, r, e.Route)
}

// Table lists the routes.
func (a *API) Table() []Route { return slices.Clone(a.routes) }

// Routes adds every route to a listener's mux. The mux stands behind Guard: that reads the body of a register request.
func (a *API) Routes(mux *http.ServeMux) {
	for i := range a.routes {
		route := &a.routes[i]
		if route.BodyTime == 0 {
			route.BodyTime = a.BodyTime
		}
		mux.Handle(route.Method+" "+route.Path, &endpoint{route, a})
	}
}

// match gives the route that will answer a request; nil if none of this API's does.
func (a *API) match(r *http.Request) *Route {
	if !plainSlashes(r) {
		return nil
	}
	h, _ := a.mux.Handler(r)
	if e, ok := h.(*endpoint); ok {
		return e.Route
	}
	return nil
}

// plainSlashes tells whether no slash in the path is written as %2F. ServeMux matches such a slash as part of a segment.
func plainSlashes(r *http.Request) bool {
	return r.URL.RawPath == "" || strings.Count(r.URL.EscapedPath(), "/") == strings.Count(r.URL.Path, "/")
}

// registering gives the route that takes credentials, where the request has its path; else nil. The method does not matter.
func (a *API) registering(r *http.Request) *Route {
	at := slices.IndexFunc(a.routes, func(route Route) bool { return route.Proof == Credential && route.Path == r.URL.Path })
	if at < 0 {
		return nil
	}
	return &a.routes[at]
}

// takesToken tells whether the route's path holds a bootstrap token.
func (r *Route) takesToken() bool { return r != nil && (r.Proof == FetchPart || r.Proof == WholeToken) }

// takesCredential tells whether the route's requests name a credential in a header.
func (r *Route) takesCredential() bool { return r != nil && r.Proof == Credential }

// takesKey tells whether the route's caller proves that it holds a node's key.
func (r *Route) takesKey() bool { return r != nil && (r.Proof == Identity || r.Proof == Certificate) }
