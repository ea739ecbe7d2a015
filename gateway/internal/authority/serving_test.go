package authority_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/kit"
	"muster/store"
)

const day = 24 * time.Hour

// served is what GetCertificate gives now.
func served(t testing.TB, s interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}) *tls.Certificate {
	t.Helper()
	c, err := s.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil || c == nil {
		t.Fatalf("got certificate %v, %v", c, err)
	}
	return c
}

// openServing opens an authority with a log of its own.
func openServing(t *testing.T, s *store.Store, c *kit.Clock, log *recorder, hosts ...string) (*authority.Authority, *authority.Serving) {
	t.Helper()
	a, err := authority.Open(t.Context(), authority.Config{Store: s, Now: c.Now, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.NewServing(t.Context(), a, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return a, serving
}

// handshake connects over loopback and gives the chain that the server sent.
func handshake(t *testing.T, get func(*tls.ClientHelloInfo) (*tls.Certificate, error), client *tls.Config) ([]*x509.Certificate, error) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: get})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		if c, err := listener.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			_ = c.Close()
		}
	})
	c, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates, nil
}

func TestServingHandshake(t *testing.T) {
	c := newClock()
	a, s := openServing(t, newStore(t), c, &recorder{}, "gw.example.com", "GW.example.com.", "*.fleet.example.com", "192.0.2.7",
		"[2001:db8::7]", "::ffff:192.0.2.7")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.RootPEM()))
	for host, want := range map[string]bool{
		"gw.example.com": true, "n1.fleet.example.com": true, "192.0.2.7": true, "2001:db8::7": true,
		"localhost": true, "127.0.0.1": true, "::1": true,
		"example.com": false, "192.0.2.8": false,
	} {
		chain, err := handshake(t, s.GetCertificate, &tls.Config{RootCAs: roots, ServerName: host, Time: c.Now})
		if (err == nil) != want {
			t.Errorf("%s: got %v", host, err)
		}
		if err == nil && len(chain) != 2 {
			t.Errorf("%s: got %d certificates, want leaf and intermediate", host, len(chain))
		}
	}
	leaf := served(t, s).Leaf
	if len(leaf.DNSNames) != 3 || len(leaf.IPAddresses) != 4 || len(leaf.URIs) != 0 {
		t.Errorf("got names %v %v %v", leaf.DNSNames, leaf.IPAddresses, leaf.URIs)
	}
	if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth || leaf.IsCA ||
		leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("got usages %v %v, CA %v", leaf.KeyUsage, leaf.ExtKeyUsage, leaf.IsCA)
	}
	if !leaf.NotBefore.Equal(start.Add(-wire.Backdate)) || !leaf.NotAfter.Equal(start.Add(90*day)) {
		t.Errorf("got good from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	other := x509.NewCertPool()
	other.AppendCertsFromPEM([]byte(open(t, newStore(t), c.Now).RootPEM()))
	if _, err := handshake(t, s.GetCertificate, &tls.Config{RootCAs: other, ServerName: "localhost", Time: c.Now}); err == nil {
		t.Errorf("another CA's root verifies the server")
	}
}

// TestServingCovers: hosts that become known later stand in the next certificate, which has the same key.
func TestServingCovers(t *testing.T) {
	_, s := openServing(t, newStore(t), newClock(), &recorder{}, "gw1.example.com")
	first := served(t, s)
	pin := s.PinnedPublicKey()
	if err := s.Cover([]string{"gw1.example.com"}); err != nil || served(t, s) != first {
		t.Errorf("a known host makes another certificate, %v", err)
	}
	wantError(t, s.Cover([]string{"gw2.example.com", "a..b", "192.0.2.8"}), "a..b", "cannot stand in a certificate")
	leaf := served(t, s).Leaf
	for _, host := range []string{"gw1.example.com", "gw2.example.com", "192.0.2.8", "localhost"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if served(t, s).Leaf != leaf || s.PinnedPublicKey() != pin {
		t.Error("the certificate changes again, or its key has changed")
	}
}

func TestServingRenews(t *testing.T) {
	c := newClock()
	log := &recorder{}
	_, s := openServing(t, newStore(t), c, log)
	pin := s.PinnedPublicKey()
	first := served(t, s)
	sum := sha256.Sum256(first.Leaf.RawSubjectPublicKeyInfo)
	if want := "sha256//" + base64.StdEncoding.EncodeToString(sum[:]); pin != want {
		t.Errorf("got pin %s, want %s", pin, want)
	}
	steps := []struct {
		at      time.Time
		renewed bool
	}{
		{start.Add(time.Hour), false},
		{start.Add(60*day - time.Second), false},
		{start.Add(60 * day), true},
		{start.Add(119 * day), false},
		{start.Add(300 * day), true}, // long after its end
		{start.Add(250 * day), true}, // the clock was set back: the certificate is not in force
		{start.Add(250 * day), false},
	}
	last := first
	for _, step := range steps {
		c.Set(step.at)
		now := served(t, s)
		if got := now != last; got != step.renewed {
			t.Errorf("at %v: got renewed %v, want %v", step.at, got, step.renewed)
		}
		if step.at.Before(now.Leaf.NotBefore) || step.at.After(now.Leaf.NotAfter) {
			t.Errorf("at %v: the certificate is not in force", step.at)
		}
		last = now
	}
	if s.PinnedPublicKey() != pin {
		t.Errorf("the key changed with the certificate")
	}
	if log.count("level=ERROR") != 0 {
		t.Errorf("got in the log: %s", log.text.String())
	}
}

func TestServingKeepsLastCertificate(t *testing.T) {
	c := newClock()
	log := &recorder{}
	_, s := openServing(t, newStore(t), c, log)
	first := served(t, s)
	c.Set(start.Add(-2 * day)) // before the root: nothing can be signed
	for range 3 {
		if served(t, s) != first {
			t.Errorf("got another certificate")
		}
	}
	if got := log.count("not renewed"); got != 1 {
		t.Errorf("got %d lines in the log, want 1", got)
	}
	c.Set(start)
	served(t, s)
	c.Set(start.Add(-2 * day))
	served(t, s)
	if got := log.count("not renewed"); got != 2 {
		t.Errorf("got %d lines in the log after a second failure, want 2", got)
	}
}

func TestServingAfterRestart(t *testing.T) {
	store := newStore(t)
	c := newClock()
	_, before := openServing(t, store, c, &recorder{}, "old.example.com")
	_, after := openServing(t, store, c, &recorder{}, "new.example.com")
	if before.PinnedPublicKey() != after.PinnedPublicKey() {
		t.Errorf("the key did not outlive a restart")
	}
	leaf := served(t, after).Leaf
	if leaf.VerifyHostname("new.example.com") != nil || leaf.VerifyHostname("old.example.com") == nil {
		t.Errorf("got names %v", leaf.DNSNames)
	}
}

func TestServingConcurrently(t *testing.T) {
	c := newClock()
	_, s := openServing(t, newStore(t), c, &recorder{})
	first := served(t, s)
	c.Set(start.Add(61 * day))
	got := make([]*tls.Certificate, 16)
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i], _ = s.GetCertificate(nil) })
	}
	wait.Wait()
	for _, one := range got {
		if one == nil || one == first || !bytes.Equal(one.Certificate[0], got[0].Certificate[0]) {
			t.Fatalf("the certificate was not renewed once for all")
		}
	}
}

func TestServingRefuses(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	for _, host := range []string{"", "host:7443", "a b", "bücher.example", "https://a", "a..b", "-a", "a-", "fe80::1%eth0",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a", "*.*.a", "*"} {
		_, err := authority.NewServing(t.Context(), a, []string{host})
		wantError(t, err, "cannot stand in a certificate", "DNS name")
	}
	for _, host := range []string{strings.Repeat("a", 63), "a_b.example", net.IPv6loopback.String()} {
		if _, err := authority.NewServing(t.Context(), a, []string{host}); err != nil {
			t.Errorf("%s: got %v", host, err)
		}
	}
	if err := s.SetSecret(t.Context(), "key/serving", []byte("x")); err != nil {
		t.Fatal(err)
	}
	_, err := authority.NewServing(t.Context(), a, nil)
	wantError(t, err, "secret key/serving", "P-256")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = authority.NewServing(t.Context(), a, nil)
	wantError(t, err, "read secret key/serving")
}
