package nodeapi_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/nodeapi"
	"muster/store"
)

// renew asks for the next certificate with a CSR and gives the node that it makes.
func (s *site) renew(n node, csr string) (answer, wire.RenewAnswer) {
	s.t.Helper()
	a := s.plainly(n, wire.RenewPath(n.id), encode(s.t, wire.RenewRequest{CSR: csr}))
	var renewed wire.RenewAnswer
	if a.status < 400 {
		if err := json.Unmarshal(a.body, &renewed); err != nil {
			s.t.Fatal(err)
		}
	}
	return a, renewed
}

func (s *site) renewed(n node) node {
	s.t.Helper()
	key := newKey(s.t)
	a, r := s.renew(n, newCSR(s.t, key, named(n.id)))
	s.want("renewal", a, 200, "ok")
	return node{id: n.id, name: n.name, chain: r.Certificate, signer: sign.Signer{Key: key, Fingerprint: fingerprint(s.t, r.Certificate)}}
}

func (s *site) beats(n node) answer {
	s.t.Helper()
	return s.plainly(n, wire.HeartbeatPath(n.id), beat(1))
}

func TestRenew(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s.clock.Forward(16 * time.Hour)
	key := newKey(t)
	csr := newCSR(t, key, x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "box"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/node/" + n.id}},
	})
	_, first := s.renew(n, csr)
	c := leaf(t, first.Certificate)
	if first.Generation != 2 || !first.Time.Equal(s.clock.Now()) || !c.NotAfter.Equal(s.clock.Now().Add(24*time.Hour)) ||
		c.Subject.CommonName != n.id || len(c.URIs) != 1 || c.URIs[0].String() != s.ca.NodeURI(n.id) || !key.PublicKey.Equal(c.PublicKey) {
		t.Errorf("got generation %d for %v %v until %v", first.Generation, c.Subject, c.URIs, c.NotAfter)
	}
	if _, again := s.renew(n, csr); again.Certificate != first.Certificate || again.Generation != 2 {
		t.Error("the same key: got another certificate")
	}
	s.want("the old one meanwhile", s.beats(n), 200, "ok")
	forgotten := node{id: n.id, signer: sign.Signer{Key: key, Fingerprint: fingerprint(t, first.Certificate)}}
	next := s.renewed(n) // with another key: that one was lost
	s.want("the one that was replaced", s.beats(forgotten), 401, wire.CodeSupersededRetry)
	s.want("the old one meanwhile", s.beats(n), 200, "ok")
	s.want("the new one", s.beats(next), 200, "ok")
	s.want("the old one afterwards", s.beats(n), 401, wire.CodeSupersededRetry)
	third := s.renewed(next)
	s.want("a renewal is a first use too", s.plainly(third, wire.RenewPath(n.id),
		encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), named(n.id))})), 200, "ok")
	s.want("so this is the old one", s.beats(next), 401, wire.CodeSupersededRetry)
}

func TestBadRenewals(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	other := s.enrol("other")
	key := newKey(t)
	ca := named(n.id)
	uri := named(n.id)
	dns := named(n.id)
	organization := named(n.id)
	ca.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}
	uri.URIs = []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/node/" + other.id}}
	dns.DNSNames = []string{"box"}
	organization.Subject.Organization = []string{"x"}
	for name, template := range map[string]x509.CertificateRequest{
		"another node's id": named(other.id), "another name": named("other"), "another SAN": uri, "a CA flag": ca, "a DNS name": dns,
		"more in the subject": organization,
	} {
		a, _ := s.renew(n, newCSR(t, key, template))
		s.want(name, a, 400, wire.CodeBadCSR)
	}
	a, _ := s.renew(n, "")
	s.want("nothing", a, 400, wire.CodeBadCSR)
	s.want("not JSON", s.plainly(n, wire.RenewPath(n.id), []byte("csr")), 400, wire.CodeBadRequest)
	a, _ = s.renew(n, newCSR(t, n.signer.Key, named(n.id)))
	s.want("its own key again", a, 409, wire.CodeKeyInUse)
	a, _ = s.renew(n, newCSR(t, other.signer.Key, named(n.id)))
	s.want("another node's key", a, 409, wire.CodeKeyInUse)
}

// TestFetchedTooLate: the answer with a certificate was lost, and the agent asks again with the same key. It gets that certificate while
// there is time left to use it. Later it is refused, and gets a new one with another key.
func TestFetchedTooLate(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s.beats(n)
	csr := newCSR(t, newKey(t), named(n.id))
	_, first := s.renew(n, csr)
	s.clock.Forward(authority.DefaultTTL * 9 / 10)
	if _, again := s.renew(n, csr); again.Certificate != first.Certificate {
		t.Error("in time: got another certificate")
	}
	s.clock.Forward(time.Second)
	late, _ := s.renew(n, csr)
	s.want("too late", late, 409, wire.CodeKeyInUse)
	s.clock.Forward(48 * time.Hour)
	late, _ = s.renew(n, csr)
	s.want("days too late", late, 409, wire.CodeKeyInUse)
	s.want("with a new key", s.beats(s.renewed(n)), 200, "ok")
}

// gate is an issuer that holds its callers until wait lets them go on.
type gate struct {
	authority.Issuer
	wait func()
}

func (g gate) Issue(ctx context.Context, r authority.Request) (store.Certificate, error) {
	g.wait()
	return g.Issuer.Issue(ctx, r)
}

// TestSameRenewalAtOnce: a retry that overtakes its first attempt gets the same certificate. All attempts get as far as the
// issuer before one of them is recorded.
func TestSameRenewalAtOnce(t *testing.T) {
	const attempts = 4
	var closed atomic.Bool
	var arrived sync.WaitGroup
	arrived.Add(attempts)
	s := newSite(t, func(c *nodeapi.Config) {
		c.Issuer = gate{c.Issuer, func() {
			if closed.Load() {
				arrived.Done()
				arrived.Wait()
			}
		}}
	})
	n := s.enrol("box")
	s.beats(n)
	closed.Store(true)
	body := encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), named(n.id))})
	got := make([]string, attempts)
	var wait sync.WaitGroup
	for i := range attempts {
		wait.Go(func() {
			a := s.plainly(n, wire.RenewPath(n.id), body)
			var renewed wire.RenewAnswer
			if err := json.Unmarshal(a.body, &renewed); err != nil || a.status != http.StatusOK {
				t.Errorf("got %d %s", a.status, a.body)
			}
			got[i] = renewed.Certificate
		})
	}
	wait.Wait()
	for _, certificate := range got {
		if certificate != got[0] {
			t.Errorf("got different certificates, want one")
		}
	}
}

// TestExpired: an expired certificate is good for its renewal alone, and only within the grace, by both ways of proof.
func TestExpired(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	gone := s.enrol("gone")
	s.clock.Forward(authority.DefaultTTL + time.Second)
	s.want("a heartbeat", s.beats(n), 403, wire.CodeExpired)
	s.want("leaving", s.plainly(n, wire.LeavePath(n.id), nil), 403, wire.CodeExpired)
	direct := newRequest(t, http.MethodPost, s.tls.URL+wire.HeartbeatPath(n.id), beat(1))
	s.want("a heartbeat with the certificate", s.do(s.direct(&n), direct), 403, wire.CodeExpired)
	s.want("the next one's heartbeat", s.beats(s.renewed(n)), 200, "ok")
	s.clock.Forward(grace)
	a, _ := s.renew(gone, newCSR(t, newKey(t), named(gone.id)))
	s.want("after the grace", a, 403, wire.CodeExpired)
}

func TestLeave(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s.beats(n)
	if s.releases.Updating(n.id) == nil {
		t.Error("it belongs to no channel")
	}
	a := s.plainly(n, wire.LeavePath(n.id), nil)
	if got := s.releases.Updating(n.id); got != nil {
		t.Errorf("a rollout still counts it: %+v", got)
	}
	if a.status != http.StatusOK || string(a.body) != "{\"state\":\"retired\"}\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	s.want("a heartbeat", s.beats(n), 403, wire.CodeRetired)
	s.want("leaving again", s.plainly(n, wire.LeavePath(n.id), nil), 403, wire.CodeRetired)
	renewal, _ := s.renew(n, newCSR(t, newKey(t), named(n.id)))
	s.want("a renewal", renewal, 403, wire.CodeRetired)
	events := s.events("node.retired")
	if len(events) != 1 || events[0].Actor != "node:"+n.id || events[0].Address != "127.0.0.1" {
		t.Errorf("got events %+v", events)
	}
	if next := s.enrol("box"); next.id == n.id {
		t.Error("the name's next holder is the old node")
	}
}
