package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// curlClient makes a client without an identity for a gateway on the loopback interface. system is what this machine's curl trusts. If
// it is nil, curl trusts no gateway of these tests.
func curlClient(t *testing.T, url string, system *gatewaytest.CA, change func(*transport.Config)) *transport.Client {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("these tests need curl: install it")
	}
	if system == nil {
		system = gatewaytest.NewCA(t, time.Now())
	}
	bundle := filepath.Join(t.TempDir(), "system.pem")
	if err := os.WriteFile(bundle, []byte(system.RootPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := transport.Config{
		Gateway: url, Way: transport.Curl, Version: "1", SystemRoots: system.Pool(),
		Environ: []string{"PATH=" + os.Getenv("PATH"), "CURL_CA_BUNDLE=" + bundle, "SSL_CERT_FILE=" + bundle},
	}
	if change != nil {
		change(&cfg)
	}
	client, err := transport.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestCurlAlwaysSigns(t *testing.T) {
	public := gatewaytest.NewCA(t, time.Now())
	now := time.Now()
	yesterday := now.AddDate(0, 0, -1)
	tomorrow := now.AddDate(0, 0, 1)
	own := gatewaytest.NewCA(t, now)
	serving := func(ca *gatewaytest.CA, host string) *tls.Certificate {
		certificate := ca.Server(t, yesterday, tomorrow, host)
		return &certificate
	}
	old := own.Server(t, now.AddDate(-1, 0, 0), yesterday, "127.0.0.1", "localhost")
	tests := []struct {
		name        string
		certificate *tls.Certificate
		good        bool
	}{
		{"plain http", nil, true},
		{"a certificate that the system trusts", serving(public, "127.0.0.1"), true},
		{"the gateway's own for this host", serving(own, "127.0.0.1"), true},
		{"the gateway's own for another host", serving(own, "localhost"), true},
		{"the system's for another host", serving(public, "localhost"), false},
		{"a stranger's for this host", serving(gatewaytest.NewCA(t, now), "127.0.0.1"), false},
		{"the gateway's own, but past", &old, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.CA = own
			client := curlClient(t, gatewaytest.Listen(t, g, test.certificate), public, nil)
			client.Use(g.Identity(t))
			_, err := call(client)
			if (err == nil) != test.good || err != nil && !errors.Is(err, transport.ErrUntrusted) {
				t.Fatalf("error %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "clock") || !strings.Contains(err.Error(), "curl says: ")) {
				t.Errorf("%v does not say what to look at", err)
			}
			if _, again := call(client); (again == nil) != test.good {
				t.Errorf("then %v", again)
			}
			got := g.Requests("")
			if want := map[bool]int{true: 3, false: 0}[test.good]; len(got) != want { // the first one learns the epoch
				t.Errorf("%d requests arrived, want %d", len(got), want)
			}
			for _, r := range got {
				if r.Signature == nil || r.Peer != nil || !strings.HasPrefix(r.Header.Get("User-Agent"), "curl/") {
					t.Errorf("signed %t, with certificate %t, as %q", r.Signature != nil, r.Peer != nil, r.Header.Get("User-Agent"))
				}
			}
			if client.Mode() != "curl" {
				t.Errorf("mode %s", client.Mode())
			}
		})
	}
}

// TestEnrolsThroughCurl goes all the way: first contact, enrolment, heartbeat.
func TestEnrolsThroughCurl(t *testing.T) {
	public := gatewaytest.NewCA(t, time.Now())
	own := gatewaytest.NewCA(t, time.Now())
	now := time.Now()
	serving := func(ca *gatewaytest.CA, host string) *tls.Certificate {
		certificate := ca.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), host)
		return &certificate
	}
	const psk = "a pre-shared key of enough length"
	tests := []struct {
		name        string
		certificate *tls.Certificate
		psk         bool
		pin         string
		good        bool
	}{
		{"token, plain http", nil, false, "", true},
		{"token, the gateway's own TLS", serving(own, "127.0.0.1"), false, "", true},
		{"psk, public TLS", serving(public, "127.0.0.1"), true, "", true},
		{"psk, the gateway's own TLS and its pin", serving(own, "127.0.0.1"), true, own.Pin(), true},
		{"psk, its pin, another host", serving(own, "localhost"), true, own.Pin(), true},
		{"psk, the gateway's own TLS, no pin", serving(own, "127.0.0.1"), true, "", false},
		{"psk, another pin", serving(own, "127.0.0.1"), true, public.Pin(), false},
		{"psk, plain http", nil, true, "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.CA = own
			secret := psk
			if g.PSK(t, psk); !test.psk {
				secret = g.Token(t)
			}
			credential, err := identity.ParseCredential(secret)
			if err != nil {
				t.Fatal(err)
			}
			client := curlClient(t, gatewaytest.Listen(t, g, test.certificate), public, func(cfg *transport.Config) {
				cfg.First.NeedTrust = credential.Shared
				if test.pin != "" {
					cfg.First.Pins = pins(t, test.pin)
				}
			})
			directory, err := identity.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer directory.Close()
			state, err := identity.Enrol(context.Background(), identity.State{}, identity.Enrolment{
				Client: client, Directory: directory, Credential: credential, Name: "gpu-1",
			})
			if !test.good {
				if !errors.Is(err, transport.ErrUntrusted) || len(g.Requests(wire.PathRegister)) != 0 {
					t.Errorf("error %v after %d requests", err, len(g.Requests("")))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			id, err := state.Transport()
			if err != nil {
				t.Fatal(err)
			}
			client.Use(id)
			if answer, err := call(client); err != nil || answer.State != "active" {
				t.Errorf("answer %+v, error %v", answer, err)
			}
		})
	}
}

func TestBothWaysGiveTheSameTexts(t *testing.T) {
	page := []byte("<html><title>Attention</title></html>")
	for name, reply := range map[string]gatewaytest.Reply{
		"challenge":   {Status: 403, Body: page, Header: map[string]string{"Cf-Mitigated": "challenge", "Server": "cloudflare"}},
		"maintenance": {Status: 503, Body: page, Header: map[string]string{"Content-Type": "text/html"}},
		"tunnel down": {Status: 530, Body: []byte("error code: 1033")},
		"redirect":    {Status: 302, Header: map[string]string{"Location": "https://portal.test/"}},
		"claim":       {Status: 403, Body: gatewaytest.Refusal(403, wire.CodeRevoked).Body},
		"no content":  {Status: 204},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
				copied := reply
				copied.Unproven = true
				return &copied
			}
			url := gatewaytest.Listen(t, g, nil)
			var said [2]string
			for i, way := range []transport.Way{transport.Direct, transport.Curl} {
				client := curlClient(t, url, nil, func(cfg *transport.Config) { cfg.Way = way })
				client.Use(g.Identity(t))
				_, err := call(client)
				var unproven *transport.Unproven
				if !errors.As(err, &unproven) {
					t.Fatalf("%s: %v", way, err)
				}
				said[i] = err.Error()
			}
			if said[0] != said[1] {
				t.Errorf("direct %q\ncurl   %q", said[0], said[1])
			}
		})
	}
}

// TestCurlGoesThroughTheProxy: curl asks a proxy for whole URLs over http, and for tunnels over https.
func TestCurlGoesThroughTheProxy(t *testing.T) {
	now := time.Now()
	for _, variable := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		t.Run(variable, func(t *testing.T) {
			g := gatewaytest.New(t)
			certificate := g.CA.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), gatewaytest.Host)
			secure := strings.HasPrefix(strings.ToLower(variable), "https")
			if !secure {
				certificate = tls.Certificate{}
			}
			target := gatewaytest.Listen(t, g, map[bool]*tls.Certificate{true: &certificate}[secure])
			asked := make(chan string, 100)
			proxy := httptest.NewServer(proxyTo(t, g, target, asked))
			t.Cleanup(proxy.Close)
			scheme := map[bool]string{true: "https://", false: "http://"}[secure]
			client := curlClient(t, scheme+gatewaytest.Host, nil, func(cfg *transport.Config) {
				cfg.Environ = append(cfg.Environ, variable+"="+proxy.URL)
				cfg.Timeout = 10 * time.Second
			})
			client.Use(g.Identity(t))
			if _, err := call(client); err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{true: "CONNECT " + gatewaytest.Host + ":443", false: "POST http://" + gatewaytest.Host + beat}[secure]
			if got := <-asked; got != want {
				t.Errorf("the proxy was asked %q, want %q", got, want)
			}
		})
	}
}

// proxyTo is a proxy for which every host is the gateway.
func proxyTo(t *testing.T, g *gatewaytest.Gateway, target string, asked chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		if r.Method != http.MethodConnect {
			g.ServeHTTP(w, r)
			return
		}
		upstream, err := net.Dial("tcp", strings.TrimPrefix(target, "https://"))
		if err != nil {
			t.Error(err)
			return
		}
		w.Header().Set("Muster-Answer", "of the proxy")
		w.WriteHeader(http.StatusOK)
		down, early, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer upstream.Close()
			io.Copy(upstream, early) // which holds what came before the connection was handed over, and then what comes
		}()
		io.Copy(down, upstream)
		down.Close()
	})
}
