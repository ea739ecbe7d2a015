package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	whole := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw})
	for _, c := range []struct {
		name, url, pin string
		roots          []byte
		status         int
		proof, says    string
	}{
		{"its own root", secured.URL, pin, whole, 200, "its certificate chains to the gateway's root", ""},
		{"without TLS", plain.URL, pin, whole, 200, "there is no TLS", ""},
		{"another gateway", secured.URL, "sha256:" + strings.Repeat("0", 64), whole, 200, "", "no root certificate with the pinned key"},
		{"another without TLS", plain.URL, pin, nil, 200, "", "no root certificate with the pinned key"},
		{"no pin", plain.URL, "", whole, 200, "", "a root pin looks like"},
		{"ill", plain.URL, pin, whole, 503, "", "status 503"},
		{"ill over TLS", secured.URL, pin, whole, 503, "", "status 503"},
		{"no URL", "gw.example", pin, nil, 200, "", "is no URL"},
		{"no such name", "https://gw.invalid:7443", pin, nil, 200, "", "gw.invalid"},
	} {
		roots, status = c.roots, c.status
		r, err := client.Reach(t.Context(), c.url, c.pin)
		if c.says == "" && (err != nil || r.Proof != c.proof || (r.NotAfter != nil) != (c.url == secured.URL)) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}
