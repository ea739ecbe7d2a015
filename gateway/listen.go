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

	"muster/gateway/internal/client"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/httpserver"
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

// listeners are the servers of the gateway, each on a listener of its own: TLS for everything, the socket for the operator on this machine,
// and, if --plain-listen asks for it, one without TLS. They are the last phase.
type listeners struct {
	servers []*http.Server
	all     []net.Listener
	log     *slog.Logger
}

// openListeners makes the servers of all parts. They answer when Run runs.
func openListeners(g *gateway) (*listeners, error) {
	socket, err := listenSocket(filepath.Join(g.settings.Data, client.SocketName))
	if err != nil {
		return nil, err
	}
	if g.peers != nil { // what the others pass on comes to this gateway's own listeners
		socket = g.peers.Joined(socket, peer.Socket)
		g.tls = g.peers.Joined(g.tls, peer.TLS)
		if g.plain != nil {
			g.plain = g.peers.Joined(g.plain, peer.Plain)
		}
	}
	h := newHandlers(g)
	l := &listeners{log: g.log}
	l.add(tls.NewListener(g.limiter.Network(g.tls), tlsConfig(g.serving)), h.server(h.network(true, true)))
	l.add(g.limiter.Local(socket), h.server(h.socket()))
	if g.plain != nil { // it has no admin API unless it is the origin of a trusted proxy and the operator wants it so
		l.add(g.limiter.Network(g.plain), h.server(h.network(g.settings.AdminBehindProxy, false)))
	}
	return l, nil
}

// tlsConfig asks for a client certificate without judging it: nodeapi does that by the record, request by request. Session tickets
// are off so that every connection proves its key anew. TLS records have their full size from the start. Small first records would
// help a browser that draws half a page, but an answer here is of no use before its end.
func tlsConfig(serving certificates) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
		GetCertificate: serving.GetCertificate, NextProtos: []string{"h2", "http/1.1"},
	}
}

// server makes the server of one listener. net/http's own complaints about connections are for debugging only: the limiter counts what
// strangers do.
func (h *handlers) server(routes http.Handler) *http.Server {
	return &http.Server{
		Handler: h.limiter.Handler(h.cluster.Guard(routes)), ReadHeaderTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader,
		ConnContext:    h.connected, ConnState: httpserver.State, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
}

// connected puts into the context of a connection's requests what the limiter and the node API know of the connection.
func (h *handlers) connected(ctx context.Context, c net.Conn) context.Context {
	return h.nodes.Connected(httpserver.Connected(ctx, c), c)
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
