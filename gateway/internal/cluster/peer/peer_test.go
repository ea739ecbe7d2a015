package peer_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/gateway/internal/artifact"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
)

// site is a CA with an active gateway gw1, and one that stands by.
type site struct {
	t         *testing.T
	authority *authority.Authority
	server    *peer.Server
	address   string // of the active gateway's listener for gateways
	relay     *peer.Relay
	shown     atomic.Pointer[func() (peer.Identity, error)] // the identity of the one that stands by
}

func (s *site) shows(identity func() (peer.Identity, error)) { s.shown.Store(&identity) }

func newSite(t *testing.T) *site {
	t.Helper()
	a, err := authority.Open(t.Context(), authority.Config{Store: kit.Store(t, nil)})
	must(t, err)
	s := &site{t: t, authority: a}
	folder := t.TempDir()
	copies := peer.Copies{
		Keep: func(blob artifact.Info, content io.Reader) error { return artifact.Import(nil, folder, blob, content) },
		Open: func(blob artifact.Info) (io.ReadCloser, error) { return artifact.File(folder, blob) },
	}
	l := listen(t)
	s.address = l.Addr().String()
	s.server = peer.NewServer(l, s.identity("gw1"), copies, quiet())
	s.run(func(ctx context.Context) error { return s.server.Run(ctx) })
	s.shows(s.identity("gw2"))
	s.relay = &peer.Relay{Identity: func() (peer.Identity, error) { return (*s.shown.Load())() }, Most: 64, Place: origin.Resolver{}.Place,
		Logger: quiet()}
	s.relay.Follow(&peer.Gateway{ID: "gw1", URL: "https://" + s.address})
	return s
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// run runs something until the end of the test.
func (s *site) run(what func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// identity is a gateway of this CA.
func (s *site) identity(id string) func() (peer.Identity, error) {
	own, err := authority.NewGateway(s.authority, peer.URI(s.authority.TrustDomain(), id))
	must(s.t, err)
	return func() (peer.Identity, error) {
		c, err := own.GetCertificate(nil)
		return peer.Identity{ID: id, Domain: s.authority.TrustDomain(), Certificate: c, Roots: s.authority.Roots()}, err
	}
}

// passes has the relay pass what comes to a new listener of a kind, and gives its address.
func (s *site) passes(kind string) string {
	l := listen(s.t)
	s.run(func(ctx context.Context) error { return s.relay.Serve(ctx, l, kind) })
	return l.Addr().String()
}

// echo answers each line with itself and with where it came from.
func (s *site) echo(l net.Listener) {
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for scan := bufio.NewScanner(c); scan.Scan(); {
					fmt.Fprintf(c, "%s from %s\n", scan.Text(), c.RemoteAddr())
				}
			}()
		}
	}()
}

func say(t *testing.T, address, line string) (answer string, from string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = fmt.Fprintln(c, line)
	_ = c.(*net.TCPConn).CloseWrite() // perhaps it is closed already
	all, err := io.ReadAll(c)
	if err != nil {
		return "", ""
	}
	return strings.TrimSuffix(string(all), "\n"), c.LocalAddr().String()
}

// TestPassed: the active gateway answers who called the one that stands by, and sees the caller's own address.
func TestPassed(t *testing.T) {
	s := newSite(t)
	own := listen(t)
	s.echo(s.server.Joined(own, peer.TLS))
	through := s.passes(peer.TLS)
	for range 20 {
		if got, from := say(t, through, "hello"); got != "hello from "+from {
			t.Errorf("through another gateway: %q", got)
		}
		if got, from := say(t, own.Addr().String(), "hello"); got != "hello from "+from {
			t.Errorf("on its own listener: %q", got)
		}
	}
	large := strings.Repeat("x", 60<<10)
	if got, from := say(t, through, large); got != large+" from "+from {
		t.Errorf("%d bytes came back", len(got))
	}
}

// TestKinds: each kind comes to its own listener, and an operator's socket is named by its gateway.
func TestKinds(t *testing.T) {
	s := newSite(t)
	s.echo(s.server.Joined(listen(t), peer.Plain))
	s.echo(s.server.Joined(listen(t), peer.Socket))
	if got, from := say(t, s.passes(peer.Plain), "plain"); got != "plain from "+from {
		t.Errorf("got %q", got)
	}
	if got, _ := say(t, s.passes(peer.Socket), "socket"); got != "socket from socket of gw2" {
		t.Errorf("got %q", got)
	}
	if got, _ := say(t, s.passes("nonsense"), "x"); got != "" {
		t.Errorf("of no kind: %q", got)
	}
}

// TestSocketsEnd: the own end of a connection to another gateway's socket is that socket. Package account goes by it.
func TestSocketsEnd(t *testing.T) {
	s := newSite(t)
	l := s.server.Joined(listen(t), peer.Socket)
	c, err := net.Dial("tcp", s.passes(peer.Socket))
	must(t, err)
	defer c.Close()
	_, err = c.Write([]byte("x"))
	must(t, err)
	passed, err := l.Accept()
	must(t, errors.Join(err, l.Close()))
	defer passed.Close()
	if at := passed.LocalAddr(); at != peer.SocketAddr("gw2") {
		t.Errorf("it is %v", at)
	}
}

// TestCertificatesStay: TLS goes through, and the client's certificate reaches the active gateway.
func TestCertificatesStay(t *testing.T) {
	s := newSite(t)
	serving, err := authority.NewServing(t.Context(), s.authority, nil)
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].URIs[0])
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	config := &tls.Config{ClientAuth: tls.RequireAnyClientCert, GetCertificate: serving.GetCertificate}
	go func() { _ = server.Serve(tls.NewListener(s.server.Joined(listen(t), peer.TLS), config)) }()
	t.Cleanup(func() { server.Close() })
	own, err := s.identity("client")()
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(own.Roots[0])
	mine := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{*own.Certificate}}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: mine}}
	defer client.CloseIdleConnections()
	r, err := client.Get("https://" + s.passes(peer.TLS))
	must(t, err)
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != peer.URI(s.authority.TrustDomain(), "client").String() {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestRefused: nobody passes connections who is no gateway, and none are passed to who is not the active one.
func TestRefused(t *testing.T) {
	s := newSite(t)
	s.echo(s.server.Joined(listen(t), peer.Socket))
	through := s.passes(peer.Socket)
	if got, _ := say(t, through, "x"); got == "" {
		t.Fatal("nothing is passed")
	}
	good := *s.shown.Load()
	other := newSite(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	must(t, err)
	csr, err := x509.ParseCertificateRequest(der)
	must(t, err)
	node, err := s.authority.Issue(t.Context(), authority.Request{NodeID: "n-1", CSR: csr})
	must(t, err)
	for name, identity := range map[string]func() (peer.Identity, error){
		"a node": func() (peer.Identity, error) {
			i, err := good()
			i.Certificate = &tls.Certificate{PrivateKey: key, Certificate: blocks(t, node.Chain)}
			return i, err
		},
		"a gateway of another CA": other.identity("gw2"),
		"the site's own serving certificate": func() (peer.Identity, error) {
			i, err := good()
			must(t, err)
			serving, err := authority.NewServing(t.Context(), s.authority, nil)
			must(t, err)
			i.Certificate, err = serving.GetCertificate(nil)
			return i, err
		},
		"nobody": func() (peer.Identity, error) { return peer.Identity{}, io.EOF },
	} {
		s.shows(identity)
		if got, _ := say(t, through, "x"); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	s.shows(good)
	for name, active := range map[string]*peer.Gateway{"another one": {ID: "gw3", URL: "https://" + s.address}, "none": nil,
		"nowhere": {ID: "gw1", URL: "https://127.0.0.1:1"}, "no URL": {ID: "gw1", URL: "://"},
		"of another CA": {ID: "gw1", URL: "https://" + other.address}} {
		s.relay.Follow(active)
		if got, _ := say(t, through, "x"); got != "" {
			t.Errorf("to %s: %q", name, got)
		}
	}
	s.relay.Follow(&peer.Gateway{ID: "gw1", URL: "https://" + s.address})
	if got, _ := say(t, through, "x"); got == "" {
		t.Error("nothing is passed any more")
	}
}

// TestHandsOn: when a gateway stops passing, its listener is its own again, and what waited there is answered by it.
func TestHandsOn(t *testing.T) {
	s := newSite(t)
	folder := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(folder, "s"))
	must(t, err)
	defer socket.Close()
	for _, l := range []net.Listener{listen(t), socket} {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.relay.Serve(ctx, l, peer.Plain) }()
		stop()
		must(t, <-done)
		accepted := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				c.Close()
			}
			accepted <- err
		}()
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		must(t, err)
		c.Close()
		must(t, <-accepted)
	}
}

// TestStanding: the active gateway knows which ones stand by, and how their clocks are. It calls each back: one that is not reached would
// cut the others off.
func TestStanding(t *testing.T) {
	s := newSite(t)
	said := peer.Hello{URL: "https://127.0.0.1:1", Version: "1.2.3", At: time.Now().Add(-time.Minute).UTC().Truncate(time.Second)}
	s.run(func(ctx context.Context) error { return s.relay.Tell(ctx, func() peer.Hello { return said }) })
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if all := s.server.Standing(); len(all) == 1 && all[0].Refuses != "" {
			g := all[0]
			if !strings.Contains(g.Refuses, "do not reach it at https://127.0.0.1:1 (dial tcp 127.0.0.1:1: connect: connection refused)") {
				t.Errorf("it says %q", g.Refuses)
			}
			g.Refuses = ""
			if g.ID != "gw2" || g.Hello != said || time.Since(g.Heard) > time.Minute {
				t.Errorf("got %+v", g)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal("nobody is heard")
		}
	}
}

// TestCopies: blobs go to another gateway and come back, whole or not at all.
func TestCopies(t *testing.T) {
	s := newSite(t)
	own, err := s.identity("gw2")()
	must(t, err)
	to := peer.Gateway{ID: "gw1", URL: "https://" + s.address}
	content := strings.Repeat("0123456789", 300_000)
	blob := artifact.Info{Digest: artifact.DigestOf([]byte(content)), Size: int64(len(content))}
	keep := func(blob artifact.Info, content string) error {
		return peer.Keep(t.Context(), own, to, blob, strings.NewReader(content))
	}
	fetch := func(ctx context.Context, blob artifact.Info) (string, error) {
		from, err := peer.Fetch(ctx, own, to, blob)
		if err != nil {
			return "", err
		}
		defer from.Close()
		all, err := io.ReadAll(from)
		return string(all), err
	}
	if text, err := fetch(t.Context(), blob); err == nil {
		t.Errorf("%d bytes of what is not there", len(text))
	}
	must(t, keep(blob, content))
	if text, err := fetch(t.Context(), blob); err != nil || text != content {
		t.Errorf("%d bytes came back, %v", len(text), err)
	}
	empty := artifact.Info{Digest: artifact.DigestOf(nil)}
	must(t, keep(empty, ""))
	other := artifact.Info{Digest: artifact.DigestOf([]byte("x")), Size: 1}
	if err := keep(other, "y"); err == nil || !strings.Contains(err.Error(), "the bytes are not those of the blob") {
		t.Errorf("other bytes: %v", err)
	}
	if _, err := fetch(t.Context(), other); err == nil {
		t.Error("other bytes are kept")
	}
	if err := keep(artifact.Info{Digest: "sha256:../../x", Size: 1}, "x"); err == nil {
		t.Error("a name that is no digest is taken")
	}
	ended, end := context.WithCancel(t.Context())
	from, err := peer.Fetch(ended, own, to, blob)
	must(t, err)
	end()
	if _, err := io.ReadAll(from); err == nil {
		t.Error("a copy goes on after its end")
	}
	if err := from.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestOwn: a gateway that stands by answers what is its own, on listeners without TLS, and passes all else from its first byte on.
func TestOwn(t *testing.T) {
	s := newSite(t)
	s.relay.Own = func(path string) (int, string, bool) { return http.StatusOK, `{"role":"standby"}`, path == "/readyz" }
	s.echo(s.server.Joined(listen(t), peer.Plain))
	through := s.passes(peer.Plain)
	r, err := http.Get("http://" + through + "/readyz")
	must(t, err)
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || string(body) != `{"role":"standby"}` || !r.Close {
		t.Errorf("%s %s %v", r.Status, body, err)
	}
	for _, line := range []string{"GET /readyz/x HTTP/1.1", "GET /other HTTP/1.1", "POST /readyz HTTP/1.1", "x", "G", "GET /" + strings.Repeat("x", 200)} {
		if got, from := say(t, through, line); got != line+" from "+from {
			t.Errorf("%q: %q", line, got)
		}
	}
}

// TestAway: while no gateway is active a request is answered, and not cut off, though it has a long body; a connection of TLS is closed.
func TestAway(t *testing.T) {
	s := newSite(t)
	s.relay.Own = func(string) (int, string, bool) { return 0, "", false }
	s.relay.Away = `{"error":{"code":"unavailable"}}`
	for _, gone := range []*peer.Gateway{{ID: "gw9", URL: "https://127.0.0.1:1"}, nil} {
		s.relay.Follow(gone)
		for range 20 {
			r, err := http.Post("http://"+s.passes(peer.Plain)+"/api", "text/plain", strings.NewReader(strings.Repeat("x", 300<<10)))
			must(t, err)
			body, err := io.ReadAll(r.Body)
			must(t, errors.Join(err, r.Body.Close()))
			if r.StatusCode != http.StatusServiceUnavailable || string(body) != s.relay.Away {
				t.Errorf("%s %s", r.Status, body)
			}
		}
		if got, _ := say(t, s.passes(peer.TLS), "hello"); got != "" {
			t.Errorf("got %q", got)
		}
	}
}
