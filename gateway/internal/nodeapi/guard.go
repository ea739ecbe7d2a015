package nodeapi

import (
	"context"
	"net/http"
	"strings"

	"muster/agent/wire"
)

// proxied marks the context of a request that a trusted proxy has read.
type proxied struct{}

// arrival is a request before any route has it.
type arrival struct {
	*http.Request
	doors Doors
	route *Route // of this API, that will answer; nil: none
	admin bool   // a route of the admin API will answer
}

// exposure is a secret that stands if none belongs. Without a refusal there is none.
type exposure struct {
	refusal error
	text    string // in which it was found
	psk     string // the id of the PSK that it is, where that is known
}

// Guard refuses requests in which a token or a PSK stands if none belongs, and makes an event of each. It looks before any route
// does, and before a path that is not clean is redirected.
func (a *API) Guard(next http.Handler, d Doors) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w, r, ok := a.enters(w, r, d); ok {
			next.ServeHTTP(w, r)
		}
	})
}

// enters tells whether a request may go on, and answers it where it may not. It has to return before the request goes on, because its
// stack is free again then. As part of Guard it would double the stack that each connection keeps.
func (a *API) enters(w http.ResponseWriter, r *http.Request, d Doors) (http.ResponseWriter, *http.Request, bool) {
	if strings.HasPrefix(r.URL.Path, wire.PathBootstrap) && d.proxied(r) {
		r = r.WithContext(context.WithValue(r.Context(), proxied{}, true))
	}
	var at *attempt
	register := a.registering(r)
	if register != nil { // whatever the method: every answer is proven, also a refusal before the handler, and the one after a fault
		at = a.look(w, r, register)
		r = r.WithContext(context.WithValue(r.Context(), attemptKey{}, at))
		if at.known {
			w = &prover{ResponseWriter: w, at: at, empty: r.Method == http.MethodHead}
		}
	}
	q := arrival{Request: r, doors: d, route: a.match(r), admin: d.admin(r)}
	found := a.misplaced(q)
	if found.refusal == nil && at != nil && at.secret && !q.route.takesCredential() { // it has another method, which takes no secret either
		found = sentInstead(string(at.raw), at.psk)
	}
	if found.refusal == nil {
		return w, r, true
	}
	w.Header().Set(wire.HeaderEpoch, a.Info.Epoch)
	a.refuseVisit(w, a.misused(r, visit{}, found))
	return w, r, false
}

// misplaced looks at all of a request but its body. The admin API looks at its own requests by itself. Of those, only the header
// Authorization is looked at here, and only if it came without TLS.
func (a *API) misplaced(q arrival) exposure {
	for _, look := range [...]func(arrival) exposure{inQuery, inPath, inAuthorization, inUsualHeaders, inOtherHeaders, a.knownPSK} {
		if found := look(q); found.refusal != nil {
			return found
		}
	}
	return exposure{}
}
