package authority_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/kit"
	"muster/store"
)

// start is the injected clock's first reading in all tests.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newClock() *kit.Clock { return kit.NewClock(start) }

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, MasterKey: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newStore(t testing.TB) *store.Store {
	return openStore(t, filepath.Join(t.TempDir(), "muster.db"))
}

func open(t testing.TB, s *store.Store, now func() time.Time) *authority.Authority {
	t.Helper()
	a, err := authority.Open(t.Context(), authority.Config{Store: s, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newCSR is a request as an agent makes it.
func newCSR(t testing.TB, template x509.CertificateRequest) *x509.CertificateRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	csr, err := authority.CheckCSR(csrPEM(der), authority.Subject{})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func csrPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func issue(t testing.TB, a *authority.Authority, ttl time.Duration) store.Certificate {
	t.Helper()
	issued, err := a.Issue(context.Background(), authority.Request{NodeID: "n1", CSR: newCSR(t, x509.CertificateRequest{}), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// verify checks a chain in PEM, leaf first, against a root bundle as a peer would.
func verify(t testing.TB, chain, roots string, o x509.VerifyOptions) error {
	t.Helper()
	o.Roots = x509.NewCertPool()
	o.Intermediates = x509.NewCertPool()
	if !o.Roots.AppendCertsFromPEM([]byte(roots)) {
		t.Fatal("no roots")
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil || !o.Intermediates.AppendCertsFromPEM(rest) {
		t.Fatalf("not a leaf and an intermediate:\n%s", chain)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	_, err = leaf.Verify(o)
	return err
}

// recorder is a log that a test reads.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r *recorder) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.text.String(), what)
}

// wantError wants an error whose text holds every one of these.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}
