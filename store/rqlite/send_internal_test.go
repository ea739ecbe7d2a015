package rqlite

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestRefusedTLS: where TLS ends in its handshake, the node has read no request. A connection that is cut says nothing.
func TestRefusedTLS(t *testing.T) {
	for name, c := range map[string]struct {
		version uint16
		trust   bool // the client knows the node's CA
		client  bool // the node wants a certificate that it can verify
		cut     bool
		want    bool
	}{
		"an unknown CA":                {tls.VersionTLS13, false, false, false, true},
		"no certificate":               {tls.VersionTLS13, true, true, false, true},
		"no certificate, with TLS 1.2": {tls.VersionTLS12, true, true, false, true},
		"cut":                          {tls.VersionTLS13, true, false, true, false},
	} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if !c.cut {
				t.Errorf("%s: the request was read", name)
			}
			panic(http.ErrAbortHandler)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{MaxVersion: c.version}
		if c.client {
			s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
			s.TLS.ClientCAs = x509.NewCertPool()
		}
		s.StartTLS()
		o := Options{TLS: &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate(t)}}}
		if c.trust {
			o.TLS.RootCAs.AddCert(s.Certificate())
		}
		client := newClient(o)
		_, err := client.Post(s.URL, "text/plain", strings.NewReader("x"))
		if err == nil || unread(err) != c.want {
			t.Errorf("%s: unread %v: %v", name, unread(err), err)
		}
		client.CloseIdleConnections()
		s.Close()
	}
}

// certificate is one that nobody knows.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, &form, &form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}
