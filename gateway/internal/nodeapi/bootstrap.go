package nodeapi

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reply"
	"muster/store"
)

// visit is one request with a bootstrap token.
type visit struct {
	bootstrap.Visit
	node    store.Node
	address string
}

// script answers GET and POST .../{token}/script. Whoever has the fetch part alone gets the script without the secret. That goes over
// plain HTTP too, because the operator was shown the script's digest. HEAD gets the headers and does not count as a fetch.
func (a *API) script(w http.ResponseWriter, r *http.Request, route *Route) {
	v, err := a.visited(r, route)
	if err == nil && r.Method != http.MethodHead {
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
	reply.Begin(w, "text/x-shellscript; charset=utf-8").Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = io.WriteString(w, text)
}

func (a *API) fetched(r *http.Request, v visit) error {
	if err := a.Bootstrap.Fetched(r.Context(), v.Visit, v.node, v.address); err != nil {
		return err
	}
	return a.Fleet.Fetched(r.Context(), v.node.ID, store.Actor{Name: "token:" + v.Token.ID, Address: v.address})
}

// registryCredential lends the credential for the registry to a caller that has the whole token, over TLS alone. A caller that accepts
// text/plain gets the user on the first line and the password on the second: a shell reads no JSON.
func (a *API) registryCredential(w http.ResponseWriter, r *http.Request, route *Route) {
	if r.Method == http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
	}
	v, err := a.visited(r, route)
	var c bootstrap.RegistryCredential
	ok := false
	if err == nil {
		c, ok, err = a.Bootstrap.Lend(r.Context(), v.Visit, v.node, v.address)
	}
	switch {
	case err != nil:
		a.refuseVisit(w, err)
	case !ok:
		write(w, http.StatusNoContent, nil)
	default:
		lend(w, r, c, c.Username, c.Password)
	}
}

// lend answers with a value: as JSON, or as lines for a shell, which reads no JSON.
func lend(w http.ResponseWriter, r *http.Request, value any, lines ...string) {
	if reply.Prefers(r, "text/plain") {
		reply.WriteKind(w, http.StatusOK, "text/plain; charset=utf-8", []byte(strings.Join(lines, "\n")+"\n"))
		return
	}
	reply.Write(w, http.StatusOK, reply.JSON(value))
}

// visited checks the token in the path. Every refusal is an event, or is counted where one address causes too many.
func (a *API) visited(r *http.Request, route *Route) (visit, error) {
	secret := route.Proof == WholeToken
	v := visit{address: a.Address(r)}
	text := r.PathValue("token")
	token, whole, err := bootstrap.ParsePath(text)
	if err == nil {
		v.Visit, err = a.Bootstrap.Visited(r.Context(), token, whole)
	}
	if v.Token.NodeID != "" {
		node, missing := a.Store.Node(r.Context(), "", v.Token.NodeID)
		if missing != nil {
			return v, missing
		}
		v.node = node
	}
	switch {
	case strings.Contains(text, ".") && !private(r): // this comes first: others may have read the token
		err = tlsRequired(r)
	case secret && r.Method == http.MethodHead: // ServeMux sends HEAD to the route of GET
		err = wire.Refuse(wire.CodeMethodNotAllowed, "a credential is lent to GET alone", "ask with GET")
	case err != nil:
	case v.node.Banned || v.node.State == store.StateRetired:
		err = (fleet.Node{Node: v.node}).Bootstrappable(true)
	case secret && !private(r):
		err = wire.Refuse(wire.CodeTLSRequired, "the registry's credential goes over TLS alone, all the way to the gateway",
			"ask at the gateway's own https URL")
	case secret && !whole:
		err = wire.Refuse(wire.CodeForbidden, "the fetch part of a bootstrap token is not enough for the registry's credential",
			"put the whole token into the path")
	}
	if err != nil {
		return v, a.misused(r, v, exposure{refusal: err, text: text})
	}
	return v, nil
}

// misused records a refused token, and gives the refusal to answer.
func (a *API) misused(r *http.Request, v visit, found exposure) error {
	e := store.Event{Actor: "unknown", Address: a.Address(r), NodeID: v.node.ID, NodeName: v.node.Name, Tenant: v.node.Tenant,
		Detail: map[string]string{"method": reply.Method(r), "path": a.logPath(r)}}
	text := secret.Unescape(found.text)
	claimed := secret.TokenIDs(text)
	if psk := cmp.Or(found.psk, a.Bootstrap.PSKIn(r.Context(), text)); psk != "" {
		claimed = append([]string{psk}, claimed...)
	}
	if v.Token.ID != "" {
		e.Actor = "token:" + v.Token.ID
		claimed = []string{v.Token.ID}
	}
	if detail, is := errors.AsType[*wire.ErrorDetail](found.refusal); is {
		e.Detail["reason"] = detail.Message
	}
	return a.Audit.Misused(r.Context(), found.refusal, claimed, e)
}

// logPath is secret.LogPath, without a PSK that a person chose: that one has no form by which it could be seen.
func (a *API) logPath(r *http.Request) string {
	if psk, without := a.Bootstrap.PSKInPath(r.Context(), secret.Segments(r)); psk != "" {
		return secret.PathForLog(without)
	}
	return secret.LogPath(r)
}

func (a *API) refuseVisit(w http.ResponseWriter, err error) {
	status, body := a.Info.Error(err)
	write(w, status, body)
}
