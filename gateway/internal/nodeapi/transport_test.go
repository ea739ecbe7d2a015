package nodeapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/nodeapi"
)

// TestTransports: a client certificate and a signature are equal; together they must agree.
func TestTransports(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	other := s.enrol("other")
	path := wire.HeartbeatPath(n.id)
	unsigned := func(client *http.Client, base string) answer {
		return s.do(client, newRequest(t, http.MethodPost, base+path, beat(1)))
	}
	foreign := newSite(t, nil).enrol("box")
	s.want("the certificate alone", unsigned(s.direct(&n), s.tls.URL), 200, "ok")
	s.want("the signature alone", s.plainly(n, path, beat(2)), 200, "ok")
	s.want("the signature alone, over TLS", s.signed(s.direct(nil), s.tls.URL, n, path, beat(3)), 200, "ok")
	s.want("both", s.signed(s.direct(&n), s.tls.URL, n, path, beat(4)), 200, "ok")
	s.want("both, which differ", s.signed(s.direct(&other), s.tls.URL, n, path, beat(5)), 401, wire.CodeIdentityMismatch)
	s.want("neither", unsigned(http.DefaultClient, s.plain.URL), 401, wire.CodeNoIdentity)
	s.want("neither, over TLS", unsigned(s.direct(nil), s.tls.URL), 401, wire.CodeNoIdentity)
	s.want("another gateway's certificate", unsigned(s.direct(&foreign), s.tls.URL), 401, wire.CodeUnknownCertificate)
	s.want("the listener's own certificate", unsigned(s.serverAsClient(), s.tls.URL), 401, wire.CodeUnknownCertificate)
	claim := newRequest(t, http.MethodPost, s.plain.URL+path, beat(6))
	for _, header := range []string{"X-Client-Cert-Fingerprint", "X-SSL-Client-Fingerprint", "X-Node-Id", "Keyid"} {
		claim.Header.Set(header, n.signer.Fingerprint)
	}
	s.want("a header that claims an identity", s.do(http.DefaultClient, claim), 401, wire.CodeNoIdentity)
	if got, err := s.fleet.Node(t.Context(), "", n.id); err != nil || got.Counter != 4 || got.State != "active" {
		t.Errorf("got %+v, %v, want counter 4", got, err)
	}
}

// serverAsClient shows a certificate that is valid and not a node's.
func (s *site) serverAsClient() *http.Client {
	c := s.direct(nil)
	c.Transport.(*http.Transport).TLSClientConfig.Certificates = s.tls.TLS.Certificates
	return c
}

func TestHeartbeatAnswer(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	a := s.plainly(n, wire.HeartbeatPath(n.id), beat(1))
	row, err := s.store.Node(t.Context(), "", n.id)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"interval_seconds":30,"state":"active","tasks":0,"enrolment":"` + row.EnrolmentID +
		`","name":"box","channel":"stable","epoch":"epoch1","time":"2026-11-21T12:00:00Z","trust":1}`
	if strings.TrimSpace(string(a.body)) != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
}

// TestGateways: a node hears of all gateways when it joins and with each heartbeat.
func TestGateways(t *testing.T) {
	all := []string{"https://gw1:7443", "https://gw2:7443"}
	s := newSite(t, func(c *nodeapi.Config) { c.Gateways = func() []string { return all } })
	a := s.register(s.token(nil), encode(t, s.application("other", newKey(t))))
	if w := s.welcome(a); !slices.Equal(w.Gateways, all) {
		t.Errorf("the welcome says %s", a.body)
	}
	n := s.enrol("box")
	a = s.plainly(n, wire.HeartbeatPath(n.id), beat(1))
	var answer wire.HeartbeatAnswer
	if err := json.Unmarshal(a.body, &answer); err != nil || !slices.Equal(answer.Gateways, all) {
		t.Errorf("the heartbeat's answer says %s, %v", a.body, err)
	}
}

func TestRequireMTLS(t *testing.T) {
	s := newSite(t, func(c *nodeapi.Config) { c.RequireMTLS = true })
	n := s.enrol("box")
	s.want("a signature", s.plainly(n, wire.HeartbeatPath(n.id), beat(1)), 403, wire.CodeMTLSRequired)
	s.want("a signature to leave", s.plainly(n, wire.LeavePath(n.id), nil), 403, wire.CodeMTLSRequired)
	s.want("a certificate", s.do(s.direct(&n), newRequest(t, http.MethodPost, s.tls.URL+wire.HeartbeatPath(n.id), beat(1))), 200, "ok")
	body := encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), named(n.id))})
	s.want("a signature to renew", s.plainly(n, wire.RenewPath(n.id), body), 200, "ok")
}

// TestSignatureRefusals: each with its own code, and each answer proven.
func TestSignatureRefusals(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	other := s.enrol("other")
	path := wire.HeartbeatPath(n.id)
	late := s.clock.Now().Add(-61 * time.Second)
	early := s.clock.Now().Add(61 * time.Second)
	for _, c := range []struct {
		name   string
		send   func() answer
		status int
		code   string
	}{
		{"60 s old", func() answer { return s.at(n, path, late.Add(time.Second), epoch) }, 200, "ok"},
		{"60 s ahead", func() answer { return s.at(n, path, early.Add(-time.Second), epoch) }, 200, "ok"},
		{"61 s old", func() answer { return s.at(n, path, late, epoch) }, 401, wire.CodeClockSkew},
		{"61 s ahead", func() answer { return s.at(n, path, early, epoch) }, 401, wire.CodeClockSkew},
		{"years old", func() answer { return s.at(n, path, time.Unix(0, 0), epoch) }, 401, wire.CodeClockSkew},
		{"another epoch", func() answer { return s.at(n, path, s.clock.Now(), "epoch0") }, 401, wire.CodeStaleNonce},
		{"no epoch", func() answer { return s.at(n, path, s.clock.Now(), "") }, 401, wire.CodeStaleNonce},
		{"another body", func() answer {
			return s.plainly(n, path, beat(1), func(r *http.Request) { r.Body = io.NopCloser(bytes.NewReader(beat(2))) })
		}, 400, wire.CodeBadDigest},
		{"another digest", func() answer {
			return s.plainly(n, path, beat(1), func(r *http.Request) { r.Header.Set("Content-Digest", sign.ContentDigest(beat(2))) })
		}, 401, wire.CodeBadSignature},
		{"another path", func() answer {
			return s.plainly(n, path, beat(1), func(r *http.Request) { r.URL.Path = wire.LeavePath(n.id) })
		}, 401, wire.CodeBadSignature},
		{"the same path in another spelling", func() answer {
			return s.plainly(n, path, beat(1), func(r *http.Request) { r.URL.RawPath = strings.Replace(path, "heartbeat", "heartbea%74", 1) })
		}, 401, wire.CodeBadSignature},
		{"a query", func() answer { return s.plainly(n, path, beat(1), func(r *http.Request) { r.URL.RawQuery = "x=1" }) }, 401,
			wire.CodeBadSignature},
		{"another method", func() answer { return s.otherMethod(n, path) }, 401, wire.CodeBadSignature},
		{"another key", func() answer {
			forged := node{id: n.id, signer: sign.Signer{Key: other.signer.Key, Fingerprint: n.signer.Fingerprint}}
			return s.plainly(forged, path, beat(1))
		}, 401, wire.CodeBadSignature},
		{"an unknown keyid", func() answer {
			return s.plainly(node{signer: sign.Signer{Key: n.signer.Key, Fingerprint: strings.Repeat("ab", 32)}}, path, beat(1))
		}, 401, wire.CodeUnknownCertificate},
	} {
		s.want(c.name, c.send(), c.status, c.code)
	}
}

// at signs at another time or for another epoch.
func (s *site) at(n node, path string, created time.Time, signedEpoch string) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodPost, s.plain.URL+path, beat(1))
	nonce, err := n.signer.Sign(r, beat(1), signedEpoch, created)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.do(http.DefaultClient, r)
	s.answered(nonce, a)
	return a
}

// otherMethod signs a PUT and sends a POST.
func (s *site) otherMethod(n node, path string) answer {
	s.t.Helper()
	r := newRequest(s.t, http.MethodPut, s.plain.URL+path, beat(1))
	nonce, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	r.Method = http.MethodPost
	a := s.do(http.DefaultClient, r)
	s.answered(nonce, a)
	return a
}

// TestReplay: the same bytes again are refused for as long as their time could be accepted, refused requests included.
func TestReplay(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	var first *http.Request
	keep := func(r *http.Request) { first = r }
	again := func(body []byte) answer {
		r := first.Clone(t.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return s.do(http.DefaultClient, r)
	}
	s.plainly(n, wire.HeartbeatPath(n.id), beat(1), keep)
	s.want("at once", again(beat(1)), 401, wire.CodeReplayed)
	s.fleet.Forget(n.id)
	s.want("when the cache was dropped", again(beat(1)), 401, wire.CodeReplayed)
	s.clock.Forward(time.Minute)
	s.plainly(n, wire.HeartbeatPath(n.id), beat(2))
	s.clock.Forward(0)
	s.want("a minute later", again(beat(1)), 401, wire.CodeReplayed)
	s.clock.Forward(time.Second)
	s.want("when its time is over", again(beat(1)), 401, wire.CodeClockSkew)

	s.want("with another body", s.plainly(n, wire.HeartbeatPath(n.id), beat(1), keep, func(r *http.Request) {
		r.Body = io.NopCloser(bytes.NewReader(beat(2)))
	}), 400, wire.CodeBadDigest)
	s.want("and with its own", again(beat(1)), 401, wire.CodeReplayed)
}

// TestOrderOfChecks: what comes first is answered first, and a bad signature uses no nonce up.
func TestOrderOfChecks(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	path := wire.HeartbeatPath(n.id)
	stranger := node{signer: sign.Signer{Key: newKey(t), Fingerprint: strings.Repeat("ab", 32)}}
	forged := node{signer: sign.Signer{Key: newKey(t), Fingerprint: n.signer.Fingerprint}}
	long := s.clock.Now().Add(time.Hour)
	s.want("an unknown key with a wrong clock", s.at(stranger, path, long, "old"), 401, wire.CodeUnknownCertificate)
	s.want("a wrong clock with a bad signature", s.at(forged, path, long, "old"), 401, wire.CodeClockSkew)
	s.want("a bad signature of another epoch", s.at(forged, path, s.clock.Now(), "old"), 401, wire.CodeBadSignature)
	var kept *http.Request
	s.plainly(n, path, beat(1), func(r *http.Request) {
		kept = r.Clone(t.Context())
		r.URL.RawQuery = "x"
	})
	kept.Body = io.NopCloser(bytes.NewReader(beat(1)))
	s.want("the nonce of a request that was spoilt", s.do(http.DefaultClient, kept), 200, "ok")
}

// TestUnreadableSignatures: their refusals are not proven, because there is no nonce to prove an answer with.
func TestUnreadableSignatures(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	for name, change := range map[string]func(http.Header){
		"no signature":           func(h http.Header) { h.Del("Signature") },
		"no digest":              func(h http.Header) { h.Del("Content-Digest") },
		"two digests":            func(h http.Header) { h.Add("Content-Digest", h.Get("Content-Digest")) },
		"half a header":          func(h http.Header) { h.Set("Signature-Input", h.Get("Signature-Input")[:40]) },
		"two muster signatures":  func(h http.Header) { h.Add("Signature-Input", "b"+h.Get("Signature-Input")) },
		"a signature of 3 bytes": func(h http.Header) { h.Set("Signature", "muster=:AAAA:") },
		"fewer components": func(h http.Header) {
			h.Set("Signature-Input", strings.Replace(h.Get("Signature-Input"), `"@query" `, "", 1))
		},
	} {
		r := newRequest(t, http.MethodPost, s.plain.URL+wire.HeartbeatPath(n.id), beat(1))
		if _, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now()); err != nil {
			t.Fatal(err)
		}
		change(r.Header)
		s.want(name, s.do(http.DefaultClient, r), 401, wire.CodeBadSignature)
	}
}

// TestFlood: a node that keeps too many nonces in flight is told to slow down, and how long.
func TestFlood(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	id, err := s.fleet.Identity(t.Context(), n.signer.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; id.Replay.Take(string(rune(i)), start, start.Add(time.Minute), start) == limit.Fresh; i++ {
		if i > 1<<16 {
			t.Fatal("a node's nonces have no bound")
		}
	}
	a := s.plainly(n, wire.HeartbeatPath(n.id), beat(1))
	s.want("one more", a, 429, wire.CodeTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	s.clock.Forward(time.Minute + time.Second)
	s.want("a minute later", s.plainly(n, wire.HeartbeatPath(n.id), beat(1)), 200, "ok")
}

// proxy ends TLS and hands requests on to the plain listener.
func (s *site) proxy(change func(*http.Request)) *httptest.Server {
	s.t.Helper()
	target, err := url.Parse(s.plain.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	p := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		if change != nil {
			change(r.Out)
		}
	}})
	s.t.Cleanup(p.Close)
	return p
}

// TestBehindAProxy: signatures and proofs pass through something that ends TLS. A request that it changes is refused.
func TestBehindAProxy(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	honest := s.proxy(nil)
	s.want("a heartbeat", s.signed(honest.Client(), honest.URL, n, wire.HeartbeatPath(n.id), beat(1)), 200, "ok")
	s.want("with a client certificate", s.do(s.direct(&n), newRequest(t, http.MethodPost, s.plain.URL+wire.HeartbeatPath(n.id), beat(1))), 401,
		wire.CodeNoIdentity)
	body := encode(t, wire.RenewRequest{CSR: newCSR(t, newKey(t), named(n.id))})
	s.want("a renewal", s.signed(honest.Client(), honest.URL, n, wire.RenewPath(n.id), body), 200, "ok")
	c := s.token(nil)
	raw := encode(t, s.application("newcomer", newKey(t)))
	r := newRequest(t, http.MethodPost, honest.URL+wire.PathRegister, raw)
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, raw))
	a := s.do(honest.Client(), r)
	s.want("an enrolment", a, 201, "ok")
	s.proven(c, raw, a)

	for _, evil := range []struct {
		name   string
		change func(*http.Request)
		status int
		code   string
	}{
		{"another body", func(r *http.Request) {
			changed := bytes.Replace(beat(1), []byte("30"), []byte("31"), 1)
			r.Body = io.NopCloser(bytes.NewReader(changed))
		}, 400, wire.CodeBadDigest},
		{"another path", func(r *http.Request) { r.URL.Path = wire.LeavePath(n.id) }, 401, wire.CodeBadSignature},
		{"another query", func(r *http.Request) { r.URL.RawQuery = "utm=1" }, 401, wire.CodeBadSignature},
		{"another time", func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "created=1", "created=2", 1))
		}, 401, wire.CodeClockSkew},
		{"no signature", func(r *http.Request) { r.Header.Del("Signature-Input") }, 401, wire.CodeNoIdentity},
	} {
		p := s.proxy(evil.change)
		r := newRequest(t, http.MethodPost, p.URL+wire.HeartbeatPath(n.id), beat(1))
		nonce, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		a := s.do(p.Client(), r)
		s.want(evil.name, a, evil.status, evil.code)
		if evil.code != wire.CodeNoIdentity {
			s.answered(nonce, a)
		}
	}
}

// TestProxyThatChangesAnEnrolment: neither the request nor the answer can be touched.
func TestProxyThatChangesAnEnrolment(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	raw := encode(t, s.application("box", newKey(t)))
	swapped := bytes.Replace(raw, []byte(`"box"`), []byte(`"bad"`), 1)
	p := s.proxy(func(r *http.Request) { r.Body = io.NopCloser(bytes.NewReader(swapped)) })
	r := newRequest(t, http.MethodPost, p.URL+wire.PathRegister, raw)
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, raw))
	s.want("another name", s.do(p.Client(), r), 401, wire.CodeBadMAC)
}
