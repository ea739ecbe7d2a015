package nodeapi_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
	"muster/store"
)

// directly sends a heartbeat with the node's client certificate.
func (s *site) directly(client *http.Client, n node) answer {
	s.t.Helper()
	return s.do(client, newRequest(s.t, http.MethodPost, s.tls.URL+wire.HeartbeatPath(n.id), beat(1)))
}

func (s *site) shown(name string) fleet.Node {
	s.t.Helper()
	n, err := s.fleet.Node(s.t.Context(), "", name)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *site) conflicted(name string) bool {
	s.t.Helper()
	n := s.shown(name)
	return len(n.Reasons) == 1 && n.Reasons[0].Reason == wire.ReasonConflict && n.State == "unavailable"
}

// TestSuperseded: a certificate is used after its successor was, on both transports.
func TestSuperseded(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct %v", direct), func(t *testing.T) {
			s := newSite(t, nil)
			n := s.enrol("box")
			other := s.enrol("other")
			use := func(n node) answer {
				if direct {
					return s.directly(s.direct(&n), n)
				}
				return s.beats(n)
			}
			s.want("the first", use(n), 200, "ok")
			next := s.renewed(n)
			s.want("the old one before", use(n), 200, "ok")
			s.want("the new one", use(next), 200, "ok")
			s.clock.Forward(time.Minute)
			s.want("the old one a minute later", use(n), 401, wire.CodeSupersededRetry)
			if s.conflicted("box") {
				t.Fatal("a stray within a minute closed the node")
			}
			s.clock.Forward(time.Second)
			s.want("the old one, later", use(n), 200, "ok")
			if !s.conflicted("box") {
				t.Errorf("got %+v, want a conflict", s.shown("box"))
			}
			told := use(next)
			s.want("the new one's heartbeat", told, 200, "ok")
			if !strings.Contains(string(told.body), `"state":"unavailable","state_reasons":["identity_conflict"]`) {
				t.Errorf("the node is not told why it is closed: %s", told.body)
			}
			others := use(other)
			s.want("another node", others, 200, "ok")
			if strings.Contains(string(others.body), "state_reasons") {
				t.Errorf("a node that nothing holds back is told %s", others.body)
			}
			for who, one := range map[string]node{"old": n, "new": next} {
				a, _ := s.renew(one, newCSR(t, newKey(t), named(n.id)))
				s.want(who+", a renewal", a, 403, wire.CodeIdentityConflict)
				s.want(who+", leaving", s.plainly(one, wire.LeavePath(n.id), nil), 403, wire.CodeIdentityConflict)
			}
			if _, err := s.fleet.AllowRecovery(t.Context(), "", "box", api.RecoveryRequest{Fingerprint: n.signer.Fingerprint},
				store.Actor{}); err != nil {
				t.Fatal(err)
			}
			s.want("the chosen one", use(n), 200, "ok")
			s.want("the other one", use(next), 403, wire.CodeRevoked)
			s.want("the chosen one's renewal", use(s.renewed(n)), 200, "ok")
		})
	}
}

// TestReplayedStray: a request that somebody recorded and sends again does not close a node. A request that the key did not sign does
// not either.
func TestReplayedStray(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s.beats(n)
	next := s.renewed(n)
	s.beats(next)
	s.clock.Forward(10 * time.Minute)
	for _, c := range []struct {
		name   string
		send   func() answer
		status int
		code   string
	}{
		{"signed ten minutes ago", func() answer { return s.at(n, wire.HeartbeatPath(n.id), s.clock.Now().Add(-10*time.Minute), epoch) }, 401,
			wire.CodeClockSkew},
		{"for the gateway's start before", func() answer { return s.at(n, wire.HeartbeatPath(n.id), s.clock.Now(), "epoch0") }, 401,
			wire.CodeStaleNonce},
		{"not by its key", func() answer {
			forged := n
			forged.signer.Key = newKey(t)
			return s.beats(forged)
		}, 401, wire.CodeBadSignature},
		{"for another node's path", func() answer { return s.plainly(n, wire.HeartbeatPath("n-0123456789abcdef"), beat(1)) }, 403,
			wire.CodeWrongNode},
	} {
		s.want(c.name, c.send(), c.status, c.code)
		if s.conflicted("box") {
			t.Fatalf("%s: it closed the node", c.name)
		}
	}
}

// TestStrayOnAnOldConnection: the old certificate on a connection that was open before the renewal is refused, but for longer than
// elsewhere it is no evidence of a copy.
func TestStrayOnAnOldConnection(t *testing.T) {
	s := newSite(t, nil)
	api := nodeapi.New(s.config)
	mux := http.NewServeMux()
	api.Routes(mux)
	server := httptest.NewUnstartedServer(s.config.Info.Strict(mux))
	server.Config.ConnContext = api.Connected
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.tls = server
	n := s.enrol("box")
	open := s.direct(&n)
	s.want("the first", s.directly(open, n), 200, "ok")
	s.clock.Forward(time.Second)
	next := s.renewed(n)
	s.want("the new one", s.directly(s.direct(&next), next), 200, "ok")
	s.clock.Forward(2 * time.Minute)
	s.want("on the connection of before", s.directly(open, n), 401, wire.CodeSupersededRetry)
	if s.conflicted("box") {
		t.Fatal("a pooled connection closed the node")
	}
	s.want("on a new one", s.directly(s.direct(&n), n), 200, "ok")
	if !s.conflicted("box") {
		t.Errorf("got %+v, want a conflict", s.shown("box"))
	}
}

// TestCertificatesThatProveNothing: a certificate of another gateway, one that our CA signed but that is not on record, and one of a
// retired node.
func TestCertificatesThatProveNothing(t *testing.T) {
	s := newSite(t, nil)
	elsewhere := newSite(t, nil)
	n := s.enrol("box")
	gone := s.enrol("gone")
	key := newKey(t)
	forged := n
	csr, err := authority.CheckCSR(newCSR(t, key, named(n.id)), authority.Subject{Names: []string{n.id}})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := s.ca.Issue(t.Context(), authority.Request{NodeID: n.id, CSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	forged.chain = issued.Chain
	forged.signer.Key = key
	forged.signer.Fingerprint = fingerprint(t, issued.Chain)
	if _, err := s.fleet.Apply(t.Context(), "", "gone", fleet.Retire, store.Actor{}); err != nil {
		t.Fatal(err)
	}
	foreign := elsewhere.enrol("box")
	for _, c := range []struct {
		name   string
		n      node
		status int
		code   string
	}{
		{"of another gateway", foreign, 401, wire.CodeUnknownCertificate},
		{"of our own CA, not on record", forged, 401, wire.CodeUnknownCertificate},
		{"of a retired node", gone, 403, wire.CodeRetired},
	} {
		s.want(c.name+", a heartbeat", s.beats(c.n), c.status, c.code)
		s.want(c.name+", directly", s.directly(s.direct(&c.n), c.n), c.status, c.code)
		a, _ := s.renew(c.n, newCSR(t, newKey(t), named(c.n.id)))
		s.want(c.name+", a renewal", a, c.status, c.code)
	}
}

// TestExpiryToTheSecond: a certificate is good in its last second, and can renew in the last second of the grace. A second later each is
// refused, on both transports.
func TestExpiryToTheSecond(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s.beats(n)
	renewal := func(direct bool) answer {
		body := encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), named(n.id))})
		if direct {
			return s.do(s.direct(&n), newRequest(t, http.MethodPost, s.tls.URL+wire.RenewPath(n.id), body))
		}
		return s.plainly(n, wire.RenewPath(n.id), body)
	}
	for _, direct := range []bool{false, true} {
		s.clock.Forward(start.Add(authority.DefaultTTL).Sub(s.clock.Now()))
		s.want("in its last second", s.beats(n), 200, "ok")
		s.clock.Forward(time.Second)
		s.want("a second later", s.beats(n), 403, wire.CodeExpired)
		s.want("its renewal", renewal(direct), 200, "ok")
		s.clock.Forward(grace - time.Second)
		s.want("in the window's last second", renewal(direct), 200, "ok")
		s.clock.Forward(time.Second)
		late := renewal(direct)
		s.want("a second later", late, 403, wire.CodeExpired)
		if !strings.Contains(late.Error.Error.Hint, "muster node allow-recovery box") {
			t.Errorf("the hint is %q", late.Error.Error.Hint)
		}
		s.clock.Forward(-grace - time.Hour)
	}
	if got := s.shown("box").Recoveries; got != 4 {
		t.Errorf("%d recoveries counted, want 4", got)
	}
}
