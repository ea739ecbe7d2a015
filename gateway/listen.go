package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/oci"
)

const (
	headerTime    = 10 * time.Second
	writeTime     = 2 * time.Minute // for an answer, a long poll's wait included
	idleTime      = 3 * time.Minute // longer than the agents' longest usual pace, and than proxies keep theirs
	maxHeader     = 32 << 10
	maxStreams    = 100 // of one HTTP/2 connection
	shutdownTime  = 10 * time.Second
	maxSocketPath = 107 // bytes, sockaddr_un
)

// certificates gives the TLS listener its certificate, made by the gateway's own CA or read from files.
type certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	PinnedPublicKey() string
}

// listeners are what the gateway answers on: one with TLS for everything, and the socket for the operator on this machine. Where
// --plain-listen asks for it there is also one without TLS, for requests that prove themselves.
type listeners struct {
	tls, socket, plain net.Listener
	servers            []*http.Server
	all                []net.Listener
	log                *slog.Logger
}

// listen opens the listeners. Port 0 means any free port, so the settings get the real addresses before the routes are made: the
// routes hand out the public URL.
func (g *gateway) listen() (*listeners, error) {
	l := &listeners{log: g.log}
	var err error
	if l.tls, err = net.Listen("tcp", g.settings.listen); err != nil {
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	g.settings.publicURL = reach.RealURL(g.settings.publicURL, l.tls.Addr())
	g.settings.listen = reach.RealAddress(g.settings.listen, l.tls.Addr())
	l.add(tls.NewListener(g.limiter.Network(l.tls), g.tlsConfig()), g.server(g.tlsRoutes()))
	if l.socket, err = listenSocket(filepath.Join(g.settings.data, client.SocketName)); err != nil {
		l.close()
		return nil, err
	}
	l.add(g.limiter.Local(l.socket), g.server(g.socketRoutes()))
	if g.settings.plainListen == "" {
		return l, nil
	}
	if l.plain, err = net.Listen("tcp", g.settings.plainListen); err != nil {
		l.close()
		return nil, fmt.Errorf("%w; choose another address with --plain-listen", err)
	}
	g.settings.plainListen = reach.RealAddress(g.settings.plainListen, l.plain.Addr())
	l.add(g.limiter.Network(l.plain), g.server(g.plainRoutes()))
	return l, nil
}

// tlsConfig asks for a client certificate without judging it: nodeapi does that by the record, request by request. Session tickets
// are off so that every connection proves its key anew. TLS records have their full size from the start. Small first records would
// help a browser that draws half a page, but an answer here is of no use before its end.
func (g *gateway) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		GetCertificate: g.serving.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
	}
}

func (g *gateway) tlsRoutes() http.Handler { return g.routes(true, true) }

// plainRoutes has no admin API unless it is the origin of a trusted proxy and the operator wants it so.
func (g *gateway) plainRoutes() http.Handler { return g.routes(g.settings.adminProxied, false) }

// routes answers the requests of one network listener. With admin the admin API is there too. With direct it answers callers who come
// through no proxy.
func (g *gateway) routes(admin, direct bool) http.Handler {
	mux := http.NewServeMux()
	g.nodes.Routes(mux)
	doors := nodeapi.Doors{Proxied: g.proxied, Open: g.origin.Open}
	operators := http.Handler(http.HandlerFunc(g.noAdmin))
	if admin {
		g.console(mux, direct)
		routes := g.adminAPI(false).Routes()
		operators = g.admin(routes, direct)
		doors.Admin = func(r *http.Request) bool { return g.adminServes(r, direct) && routes.Takes(r) }
	}
	mux.Handle(wire.PrefixAdmin, operators)
	measured := http.Handler(http.HandlerFunc(g.noAdmin))
	if admin {
		measured = g.admin(g.metricsAPI(account.Config{}).Routes(), direct)
	}
	mux.Handle(metrics.Path, measured)
	mux.Handle(metrics.Path+"/", measured)
	logins := func(r *http.Request) bool { return admin && g.adminServes(r, direct) && !g.origin.Open(r) }
	mux.Handle(wire.PathRegistry, g.registry(false, logins))
	return g.nodes.Guard(g.info.Strict(mux), doors)
}

// socketRoutes answers the operator on this machine.
func (g *gateway) socketRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(wire.PrefixAdmin, g.adminAPI(true).Routes())
	measured := g.metricsAPI(account.Config{Socket: true}).Routes()
	mux.Handle(metrics.Path, measured)
	mux.Handle(metrics.Path+"/", measured)
	mux.Handle(wire.PathRegistry, g.registry(true, nil))
	return g.info.Strict(mux)
}

// gate judges the callers of one listener.
func (g *gateway) gate(c account.Config) *account.Gate {
	c.Store = g.store
	c.Info = g.info
	c.Audit = g.audit
	c.PSKs = g.bootstrap
	c.Address = g.origin.Address
	c.Logger = g.log
	return account.NewGate(c)
}

// registry is made once for each listener, as the admin API is. logins tells for which requests accounts may log in. Who shows a pass
// that is nobody's may pull in any way.
func (g *gateway) registry(socket bool, logins func(*http.Request) bool) http.Handler {
	api := oci.API{
		Gate:     g.gate(account.Config{Socket: socket, Passes: g.passes, Logins: logins}),
		Registry: g.artifacts, Info: g.info, URL: g.settings.publicURL,
	}
	return api.Routes()
}

// adminAPI is made once for each listener. On the socket the file mode is the authentication, elsewhere the API token.
func (g *gateway) adminAPI(socket bool) *adminapi.API {
	return g.adminAPIFor(account.Config{Socket: socket})
}

func (g *gateway) adminAPIFor(callers account.Config) *adminapi.API {
	return &adminapi.API{
		Gate: g.gate(callers), Fleet: g.fleet, Bootstrap: g.bootstrap, Tasks: g.tasks, Sessions: g.sessions, Recordings: g.recordings,
		Releases: g.releases, Overview: g.overview, Tail: g.tail, Streams: g.streams, History: g.history, Health: g.health,
		Alerts: g.alerts, Costs: g.costs, Logs: g.logs, Shipping: g.shipping,
		Store: g.store, Logins: g.logins, Authority: g.authority, Artifacts: g.artifacts, Scratch: g.settings.data,
		Info: g.info, Gateway: g.facts(),
		Command: func(token string) string { return g.installer().Command(token) }, Logger: g.log,
	}
}

// console puts the console beside the admin API. It answers where accounts may log in: not where somebody could have read the cookie.
func (g *gateway) console(mux *http.ServeMux, direct bool) {
	pages := console.New(console.Config{
		API: g.adminAPIFor(account.Config{Within: true}).Routes(), Gate: g.gate(account.Config{}), Logins: g.logins, Info: g.info,
		Address: g.origin.Address, Gateway: g.facts(), Logger: g.log,
	})
	serve := func(w http.ResponseWriter, r *http.Request) {
		if g.adminServes(r, direct) && !g.origin.Open(r) {
			pages.ServeHTTP(w, r)
			return
		}
		g.info.WriteError(w, wire.Refuse(wire.CodeNotFound, "the console does not answer here",
			"use the gateway's own TLS port; through a proxy only over https, and with --admin-behind-proxy"))
	}
	mux.HandleFunc(api.PathConsole, serve)
	mux.HandleFunc("/{$}", serve)
}

// facts is what an operator needs to point machines at this gateway.
func (g *gateway) facts() api.Gateway {
	return api.Gateway{
		URL: g.settings.publicURL, Version: version, TrustDomain: g.authority.TrustDomain(),
		RootPin: g.authority.RootPin(), PinnedPublicKey: g.serving.PinnedPublicKey(),
	}
}

// adminServes tells whether the admin API answers a request: one from a direct caller where direct is set, one through a trusted proxy
// where the operator allowed that.
func (g *gateway) adminServes(r *http.Request, direct bool) bool {
	if g.origin.Behind(r) {
		return g.settings.adminProxied
	}
	return direct
}

func (g *gateway) admin(routes http.Handler, direct bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.adminServes(r, direct) {
			routes.ServeHTTP(w, r)
			return
		}
		g.noAdmin(w, r)
	})
}

// noAdmin says where the admin API is. "Nothing at this path" would send an operator behind a proxy looking for a wrong URL.
func (g *gateway) noAdmin(w http.ResponseWriter, _ *http.Request) {
	g.info.WriteError(w, wire.Refuse(
		wire.CodeNotFound, "the admin API and the metrics do not answer here",
		"use the gateway's own TLS port or its socket; through a proxy only with --admin-behind-proxy"))
}

// proxied tells whether a trusted proxy has read a request that came over TLS. On the listener without TLS, the proxy's header says
// that it came to the proxy over TLS. On the TLS listener any forwarding header is enough: a proxy that adds one has ended the
// client's connection and made its own, and so it has read the request.
func (g *gateway) proxied(r *http.Request) bool {
	if r.TLS != nil {
		return g.origin.Forwarded(r)
	}
	return g.origin.Secured(r)
}

// server makes the server of one listener. net/http's own complaints about connections are for debugging only: the limiter counts what
// strangers do.
func (g *gateway) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: g.limiter.Handler(h), ReadHeaderTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ConnContext: g.connected, ConnState: httpserver.State, ErrorLog: slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
}

// connected puts into the context of a connection's requests what the limiter and the node API know of the connection.
func (g *gateway) connected(ctx context.Context, c net.Conn) context.Context {
	return g.nodes.Connected(httpserver.Connected(ctx, c), c)
}

// openLimiter decides how many connections there can be, by the descriptors that this process may have.
func (g *gateway) openLimiter() {
	descriptors := httpserver.Descriptors()
	limits := httpserver.LimitsFor(descriptors)
	g.limiter = httpserver.New(httpserver.Config{Limits: limits, Place: g.origin.Place, Logger: g.log})
	g.log.Info("connections that this gateway can hold", "network", limits.Network, "without_proof", limits.Unproven,
		"without_proof_of_one_address", limits.PerAddress, "socket", limits.Local, "descriptors", descriptors)
}

// listenSocket opens the operator's socket, whose file mode is the authentication. A file left by a gateway that was
// killed is replaced; the data directory's lock says that none is alive.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket's path %s is longer than %d bytes, which the system does not take: choose a shorter --data", path,
			maxSocketPath)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *listeners) add(listener net.Listener, server *http.Server) {
	l.all = append(l.all, listener)
	l.servers = append(l.servers, server)
}

// Run serves until ctx ends or a listener fails. Requests that are under way then have shutdownTime to end.
func (l *listeners) Run(ctx context.Context) error {
	failed := make(chan error, len(l.servers))
	for i, server := range l.servers {
		go func() {
			if err := server.Serve(l.all[i]); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	l.log.Info("stopping")
	l.shutdown()
	return err
}

// shutdown ends all servers at the same time, so that together they take no longer than shutdownTime.
func (l *listeners) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	var wait sync.WaitGroup
	for _, server := range l.servers {
		wait.Go(func() {
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
		})
	}
	wait.Wait()
}

func (l *listeners) close() {
	for _, listener := range l.all {
		listener.Close()
	}
}
