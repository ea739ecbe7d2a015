package main

import (
	"context"
	"net/http"

	"muster"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/console"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/oci"
	"muster/gateway/internal/view"
)

// handlers answer the requests of all listeners. What they share is made once, and what judges the callers once for each listener.
type handlers struct {
	*gateway
	nodes *nodeapi.API
	room  *metrics.Room
}

// newHandlers makes the node API. A node may renew a hundred times in a certificate's life, which is far more than it needs.
func newHandlers(g *gateway) *handlers {
	h := &handlers{gateway: g, room: &metrics.Room{}}
	role := ""
	if g.cluster != nil {
		role = api.RoleActive
	}
	h.nodes = nodeapi.New(nodeapi.Config{
		Role:  role,
		Fleet: g.fleet, Bootstrap: g.bootstrap, Tasks: g.tasks, Sessions: g.sessions, Releases: g.releases, Newcomer: g.newcomer,
		Audit: g.audit, Authority: g.authority, Issuer: g.issuer, Store: g.store, Info: g.info, Address: g.origin.Address,
		Interval: g.settings.HeartbeatInterval, RenewEvery: g.settings.CertTTL / 100, RequireMTLS: g.settings.RequireMTLS,
		Logs: g.shipping.Wanted, Gateways: g.nodeURLs.URLs,
		More: []nodeapi.Route{{Method: "POST", Path: wire.LogsPath("{id}"), Proof: nodeapi.Identity, Purpose: fleet.ForAnything,
			MaxBody: wire.MaxBody, Node: func(ctx context.Context, c nodeapi.Call) (any, error) {
				return g.shipping.Take(ctx, c.Identity.NodeID, c.Body)
			}}},
		Agents: g.agents, Version: version, Logger: g.log,
		Installer: func(m wire.Manifest, r *http.Request) ([]byte, error) { return h.installer(m).Answer(r) },
	})
	g.rental.command = func(token, at string) string { return h.installer(h.nodes.Manifest()).Command(token, at) }
	return h
}

// installer gives the joining script as the gateway is now. It is made anew for each call, because the root pin and the pinned key
// change while the gateway runs.
func (h *handlers) installer(begins wire.Manifest) reach.Installer {
	return reach.Installer{
		Version: begins.Version, RootPin: h.authority.RootPin(), PinnedKey: h.serving.PinnedPublicKey(), Reach: h.reach,
		Platforms: begins.Platforms, Logger: h.log,
	}
}

// network answers the requests of one network listener. With admin the admin API is there too. With direct it answers callers who come
// through no proxy.
func (h *handlers) network(admin, direct bool) http.Handler {
	mux := http.NewServeMux()
	h.nodes.Routes(mux)
	doors := nodeapi.Doors{Proxied: h.proxied, Open: h.origin.Open}
	operators := http.Handler(http.HandlerFunc(h.noAdmin))
	if admin {
		h.console(mux, direct)
		routes := h.adminAPI(false).Routes()
		operators = h.admin(routes, direct)
		doors.Admin = func(r *http.Request) bool { return h.adminServes(r, direct) && routes.Takes(r) }
	}
	mux.Handle(wire.PrefixAdmin, operators)
	measured := http.Handler(http.HandlerFunc(h.noAdmin))
	if admin {
		measured = h.admin(h.metricsAPI(account.Config{}).Routes(), direct)
	}
	mux.Handle(metrics.Path, measured)
	mux.Handle(metrics.Path+"/", measured)
	logins := func(r *http.Request) bool { return admin && h.adminServes(r, direct) && !h.origin.Open(r) }
	mux.Handle(wire.PathRegistry, h.registry(false, logins))
	return h.nodes.Guard(h.info.Strict(mux), doors)
}

// socket answers the operator on this machine.
func (h *handlers) socket() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(wire.PrefixAdmin, h.adminAPI(true).Routes())
	measured := h.metricsAPI(account.Config{Socket: true}).Routes()
	mux.Handle(metrics.Path, measured)
	mux.Handle(metrics.Path+"/", measured)
	mux.Handle(wire.PathRegistry, h.registry(true, nil))
	return h.info.Strict(mux)
}

// gate judges the callers of one listener.
func (h *handlers) gate(c account.Config) *account.Gate {
	c.Store = h.store
	c.Info = h.info
	c.Audit = h.audit
	c.PSKs = h.bootstrap
	c.Address = h.origin.Address
	c.Logger = h.log
	return account.NewGate(c)
}

// registry is made once for each listener, as the admin API is. logins tells for which requests accounts may log in. Who shows a pass
// that is nobody's may pull in any way.
func (h *handlers) registry(socket bool, logins func(*http.Request) bool) http.Handler {
	api := oci.API{
		Gate:     h.gate(account.Config{Socket: socket, Passes: h.passes, Logins: logins}),
		Registry: h.artifacts, Info: h.info, URL: h.reach.PublicURL,
	}
	return api.Routes()
}

// adminAPI is made once for each listener. On the socket the file mode is the authentication, elsewhere the API token.
func (h *handlers) adminAPI(socket bool) *adminapi.API {
	return h.adminAPIFor(account.Config{Socket: socket})
}

func (h *handlers) adminAPIFor(callers account.Config) *adminapi.API {
	return &adminapi.API{
		Gate: h.gate(callers), Fleet: h.fleet, Bootstrap: h.bootstrap, Tasks: h.tasks, Sessions: h.sessions, Recordings: h.recordings,
		Releases: h.releases, Overview: h.overview, Tail: h.tail, Streams: h.streams, History: h.history, Health: h.health,
		Alerts: h.alerts, Costs: h.costs, Logs: h.logs, Shipping: h.shipping, Placement: h.placement, Usage: h.usage,
		Providers: h.rental.Service, MAAS: h.maas,
		Cluster: h.gateways(),
		Store:   h.store, Logins: h.logins, Authority: h.authority, Artifacts: h.artifacts, Scratch: h.settings.Data,
		Info: h.info, Gateway: h.facts(), Ready: h.outage.Writable, Host: h.host,
		Command: h.rental.command, Logger: h.log,
	}
}

// console puts the console beside the admin API. It answers where accounts may log in: not where somebody could have read the cookie.
func (h *handlers) console(mux *http.ServeMux, direct bool) {
	pages := console.New(console.Config{
		API: h.adminAPIFor(account.Config{Within: true}).Routes(), Gate: h.gate(account.Config{}), Logins: h.logins, Info: h.info,
		Address: h.origin.Address, Gateway: h.facts(), MAAS: h.settings.MAAS.Enabled(), Logger: h.log,
	})
	serve := func(w http.ResponseWriter, r *http.Request) {
		if h.adminServes(r, direct) && !h.origin.Open(r) {
			pages.ServeHTTP(w, r)
			return
		}
		h.info.WriteError(w, wire.Refuse(wire.CodeNotFound, "the console does not answer here",
			"use the gateway's own TLS port; through a proxy only over https, and with --admin-behind-proxy: muster help proxies"))
	}
	mux.HandleFunc(api.PathConsole, serve)
	mux.HandleFunc("/{$}", serve)
}

// facts is what an operator needs to point machines at this gateway.
func (h *handlers) facts() api.Gateway {
	return api.Gateway{
		URL: h.reach.PublicURL, Version: version, TrustDomain: h.authority.TrustDomain(),
		RootPin: h.authority.RootPin(), PinnedPublicKey: h.serving.PinnedPublicKey(), StartedAt: h.started.UTC(),
		OwnCertificate: h.reach.CertificateAt(h.reach.PublicURL) == muster.OwnCertificate,
	}
}

// adminServes tells whether the admin API answers a request: one from a direct caller if direct is set, one through a trusted proxy if
// the operator allowed that. What comes from a trusted proxy's address counts as passed on by it, unless it is surely the machine's own.
func (h *handlers) adminServes(r *http.Request, direct bool) bool {
	if h.origin.Behind(r) && !(direct && h.origin.Own(r)) {
		return h.settings.AdminBehindProxy
	}
	return direct
}

func (h *handlers) admin(routes http.Handler, direct bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.adminServes(r, direct) {
			routes.ServeHTTP(w, r)
			return
		}
		h.noAdmin(w, r)
	})
}

// noAdmin says where the admin API is. "Nothing at this path" would send an operator behind a proxy looking for a wrong URL.
func (h *handlers) noAdmin(w http.ResponseWriter, _ *http.Request) {
	h.info.WriteError(w, wire.Refuse(
		wire.CodeNotFound, "the admin API and the metrics do not answer here",
		"use the gateway's own TLS port, from an address that is no --trusted-proxy, or from its own machine by a name such as localhost, "+
			"or use its socket; through a proxy only with --admin-behind-proxy: muster help proxies"))
}

// proxied tells whether a trusted proxy has read a request that came over TLS. On the listener without TLS, the proxy's header says
// that it came to the proxy over TLS. On the TLS listener any forwarding header is enough: a proxy that adds one has ended the
// client's connection and made its own, and so it has read the request.
func (h *handlers) proxied(r *http.Request) bool {
	if r.TLS != nil {
		return h.origin.Forwarded(r)
	}
	return h.origin.Secured(r)
}

// metricsAPI is made once for each listener. That a request comes from a loopback address proves nothing: whatever passes connections on,
// such as a container's port or an ssh tunnel, brings strangers from there, who choose the host and the headers themselves.
func (h *handlers) metricsAPI(callers account.Config) *metrics.API {
	return &metrics.API{
		Gate: h.gate(callers), Info: h.info, Ready: h.overview.Ready, Gateway: h.gateway.measure, Events: h.tally, Room: h.room,
		Rows: func(q view.Query) []*api.NodeRow {
			rows, _ := h.overview.Rows(q)
			return rows
		},
	}
}
