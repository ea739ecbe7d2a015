package client_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
)

// TestReach: a URL leads to the gateway if its health is well there, and the root that the pin names is there too.
func TestReach(t *testing.T) {
	var roots []byte
	status := http.StatusOK
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathRoots {
			_, _ = w.Write(roots)
			return
		}
		w.WriteHeader(status)
	})
	secured := httptest.NewUnstartedServer(handler)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	t.Cleanup(secured.Close)
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	own := secured.Certificate() // it is its own root
	sum := sha256.Sum256(own.RawSubjectPublicKeyInfo)
	pin := "sha256:" + hex.EncodeToString(sum[:])
	key := "sha256//" + base64.StdEncoding.EncodeToString(sum[:])
	whole := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw})
	root, rootPin := otherRoot(t)
	for _, c := range []struct {
		name, url, pin, key string
		roots               []byte
		status              int
		proof, says         string
	}{
		{"its own root", secured.URL, pin, "", whole, 200, "its certificate chains to the gateway's root", ""},
		{"of a company's authority", secured.URL, rootPin, key, root, 200, "its certificate has the gateway's key", ""},
		{"of nobody known", secured.URL, rootPin, "", root, 200, "", "unknown authority"},
		{"of another key", secured.URL, rootPin, strings.Replace(key, "sha256//", "sha256//x", 1), root, 200, "", "not of the gateway's key"},
		{"of a company's authority, another gateway", secured.URL, pin, key, root, 200, "", "no root certificate with the pinned key"},
		{"ill, of a company's authority", secured.URL, rootPin, key, root, 503, "", "status 503"},
		{"without TLS", plain.URL, pin, "", whole, 200, "there is no TLS", ""},
		{"another gateway", secured.URL, "sha256:" + strings.Repeat("0", 64), "", whole, 200, "", "no root certificate with the pinned key"},
		{"another without TLS", plain.URL, pin, "", nil, 200, "", "no root certificate with the pinned key"},
		{"no pin", plain.URL, "", "", whole, 200, "", "a root pin looks like"},
		{"ill", plain.URL, pin, "", whole, 503, "", "status 503"},
		{"ill over TLS", secured.URL, pin, "", whole, 503, "", "status 503"},
		{"no URL", "gw.example", pin, "", nil, 200, "", "is no URL"},
		{"no such name", "https://gw.invalid:7443", pin, "", nil, 200, "", "gw.invalid"},
	} {
		roots, status = c.roots, c.status
		r, err := client.Reach(t.Context(), c.url, c.pin, c.key)
		if c.says == "" && (err != nil || r.Proof != c.proof || (r.NotAfter != nil) != (c.url == secured.URL)) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// otherRoot is a root that has signed nothing here.
func otherRoot(t *testing.T) (bundle []byte, pin string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(nil, plan, plan, public, private)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(root.RawSubjectPublicKeyInfo)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), "sha256:" + hex.EncodeToString(sum[:])
}
