package authority_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/store"
)

// leafOf reads a certificate and wants its row to say what it says.
func leafOf(t *testing.T, issued store.Certificate) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(issued.Chain))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Error(err)
		return &x509.Certificate{}
	}
	if want := store.NewCertificate(leaf.Raw, leaf.RawSubjectPublicKeyInfo, leaf.NotBefore, leaf.NotAfter,
		issued.Chain); !reflect.DeepEqual(issued, want) {
		t.Errorf("got %+v, want %+v", issued, want)
	}
	return leaf
}

func TestIssue(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	csr := newCSR(t, x509.CertificateRequest{})
	// What a request says beside its key must not matter, even if a caller forgot to check it.
	csr.Subject = pkix.Name{CommonName: "root", Organization: []string{"system:masters"}}
	csr.DNSNames = []string{"gateway"}
	csr.URIs = []*url.URL{{Scheme: "spiffe", Host: "x", Path: "/node/n2"}}
	csr.Extensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
	issued, err := a.Issue(t.Context(), authority.Request{NodeID: "n1", CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	leaf := leafOf(t, issued)
	if leaf.Subject.String() != "CN=n1" {
		t.Errorf("got subject %s", leaf.Subject)
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != a.NodeURI("n1") ||
		len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) != 0 {
		t.Errorf("got names %v %v", leaf.URIs, leaf.DNSNames)
	}
	if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("got CA %v, key usage %v", leaf.IsCA, leaf.KeyUsage)
	}
	if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || len(leaf.UnknownExtKeyUsage) != 0 {
		t.Errorf("got extended key usage %v", leaf.ExtKeyUsage)
	}
	if !leaf.NotBefore.Equal(start.Add(-wire.Backdate)) || !leaf.NotAfter.Equal(start.Add(24*time.Hour)) {
		t.Errorf("got good from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	if len(leaf.SubjectKeyId) != 20 || len(leaf.AuthorityKeyId) != 20 {
		t.Errorf("got key ids %x, %x", leaf.SubjectKeyId, leaf.AuthorityKeyId)
	}
	if !csr.PublicKey.(*ecdsa.PublicKey).Equal(leaf.PublicKey) {
		t.Errorf("got another key")
	}
}

func TestIssuedVerifies(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	chain := issue(t, a, time.Hour).Chain
	if got := strings.Count(chain, "BEGIN CERTIFICATE"); got != 2 {
		t.Errorf("got a chain of %d", got)
	}
	cases := map[string]struct {
		roots string
		at    time.Time
		use   x509.ExtKeyUsage
		want  bool
	}{
		"as a client":          {a.RootPEM(), start, x509.ExtKeyUsageClientAuth, true},
		"on a clock 5 m slow":  {a.RootPEM(), start.Add(-5 * time.Minute), x509.ExtKeyUsageClientAuth, true},
		"at its end":           {a.RootPEM(), start.Add(time.Hour), x509.ExtKeyUsageClientAuth, true},
		"after its end":        {a.RootPEM(), start.Add(time.Hour + time.Second), x509.ExtKeyUsageClientAuth, false},
		"as a server":          {a.RootPEM(), start, x509.ExtKeyUsageServerAuth, false},
		"with another CA":      {open(t, newStore(t), newClock().Now).RootPEM(), start, x509.ExtKeyUsageClientAuth, false},
		"as a signer of code":  {a.RootPEM(), start, x509.ExtKeyUsageCodeSigning, false},
		"before its beginning": {a.RootPEM(), start.Add(-6 * time.Minute), x509.ExtKeyUsageClientAuth, false},
	}
	for name, c := range cases {
		err := verify(t, chain, c.roots, x509.VerifyOptions{CurrentTime: c.at, KeyUsages: []x509.ExtKeyUsage{c.use}})
		if (err == nil) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestIssueLifetime(t *testing.T) {
	s := newStore(t)
	c := newClock()
	a, err := authority.Open(t.Context(), authority.Config{Store: s, Now: c.Now, CertTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for ttl, want := range map[time.Duration]time.Duration{0: time.Hour, authority.MinTTL: authority.MinTTL,
		authority.MaxTTL: authority.MaxTTL} {
		if got := leafOf(t, issue(t, a, ttl)).NotAfter; !got.Equal(start.Add(want)) {
			t.Errorf("lifetime %v: got an end at %v", ttl, got)
		}
	}
	c.Set(start.Add(5*year - time.Minute))
	if got := leafOf(t, issue(t, a, time.Hour)).NotAfter; !got.Equal(start.Add(5 * year)) {
		t.Errorf("got an end at %v, past the intermediate's", got)
	}
	c.Set(start.Add(5 * year))
	_, err = a.Issue(t.Context(), authority.Request{NodeID: "n1", CSR: newCSR(t, x509.CertificateRequest{})})
	if !errors.Is(err, authority.ErrClock) {
		t.Errorf("at the intermediate's end: got %v", err)
	}
}

func TestIssueRefuses(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	csr := newCSR(t, x509.CertificateRequest{})
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		ctx  context.Context
		r    authority.Request
		want string
	}{
		"no id":        {t.Context(), authority.Request{CSR: csr}, `node id ""`},
		"a path as id": {t.Context(), authority.Request{NodeID: "n1/../n2", CSR: csr}, `node id "n1/../n2"`},
		"a long id":    {t.Context(), authority.Request{NodeID: strings.Repeat("n", 65), CSR: csr}, "node id"},
		"no request":   {t.Context(), authority.Request{NodeID: "n1"}, "needs a certificate request"},
		"too short":    {t.Context(), authority.Request{NodeID: "n1", CSR: csr, TTL: time.Second}, "certificate lifetime 1s"},
		"negative":     {t.Context(), authority.Request{NodeID: "n1", CSR: csr, TTL: -time.Hour}, "certificate lifetime -1h"},
		"too long":     {t.Context(), authority.Request{NodeID: "n1", CSR: csr, TTL: authority.MaxTTL + 1}, "certificate lifetime 720h"},
		"another key": {t.Context(), authority.Request{NodeID: "n1", CSR: &x509.CertificateRequest{PublicKey: &p384.PublicKey}},
			"not ECDSA P-256"},
		"no key":        {t.Context(), authority.Request{NodeID: "n1", CSR: &x509.CertificateRequest{}}, "not ECDSA P-256"},
		"ended context": {ended, authority.Request{NodeID: "n1", CSR: csr}, "canceled"},
	}
	for name, c := range cases {
		if _, err := a.Issue(c.ctx, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestIssueConcurrently(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	csr := newCSR(t, x509.CertificateRequest{})
	var mu sync.Mutex
	var wait sync.WaitGroup
	serials := map[string]bool{}
	for range 8 {
		wait.Go(func() {
			for range 25 {
				issued, err := a.Issue(context.Background(), authority.Request{NodeID: "n1", CSR: csr})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				serials[leafOf(t, issued).SerialNumber.String()] = true
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(serials) != 200 {
		t.Errorf("got %d different serial numbers, want 200", len(serials))
	}
}

// BenchmarkIssue is one caller; its peer is the bare signing of the same kind of leaf.
func BenchmarkIssue(b *testing.B) {
	a := open(b, newStore(b), time.Now)
	r := authority.Request{NodeID: "n1", CSR: newCSR(b, x509.CertificateRequest{})}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := a.Issue(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "certs/s")
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := a.Issue(context.Background(), r); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "certs/s")
	})
	b.Run("check", func(b *testing.B) {
		text := csrPEM(r.CSR.Raw)
		for b.Loop() {
			if _, err := authority.CheckCSR(text, authority.Subject{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
