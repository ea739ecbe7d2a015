package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"muster/gateway/internal/client"
)

// face is one way in which requests reach a listener.
type face struct {
	name      string
	network   string // of the listener: tcp or unix
	address   string
	tls       bool
	forwarded string // how the client came to the trusted proxy in between: https or http; empty: there is no proxy
	admin     bool   // the admin API answers here
	adminOnly bool   // only the admin API can answer differently here than on the faces before
}

func (f face) socket() bool { return f.network == "unix" }

// private tells whether nobody but the gateway reads what comes this way.
func (f face) private() bool { return f.tls && f.forwarded == "" }

// overheard tells whether what comes this way went over a network in the clear.
func (f face) overheard() bool { return f.forwarded == "http" || !f.tls && f.forwarded == "" }

// matrixGateway opens the real listeners twice over the same parts: as they usually are, and with --admin-behind-proxy.
func matrixGateway(t *testing.T) (*gateway, []face) {
	t.Helper()
	dir := t.TempDir()
	s, err := parseSettings([]string{"--data", dir, "--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0", "--trusted-proxy",
		"127.0.0.1"},
		func(string) string { return "" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s.agents = fstest.MapFS{"linux-amd64/muster-agent": {Data: []byte("#!/bin/sh\n")}}
	g, err := open(t.Context(), s, slog.New(slog.DiscardHandler), func(string) string { return "" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.releases.Load(t.Context()); err != nil { // nothing runs here
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	serveListeners(t, g)
	behind := *g
	behind.settings.AdminBehindProxy = true
	behind.settings.Data = filepath.Join(dir, "backup") // for another socket, which nobody asks
	if err := os.Mkdir(behind.settings.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if behind.network, err = openNetwork(behind.settings, behind.log); err != nil {
		t.Fatal(err)
	}
	serveListeners(t, &behind)
	at := func(l net.Listener) string { return l.Addr().String() }
	return g, []face{
		{name: "TLS", network: "tcp", address: at(g.tls), tls: true, admin: true},
		{name: "plain", network: "tcp", address: at(g.plain)},
		{name: "socket", network: "unix", address: filepath.Join(dir, client.SocketName), admin: true},
		{name: "TLS behind a proxy", network: "tcp", address: at(g.tls), tls: true, forwarded: "https"},
		{name: "plain behind a proxy", network: "tcp", address: at(g.plain), forwarded: "https"},
		{name: "TLS behind a proxy, admin allowed", network: "tcp", address: at(behind.tls), tls: true, forwarded: "https", admin: true,
			adminOnly: true},
		{name: "TLS behind an open proxy, admin allowed", network: "tcp", address: at(behind.tls), tls: true, forwarded: "http", admin: true},
		{name: "plain behind a proxy, admin allowed", network: "tcp", address: at(behind.plain), forwarded: "https", admin: true,
			adminOnly: true},
		{name: "plain behind an open proxy, admin allowed", network: "tcp", address: at(behind.plain), forwarded: "http", admin: true},
		{name: "plain, admin allowed behind a proxy", network: "tcp", address: at(behind.plain), adminOnly: true},
	}
}

func serveListeners(t *testing.T, g *gateway) {
	t.Helper()
	l, err := openListeners(g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// callsOfAnAddress are fewer than the gateway takes of one address before it says to wait.
const callsOfAnAddress = 8

// visits are the connections of a matrix. Direct callers come from 127.1.0.0 and up, each address for a few calls; so do the clients of
// a proxy, from 10.1.0.0 and up.
type visits struct {
	open      map[string]*visitOf
	count     int
	forwarded int
}

type visitOf struct {
	http *http.Client
	left int
}

func (v *visits) to(f face, certificate *tls.Certificate, name string) *http.Client {
	key := f.name + " " + name
	if now := v.open[key]; now != nil && now.left > 0 {
		now.left--
		return now.http
	}
	if before := v.open[key]; before != nil {
		before.http.CloseIdleConnections()
	}
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	left := 1 << 20
	if f.forwarded == "" {
		v.count++
		from.IP = net.IPv4(127, 1, byte(v.count>>8), byte(v.count))
		left = callsOfAnAddress - 1
	}
	dialer := net.Dialer{LocalAddr: from}
	if f.socket() {
		dialer.LocalAddr = nil
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, f.network, f.address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	if certificate != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*certificate}
	}
	asks := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	v.open[key] = &visitOf{asks, left}
	return asks
}

// base is where the face's URLs begin.
func (f face) base() string {
	if f.tls {
		return "https://gateway"
	}
	return "http://gateway"
}

// forward adds what the trusted proxy says.
func (v *visits) forward(f face, r *http.Request) {
	if f.forwarded == "" {
		return
	}
	client := v.forwarded / callsOfAnAddress
	v.forwarded++
	r.Header.Set("X-Forwarded-Proto", f.forwarded)
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.1.%d.%d", byte(client>>8), byte(client)))
}

func (v *visits) close() {
	for _, one := range v.open {
		one.http.CloseIdleConnections()
	}
}
