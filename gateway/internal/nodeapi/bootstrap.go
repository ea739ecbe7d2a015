package nodeapi

import (
	"io"
	"net/http"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/registry"
	"muster/gateway/internal/reply"
	"muster/store"
)

// bootstrapPrefix begins the routes that a bootstrap token opens. The token is part of the path.
const bootstrapPrefix = "/api/v1/bootstrap/nodes/"

// What follows the token.
const (
	scriptSuffix     = "/script"
	credentialSuffix = "/registry-credential"
)

// visit is one request with a bootstrap token that was proven to be good.
type visit struct {
	bootstrap.Visit
	node    store.Node
	address string
}

// script answers GET and POST .../{token}/script. With the fetch part alone the script comes without the secret, over plain HTTP
// too: its digest, which the operator was shown, vouches for it.
func (a *API) script(w http.ResponseWriter, r *http.Request) {
	v, err := a.visited(r, false)
	if err == nil {
		err = a.fetched(r, v)
	}
	text := ""
	if err == nil {
		text, err = v.Script()
	}
	if err != nil {
		a.refuseVisit(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/x-shellscript; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, text)
}

func (a *API) fetched(r *http.Request, v visit) error {
	if err := a.Bootstrap.Fetched(r.Context(), v.Visit, v.node, v.address); err != nil {
		return err
	}
	return a.Registry.Fetched(r.Context(), v.node.ID, store.Actor{Name: "token:" + v.Token.ID, Address: v.address})
}

// registryCredential lends the credential for the registry to who has the whole token, over TLS alone. Who accepts text/plain
// gets the user on the first line and the password on the second: a shell reads no JSON.
func (a *API) registryCredential(w http.ResponseWriter, r *http.Request) {
	v, err := a.visited(r, true)
	var c bootstrap.RegistryCredential
	ok := false
	if err == nil {
		c, ok, err = a.Bootstrap.Lend(r.Context(), v.Visit, v.node, v.address)
	}
	switch {
	case err != nil:
		a.refuseVisit(w, err)
	case !ok:
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(r.Header.Get("Accept"), "text/plain"):
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, c.Username+"\n"+c.Password+"\n")
	default:
		reply.Write(w, http.StatusOK, reply.JSON(c))
	}
}

// visited proves the token in the path. Every refusal is an event, as far as one address does not cause too many.
func (a *API) visited(r *http.Request, secret bool) (visit, error) {
	v := visit{address: a.Address(r)}
	token, whole, err := bootstrap.ParsePath(r.PathValue("token"))
	if err != nil {
		return v, a.misused(r, v, err)
	}
	v.Visit, err = a.Bootstrap.Visited(r.Context(), token, whole)
	if v.Token.NodeID != "" {
		node, missing := a.Store.Node(r.Context(), "", v.Token.NodeID)
		if missing != nil {
			return v, missing
		}
		v.node = node
	}
	switch {
	case whole && r.TLS == nil: // first, and whatever else is wrong with it: it has crossed the network in the clear
		err = refuse(wire.CodeTLSRequired, "the whole bootstrap token came over plain HTTP: take it for known to others",
			"use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; or use https. Mint a new token: muster bootstrap NODE")
	case err != nil:
	case v.node.Banned || v.node.State == store.StateRetired:
		err = (registry.Node{Node: v.node}).Bootstrappable(true)
	case secret && r.TLS == nil:
		err = refuse(wire.CodeTLSRequired, "the registry's credential goes over TLS alone", "ask at the gateway's https URL")
	case secret && !whole:
		err = refuse(wire.CodeForbidden, "the fetch part of a bootstrap token is not enough for the registry's credential", "put the whole token into the path")
	}
	if err != nil {
		return v, a.misused(r, v, err)
	}
	return v, nil
}

func (a *API) misused(r *http.Request, v visit, refused error) error {
	e := store.Event{Actor: "unknown", Address: v.address, NodeID: v.node.ID, NodeName: v.node.Name, Tenant: v.node.Tenant,
		Detail: map[string]string{"method": reply.Method(r), "path": reply.LogPath(r)}}
	if v.Token.ID != "" {
		e.Actor = "token:" + v.Token.ID
	}
	return a.Bootstrap.Misused(r.Context(), refused, e)
}

func (a *API) refuseVisit(w http.ResponseWriter, err error) {
	status, body := a.Info.Error(err)
	write(w, status, body)
}

func inQuery() error {
	return refuse(wire.CodePlaintextSecret, "a token stands in the query string: take it for known to others",
		"revoke it (muster token revoke ID); bootstrap tokens stand in the path, others are proven without being sent")
}

// Guard refuses tokens that stand where none belongs, before any route looks at the request: in a query string, in the path of
// another route than bootstrap's, in an Authorization that is not the admin API's. Each is an event.
func (a *API) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := misplaced(r); err != nil {
			w.Header().Set(wire.HeaderEpoch, a.Info.Epoch)
			a.refuseVisit(w, a.misused(r, visit{address: a.Address(r)}, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// misplaced leaves the admin API to itself, which takes tokens of its own and records what it refuses.
func misplaced(r *http.Request) error {
	path := r.URL.Path
	if strings.HasPrefix(path, "/api/v1/admin/") {
		return nil
	}
	if r.URL.RawQuery != "" && reply.HasToken(r.URL.RawQuery) {
		return inQuery()
	}
	if path == wire.PathRegister { // its Authorization names a token, and it knows what may stand there
		return nil
	}
	ours := strings.HasPrefix(path, bootstrapPrefix) && (strings.HasSuffix(path, scriptSuffix) || strings.HasSuffix(path, credentialSuffix))
	if !ours && reply.Redact(path) != path {
		return wrongRoute("in the path")
	}
	for _, header := range r.Header["Authorization"] {
		if strings.Contains(header, string(sign.BootstrapToken)+"_") {
			return wrongRoute("in the Authorization header")
		}
	}
	return nil
}

func wrongRoute(where string) error {
	return refuse(wire.CodeTokenWrongRoute, "a token stands "+where+" of a route that takes none: take it for known to others",
		"revoke it (muster token revoke ID); a bootstrap token is good for /api/v1/bootstrap and for registering its node alone")
}
