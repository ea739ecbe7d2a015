package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/sign"
)

func TestNamed(t *testing.T) {
	for base, want := range map[string][2]string{
		"https://127.0.0.1:7443":  {"https://localhost:7443", "127.0.0.1:7443"},
		"https://127.0.0.9/x":     {"https://localhost/x", "127.0.0.9:443"},
		"https://[::1]:7443":      {"https://localhost:7443", "[::1]:7443"},
		"https://localhost:7443":  {"https://localhost:7443", ""},
		"https://192.0.2.7:7443":  {"https://192.0.2.7:7443", ""},
		"https://gw.example":      {"https://gw.example", ""},
		"http://127.0.0.1:7443/x": {"http://127.0.0.1:7443/x", ""},
	} {
		if at, address := named(base); at != want[0] || address != want[1] {
			t.Errorf("%s: got %s, %s", base, at, address)
		}
	}
}

// TestLoopbackByName: a gateway at a loopback address is asked by the name localhost, in TLS and in the request. Its certificate may be for
// the address alone. One for neither is refused, and so is one of another root.
func TestLoopbackByName(t *testing.T) {
	var host, sni string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, sni = r.Host, r.TLS.ServerName
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	own := filepath.Join(t.TempDir(), "own.pem") // for 127.0.0.1, ::1 and example.com
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(own, text, 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), Target{URL: server.URL, Token: token.Reveal(), CAFile: own})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Get[struct{}](t.Context(), c, "/x", nil); err != nil || sni != "localhost" || !strings.HasPrefix(host, "localhost:") {
		t.Errorf("asked %s, TLS named %q, %v", host, sni, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{server.Certificate()}}
	var name x509.HostnameError
	if err := oneOf(roots, localName, "127.0.0.9")(state); !errors.As(err, &name) {
		t.Errorf("for another address: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if err := oneOf(x509.NewCertPool(), localName, "127.0.0.1")(state); !errors.As(err, &unknown) {
		t.Errorf("of another root: %v", err)
	}
}
