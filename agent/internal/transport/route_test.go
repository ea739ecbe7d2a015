package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// edge lets curl through to a gateway. While it is up, it answers all other clients itself.
type edge struct {
	g       *gatewaytest.Gateway
	up      atomic.Bool
	all     atomic.Bool // curl too
	stopped atomic.Int32
	passed  atomic.Int32 // of curl's
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isCurl := strings.HasPrefix(r.Header.Get("User-Agent"), "curl/")
	if e.up.Load() && (!isCurl || e.all.Load()) {
		e.stopped.Add(1)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("<html><title>Access denied</title></html>"))
		return
	}
	if isCurl {
		e.passed.Add(1)
	}
	e.g.ServeHTTP(w, r)
}

// auto is a client behind an edge, with a clock of its own.
type auto struct {
	*transport.Client
	edge *edge
	log  bytes.Buffer
	now  time.Time
}

func newAuto(t *testing.T, change func(*transport.Config)) *auto {
	t.Helper()
	a := &auto{edge: &edge{g: gatewaytest.New(t)}, now: time.Now()}
	a.edge.up.Store(true)
	server := httptest.NewServer(a.edge)
	t.Cleanup(server.Close)
	a.edge.g.Now = func() time.Time { return a.now }
	a.Client = curlClient(t, server.URL, nil, func(cfg *transport.Config) {
		cfg.Way = transport.Auto
		cfg.Now = func() time.Time { return a.now }
		cfg.Logger = slog.New(slog.NewTextHandler(&a.log, nil))
		if change != nil {
			change(cfg)
		}
	})
	a.Use(a.edge.g.Identity(t))
	return a
}

// beat makes one call, and returns how many requests the edge stopped meanwhile.
func (a *auto) beat() (stopped int32, err error) {
	before := a.edge.stopped.Load()
	_, err = call(a.Client)
	return a.edge.stopped.Load() - before, err
}

func TestChangesToCurlAndBack(t *testing.T) {
	a := newAuto(t, nil)
	for i, step := range []struct {
		after   time.Duration
		up      bool
		stopped int32
		mode    string
	}{
		{0, true, 1, "curl"}, // the direct way is tried once a call
		{time.Second, true, 0, "curl"},
		{5 * time.Minute, true, 1, "curl"}, // a look
		{9 * time.Minute, true, 0, "curl"},
		{time.Minute, true, 1, "curl"},
		{20 * time.Minute, true, 1, "curl"},
		{40 * time.Minute, true, 1, "curl"},
		{time.Hour, true, 1, "curl"},
		{time.Hour, true, 1, "curl"}, // no longer than an hour
		{59 * time.Minute, false, 0, "curl"},
		{time.Minute, false, 0, "signed"},
		{time.Second, false, 0, "signed"},
	} {
		a.now = a.now.Add(step.after)
		a.edge.up.Store(step.up)
		stopped, err := a.beat()
		if err != nil || stopped != step.stopped || a.Mode() != step.mode {
			t.Errorf("step %d: %d requests stopped, want %d; mode %s, want %s; error %v", i, stopped, step.stopped, a.Mode(), step.mode,
				err)
		}
	}
	if n := a.edge.stopped.Load(); n != 7 {
		t.Errorf("%d requests were stopped, want 7", n)
	}
	for text, want := range map[string]int{"lets curl through": 1, "works again": 1, "HTTP 403, an HTML page titled": 1} {
		if got := strings.Count(a.log.String(), text); got != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, got, want, &a.log)
		}
	}
}

func TestCurlInUseThatFails(t *testing.T) {
	a := newAuto(t, nil)
	if _, err := a.beat(); err != nil {
		t.Fatal(err)
	}
	a.edge.all.Store(true)
	var unproven *transport.Unproven
	if stopped, err := a.beat(); !errors.As(err, &unproven) || stopped != 1 {
		t.Errorf("%d stopped, error %v", stopped, err)
	}
	if stopped, err := a.beat(); !errors.As(err, &unproven) || stopped != 2 || a.Mode() != "curl" {
		t.Errorf("%d stopped, mode %s, error %v: both ways are to be tried", stopped, a.Mode(), err)
	}
	a.edge.all.Store(false)
	if _, err := a.beat(); err != nil || a.Mode() != "curl" {
		t.Errorf("mode %s, error %v", a.Mode(), err)
	}
	a.edge.all.Store(true)
	a.beat()
	a.edge.up.Store(false)
	if _, err := a.beat(); err != nil || a.Mode() != "signed" {
		t.Errorf("mode %s, error %v: the direct way works", a.Mode(), err)
	}
	if got := strings.Count(a.log.String(), "lets curl through"); got != 1 {
		t.Errorf("said %d times", got)
	}
}

func TestStaysDirectWhereCurlDoesNotHelp(t *testing.T) {
	counting := func(t *testing.T) (program string, runs func() int) {
		file := filepath.Join(t.TempDir(), "runs")
		program = filepath.Join(t.TempDir(), "curl")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho >>'"+file+"'\nexec curl \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return program, func() int { raw, _ := os.ReadFile(file); return len(raw) }
	}
	page := map[string]string{"Content-Type": "text/html"}
	tests := []struct {
		name  string
		reply gatewaytest.Reply
		runs  int
	}{
		{"an edge that stops both", gatewaytest.Reply{Status: 403, Header: page}, 1},
		{"an edge in maintenance", gatewaytest.Reply{Status: 503, Body: []byte("<html>")}, 1},
		{"a challenge", gatewaytest.Reply{Status: 200, Header: map[string]string{"Cf-Mitigated": "challenge"}}, 1},
		{"a tunnel that is down", gatewaytest.Reply{Status: 530}, 1},
		{"a banned handshake", gatewaytest.Reply{Status: 403, Body: []byte("error code: 1010")}, 1},
		{"a portal", gatewaytest.Reply{Status: 200, Header: page}, 0},
		{"a page of an empty origin", gatewaytest.Reply{Status: 404, Header: page}, 0},
		{"a redirect", gatewaytest.Reply{Status: 302, Header: page}, 0},
		{"a claim", gatewaytest.Reply{Status: 403, Body: gatewaytest.Refusal(403, "revoked").Body}, 0},
		{"a hangup", gatewaytest.Reply{Hangup: true}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			program, runs := counting(t)
			a := newAuto(t, func(cfg *transport.Config) { cfg.Curl = program })
			a.edge.up.Store(false)
			a.edge.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				reply := test.reply
				reply.Unproven = true
				return &reply
			}
			_, err := a.beat()
			var unproven *transport.Unproven
			if errors.As(err, &unproven) == test.reply.Hangup || err == nil || a.Mode() != "signed" || runs() != test.runs {
				t.Errorf("mode %s, %d runs of curl, want %d, error %v", a.Mode(), runs(), test.runs, err)
			}
		})
	}
	t.Run("a proven refusal", func(t *testing.T) {
		program, runs := counting(t)
		a := newAuto(t, func(cfg *transport.Config) { cfg.Curl = program })
		a.edge.up.Store(false)
		a.edge.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			return &gatewaytest.Reply{Status: 503, Body: []byte("<html>")}
		}
		var refusal *transport.Refusal
		if _, err := a.beat(); !errors.As(err, &refusal) || runs() != 0 {
			t.Errorf("%d runs of curl, error %v", runs(), err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		program, runs := counting(t)
		client := curlClient(t, "http://127.0.0.1:1", nil, func(cfg *transport.Config) {
			cfg.Way = transport.Auto
			cfg.Curl = program
		})
		client.Use(gatewaytest.New(t).Identity(t))
		if _, err := call(client); err == nil || runs() != 0 {
			t.Errorf("%d runs of curl, error %v", runs(), err)
		}
	})
}

func TestAnotherPageIsNoWayThrough(t *testing.T) {
	a := newAuto(t, nil)
	a.edge.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
		return &gatewaytest.Reply{Status: 502, Body: []byte("<html>bad gateway"), Unproven: true}
	}
	if _, err := a.beat(); err == nil || !strings.Contains(err.Error(), "HTTP 403") || a.Mode() != "signed" {
		t.Errorf("mode %s, error %v", a.Mode(), err)
	}
	a.edge.g.Script = nil
	if _, err := a.beat(); err != nil || a.Mode() != "curl" {
		t.Errorf("mode %s, error %v", a.Mode(), err)
	}
	a.edge.up.Store(false)
	a.now = a.now.Add(time.Hour)
	a.edge.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
		return &gatewaytest.Reply{Status: 502, Body: []byte("<html>bad gateway"), Unproven: true}
	}
	if _, err := a.beat(); err == nil || !strings.Contains(err.Error(), "HTTP 502") || a.Mode() != "curl" {
		t.Errorf("mode %s, error %v", a.Mode(), err)
	}
}

func TestSaysOnceThatCurlIsLacking(t *testing.T) {
	a := newAuto(t, func(cfg *transport.Config) { cfg.Curl = filepath.Join(t.TempDir(), "none") })
	for range 3 {
		var unproven *transport.Unproven
		if _, err := a.beat(); !errors.As(err, &unproven) || !strings.Contains(err.Error(), "apt-get install curl") {
			t.Errorf("error %v", err)
		}
	}
	if got := strings.Count(a.log.String(), "curl might get through: install it"); got != 1 || a.Mode() != "signed" {
		t.Errorf("said %d times, mode %s:\n%s", got, a.Mode(), &a.log)
	}
}

// pickyServer serves the gateway's own TLS. While blocked, it ends the handshakes of Go, and not those of curl: curl offers protocols
// (ALPN), and Go here offers none.
func pickyServer(t *testing.T, g *gatewaytest.Gateway, blocked func() bool, end func(net.Conn) error) string {
	t.Helper()
	certificate := g.Serving(t)
	server := httptest.NewUnstartedServer(g)
	server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if blocked() && len(hello.SupportedProtos) == 0 {
			return nil, errors.Join(errors.New("not a browser"), end(hello.Conn))
		}
		return &tls.Config{Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert}, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func TestHandshakesThatAreCutOff(t *testing.T) {
	for name, end := range map[string]func(net.Conn) error{
		"reset": func(c net.Conn) error { c.(*net.TCPConn).SetLinger(0); return c.Close() },
		"end":   func(c net.Conn) error { return c.Close() },
		"alert": func(net.Conn) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t)
			url := pickyServer(t, g, func() bool { return true }, end)
			for way, want := range map[transport.Way]string{transport.Direct: "the TLS handshake was cut off", transport.Auto: ""} {
				client := curlClient(t, url, nil, func(cfg *transport.Config) { cfg.Way = way })
				client.Use(g.Identity(t))
				_, err := call(client)
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %v", way, err)
				}
				if got := client.Mode(); (got == "curl") != (way == transport.Auto) {
					t.Errorf("%s: mode %s", way, got)
				}
			}
		})
	}
}

// TestCutOffWithoutCurl: where only curl could get through, the error says to install it.
func TestCutOffWithoutCurl(t *testing.T) {
	g := gatewaytest.New(t)
	url := pickyServer(t, g, func() bool { return true }, func(net.Conn) error { return nil })
	client := curlClient(t, url, nil, func(cfg *transport.Config) {
		cfg.Way = transport.Auto
		cfg.Curl = filepath.Join(t.TempDir(), "none")
	})
	client.Use(g.Identity(t))
	if _, err := call(client); err == nil || !strings.Contains(err.Error(), "apt-get install curl") {
		t.Errorf("error %v", err)
	}
}

func TestBackFromCurlTheCertificateCountsAgain(t *testing.T) {
	g := gatewaytest.New(t)
	now := time.Now()
	blocked := atomic.Bool{}
	blocked.Store(true)
	url := pickyServer(t, g, blocked.Load, func(net.Conn) error { return nil })
	client := curlClient(t, url, nil, func(cfg *transport.Config) {
		cfg.Way = transport.Auto
		cfg.Now = func() time.Time { return now }
	})
	g.Now = func() time.Time { return now }
	client.Use(g.Identity(t))
	var modes []string
	for i := range 5 {
		if i == 2 {
			blocked.Store(false)
			now = now.Add(time.Hour)
		}
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
		modes = append(modes, client.Mode())
	}
	if got := strings.Join(modes, " "); got != "curl curl mtls mtls mtls" {
		t.Errorf("modes %s", got)
	}
}

// TestCutOffOnce: a handshake that is cut only once, as while a gateway takes over, does not keep the agent on curl.
func TestCutOffOnce(t *testing.T) {
	g := gatewaytest.New(t)
	var handshakes atomic.Int32
	url := pickyServer(t, g, func() bool { return handshakes.Add(1) == 1 }, func(c net.Conn) error { return c.Close() })
	var said bytes.Buffer
	client := curlClient(t, url, nil, func(cfg *transport.Config) {
		cfg.Way = transport.Auto
		cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	})
	client.Use(g.Identity(t))
	for range 3 {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
	var by []string
	for _, q := range g.Requests("") {
		by = append(by, strings.SplitN(q.Header.Get("User-Agent"), "/", 2)[0])
	}
	if got := strings.Join(by, " "); got != "curl muster-agent muster-agent muster-agent" || client.Mode() != "mtls" || said.Len() > 0 {
		t.Errorf("requests of %s, mode %s, and it says:\n%s", got, client.Mode(), &said)
	}
}

func TestEnrolsPastAnEdge(t *testing.T) {
	e := &edge{g: gatewaytest.New(t)}
	e.up.Store(true)
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	client := curlClient(t, server.URL, nil, func(cfg *transport.Config) { cfg.Way = transport.Auto })
	sight, err := client.Look(context.Background())
	if err != nil || sight.Through != transport.Curl || sight.Certificate != transport.CertificateNone {
		t.Errorf("%+v, error %v", sight, err)
	}
	credential, err := identity.ParseCredential(e.g.Token(t))
	if err != nil {
		t.Fatal(err)
	}
	directory, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	state, err := identity.Enrol(context.Background(), identity.State{},
		identity.Enrolment{Client: client, Directory: directory, Credential: credential, Name: "gpu-1"})
	if err != nil || state.NodeID != gatewaytest.NodeID || client.Mode() != "curl" {
		t.Errorf("node %q, mode %s, error %v", state.NodeID, client.Mode(), err)
	}
}

func TestParseWay(t *testing.T) {
	for text, good := range map[string]bool{"auto": true, "direct": true, "curl": true, "": false, "wget": false, "Curl": false} {
		if way, err := transport.ParseWay(text); (err == nil) != good || good && string(way) != text {
			t.Errorf("%q: %q, %v", text, way, err)
		}
	}
}
