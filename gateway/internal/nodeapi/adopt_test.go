package nodeapi_test

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// issued is a node's certificate that is not on record, as after a restore.
func (s *site) issued(ca *authority.Authority, nodeID string, ttl time.Duration) node {
	s.t.Helper()
	key := newKey(s.t)
	csr, err := authority.CheckCSR(newCSR(s.t, key, x509.CertificateRequest{}), authority.Subject{})
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := ca.Issue(s.t.Context(), authority.Request{NodeID: nodeID, CSR: csr, TTL: ttl})
	if err != nil {
		s.t.Fatal(err)
	}
	return node{id: nodeID, chain: got.Chain, signer: sign.Signer{Key: key, Fingerprint: fingerprint(s.t, got.Chain)}}
}

// restored notes a restore from a backup of an hour ago.
func (s *site) restored() {
	s.t.Helper()
	now := s.clock.Now()
	if err := s.store.NoteRestore(s.t.Context(),
		store.Restoration{At: now, BackupAt: now.Add(-time.Hour), AdoptUntil: now.Add(grace)}); err != nil {
		s.t.Fatal(err)
	}
}

func shown(n node) wire.AdoptRequest { return wire.AdoptRequest{Certificate: n.chain, Generation: 7} }

func (s *site) eventsOf(kind string) []store.Event {
	s.t.Helper()
	events, err := s.store.Events(s.t.Context(), store.EventQuery{Kind: kind})
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// TestAdopt: a certificate issued since the backup is taken over once, signed or over TLS, and the node goes on with it.
func TestAdopt(t *testing.T) {
	for _, direct := range []bool{false, true} {
		s := newSite(t, nil)
		old := s.enrol("one")
		s.clock.Forward(2 * time.Hour)
		s.restored()
		n := s.issued(s.ca, old.id, 0)
		s.want("before", s.plainly(n, wire.HeartbeatPath(n.id), beat(1)), 401, wire.CodeUnknownCertificate)
		var a answer
		if direct {
			r := newRequest(t, http.MethodPost, s.tls.URL+wire.AdoptPath(n.id), encode(t, shown(n)))
			a = s.do(s.direct(&n), r)
		} else {
			a = s.plainly(n, wire.AdoptPath(n.id), encode(t, shown(n)))
		}
		if a.status != 200 || !strings.Contains(string(a.body), `"generation":7`) {
			t.Fatalf("direct %t: %d %s", direct, a.status, a.body)
		}
		again := s.plainly(n, wire.AdoptPath(n.id), encode(t, shown(n))) // the first answer was lost
		if again.status != 200 || !strings.Contains(string(again.body), `"generation":7`) {
			t.Errorf("the same one again: %d %s", again.status, again.body)
		}
		if a := s.plainly(n, wire.HeartbeatPath(n.id), beat(2)); a.status != 200 {
			t.Errorf("a heartbeat afterwards: %d %s", a.status, a.body)
		}
		s.want("the certificate of before", s.plainly(old, wire.HeartbeatPath(n.id), beat(3)), 403, wire.CodeRevoked)
		s.want("a second one", s.plainly(s.issued(s.ca, old.id, 0), wire.AdoptPath(n.id), encode(t, shown(s.issued(s.ca, old.id, 0)))), 401,
			wire.CodeIdentityMismatch)
		other := s.issued(s.ca, old.id, 0)
		s.want("a second one", s.plainly(other, wire.AdoptPath(n.id), encode(t, shown(other))), 401, wire.CodeUnknownCertificate)
		taken := s.eventsOf("node.adopted")
		refused := s.eventsOf("adopt.refused")
		if len(taken) != 1 || len(refused) != 1 ||
			!taken[0].Security || taken[0].Detail["fingerprint"] != n.signer.Fingerprint {
			t.Errorf("events: %+v, %+v", taken, refused)
		}
		renewal := newKey(t)
		if a := s.plainly(n, wire.RenewPath(n.id),
			encode(t, wire.RenewRequest{CSR: newCSR(t, renewal, x509.CertificateRequest{})})); a.status != 200 ||
			!strings.Contains(string(a.body), `"generation":8`) {
			t.Errorf("a renewal afterwards: %d %s", a.status, a.body)
		}
		if _, err := s.fleet.Apply(t.Context(), "", old.id, fleet.Retire, store.Actor{Name: "operator:socket"}); err != nil {
			t.Fatal(err)
		}
		s.want("of a node that is retired", s.plainly(n, wire.AdoptPath(n.id), encode(t, shown(n))), 401, wire.CodeUnknownCertificate)
	}
}

// TestAdoptExpired: a certificate that has expired meanwhile is taken over within the grace, and renews.
func TestAdoptExpired(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newSite(t, nil)
		old := s.enrol("one")
		s.clock.Forward(2 * time.Hour)
		n := s.issued(s.ca, old.id, time.Hour)
		s.restored()
		s.clock.Forward(time.Hour + grace/2)
		if late {
			s.clock.Forward(grace / 2)
			s.restored()
		}
		a := s.plainly(n, wire.AdoptPath(n.id), encode(t, shown(n)))
		if late {
			s.want("beyond the grace", a, 401, wire.CodeUnknownCertificate)
			continue
		}
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if a := s.plainly(n, wire.RenewPath(n.id),
			encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), x509.CertificateRequest{})})); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestAdoptRefuses(t *testing.T) {
	for _, attempts := range []map[string]adoptAttempt{wrongCertificates(t), wrongRequests(t)} {
		for name, c := range attempts {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, nil)
				old := s.enrol("one")
				s.clock.Forward(2 * time.Hour)
				s.want(name, c.try(s, old.id), c.status, c.code)
				if taken := s.eventsOf("node.adopted"); len(taken) > 0 {
					t.Errorf("it was taken: %+v", taken)
				}
			})
		}
	}
}

// adoptAttempt is a request that adopts no certificate.
type adoptAttempt struct {
	status int
	code   string
	try    func(s *site, id string) answer
}

// wrongCertificates are attempts whose proof is right, with a certificate that must not be taken over.
func wrongCertificates(t *testing.T) map[string]adoptAttempt {
	elsewhere := newSite(t, nil)
	return map[string]adoptAttempt{
		"no restore": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"the time is up": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			s.restored()
			s.clock.Forward(grace)
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"issued before the backup": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			n := s.issued(s.ca, id, 30*24*time.Hour)
			s.clock.Forward(time.Hour + time.Second)
			s.restored()
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"another node's": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			s.restored()
			n := s.issued(s.ca, "n-other", 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"a node that the backup does not know": {401, wire.CodeUnknownCertificate, func(s *site, _ string) answer {
			s.restored()
			n := s.issued(s.ca, "n-other", 0)
			return s.plainly(n, wire.AdoptPath("n-other"), encode(t, shown(n)))
		}},
		"a node's name for its id": {401, wire.CodeUnknownCertificate, func(s *site, _ string) answer {
			s.restored()
			n := s.issued(s.ca, "one", 0)
			return s.plainly(n, wire.AdoptPath("one"), encode(t, shown(n)))
		}},
		"a retired node": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			s.restored()
			if _, err := s.fleet.Apply(t.Context(), "", id, fleet.Retire, store.Actor{Name: "operator:socket"}); err != nil {
				t.Fatal(err)
			}
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"another gateway's certificate": {401, wire.CodeUnknownCertificate, func(s *site, id string) answer {
			s.restored()
			n := s.issued(elsewhere.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
	}
}

// wrongRequests are attempts with a certificate that would be taken over, or with none. Their proof or their form is wrong.
func wrongRequests(t *testing.T) map[string]adoptAttempt {
	return map[string]adoptAttempt{
		"no proof": {401, wire.CodeNoIdentity, func(s *site, id string) answer {
			s.restored()
			r := newRequest(t, http.MethodPost, s.plain.URL+wire.AdoptPath(id), encode(t, shown(s.issued(s.ca, id, 0))))
			return s.do(http.DefaultClient, r)
		}},
		"another's proof": {401, wire.CodeIdentityMismatch, func(s *site, id string) answer {
			s.restored()
			return s.plainly(s.issued(s.ca, id, 0), wire.AdoptPath(id), encode(t, shown(s.issued(s.ca, id, 0))))
		}},
		"another's key": {401, wire.CodeBadSignature, func(s *site, id string) answer {
			s.restored()
			n := s.issued(s.ca, id, 0)
			n.signer.Key = newKey(t)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)))
		}},
		"a request of long ago": {401, wire.CodeClockSkew, func(s *site, id string) answer {
			s.restored()
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, shown(n)), func(*http.Request) { s.clock.Forward(2 * time.Minute) })
		}},
		"half a signature": {401, wire.CodeBadSignature, func(s *site, id string) answer {
			s.restored()
			r := newRequest(t, http.MethodPost, s.plain.URL+wire.AdoptPath(id), encode(t, shown(s.issued(s.ca, id, 0))))
			r.Header.Set("Signature-Input", "x")
			return s.do(http.DefaultClient, r)
		}},
		"no certificate": {400, wire.CodeBadRequest, func(s *site, id string) answer {
			return s.plainly(s.issued(s.ca, id, 0), wire.AdoptPath(id), encode(t, wire.AdoptRequest{Certificate: "x"}))
		}},
		"no JSON": {400, wire.CodeBadRequest, func(s *site, id string) answer {
			return s.plainly(s.issued(s.ca, id, 0), wire.AdoptPath(id), []byte("{"))
		}},
		"a wild generation": {400, wire.CodeBadRequest, func(s *site, id string) answer {
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, wire.AdoptRequest{Certificate: n.chain, Generation: -1}))
		}},
		"too long a body": {413, wire.CodeBodyTooLarge, func(s *site, id string) answer {
			n := s.issued(s.ca, id, 0)
			return s.plainly(n, wire.AdoptPath(id), encode(t, wire.AdoptRequest{Certificate: strings.Repeat("x", 65<<10)}))
		}},
	}
}

// TestAdoptOnABrokenStore: where the database is away, the answer is an error of the gateway and no verdict on the node.
func TestAdoptOnABrokenStore(t *testing.T) {
	s := newSite(t, nil)
	old := s.enrol("one")
	n := s.issued(s.ca, old.id, 0)
	if err := s.store.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
		t.Fatal(err)
	}
	if a := s.plainly(n, wire.AdoptPath(n.id), encode(t, shown(n))); a.status != 500 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// FuzzAdopt: whatever the body is, the gateway takes no certificate over and answers with a refusal.
func FuzzAdopt(f *testing.F) {
	s := newSite(f, nil)
	s.restored()
	n := s.issued(s.ca, "n-1", 0)
	for _, seed := range []string{string(encode(f, shown(n))), `{"certificate":"` + strings.Repeat("A", 70) + `","generation":1}`,
		`{"generation":1e9}`, "null", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newRequest(t, http.MethodPost, "http://gw"+wire.AdoptPath("n-1"), body)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("status %d %s", w.Code, w.Body)
		}
	})
}
