package gatewaytest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Host is the name under which the in-memory network knows every gateway.
const Host = "gateway.test"

// Pipe is a network with one server. It is in memory, because sockets do not work in a bubble of testing/synctest.
type Pipe struct {
	connections chan net.Conn
	done        chan struct{}
	once        sync.Once
	// Down makes dialling fail.
	Down func() bool
}

// Dial connects to the server whatever the address is.
func (p *Pipe) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if p.Down != nil && p.Down() {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept hands out a connection.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends the network.
func (p *Pipe) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr returns a name that means nothing: net.Listener needs it.
func (p *Pipe) Addr() net.Addr { return &net.UnixAddr{Name: Host, Net: "pipe"} }

// ServePipe serves on a network of its own until the test ends. certificate nil: plain HTTP.
func ServePipe(t testing.TB, h http.Handler, certificate *tls.Certificate) *Pipe {
	p := &Pipe{connections: make(chan net.Conn), done: make(chan struct{})}
	serve(t, h, certificate, p)
	return p
}

// Listen serves on the loopback interface until the test ends, and returns the URL.
func Listen(t testing.TB, h http.Handler, certificate *tls.Certificate) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, h, certificate, listener)
	if certificate == nil {
		return "http://" + listener.Addr().String()
	}
	return "https://" + listener.Addr().String()
}

func serve(t testing.TB, h http.Handler, certificate *tls.Certificate, listener net.Listener) {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); listener.Close(); <-ended })
}
