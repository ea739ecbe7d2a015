package nodeapi

import (
	"net/http"
	"strings"

	"muster/agent/wire"
)

// Doors says what else a listener knows about its requests. A nil field says no to all.
type Doors struct {
	Admin   func(*http.Request) bool // a route of the admin API takes this request
	Proxied func(*http.Request) bool // it came over TLS as far as a trusted proxy, which has read it
	Open    func(*http.Request) bool // a trusted proxy says that it came there without TLS
}

func (d Doors) admin(r *http.Request) bool {
	return d.Admin != nil && strings.HasPrefix(r.URL.Path, wire.PrefixAdmin) && d.Admin(r)
}

func (d Doors) proxied(r *http.Request) bool { return d.Proxied != nil && d.Proxied(r) }

func (d Doors) open(r *http.Request) bool { return d.Open != nil && d.Open(r) }

// private tells whether nobody between the client and this gateway could read the request.
func private(r *http.Request) bool { return r.TLS != nil && r.Context().Value(proxied{}) == nil }
