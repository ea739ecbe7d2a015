package stepca_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"net"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/store"
)

func TestTokenAndCertificate(t *testing.T) {
	for _, kind := range []string{"JWK", "X5C"} {
		t.Run(kind, func(t *testing.T) {
			f := newFake(t)
			if kind == "X5C" {
				f.x5c(time.Now().Add(48 * time.Hour))
			}
			csr := newCSR(t, x509.CertificateRequest{})
			issued, err := f.open().Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: csr})
			if err != nil {
				t.Fatal(err)
			}
			checkToken(t, f, f.orders[0], kind, csr)
			leaf := leafOf(t, issued.Chain)
			if !csr.PublicKey.(*ecdsa.PublicKey).Equal(leaf.PublicKey) || leaf.URIs[0].String() != nodeURI {
				t.Errorf("leaf: %v %v", leaf.URIs, leaf.PublicKey)
			}
			want := certificatePEM(leaf) + certificatePEM(f.issuer.certificate) + certificatePEM(f.root.certificate)
			if issued.Chain != want {
				t.Errorf("chain, want leaf, intermediate and root:\n%s", issued.Chain)
			}
			if row := store.NewCertificate(leaf.Raw, leaf.RawSubjectPublicKeyInfo, leaf.NotBefore, leaf.NotAfter, want); !reflect.DeepEqual(issued,
				row) {
				t.Errorf("got the row %+v, want %+v", issued, row)
			}
		})
	}
}

func checkToken(t *testing.T, f *fakeCA, o order, kind string, csr *x509.CertificateRequest) {
	t.Helper()
	c := o.claims
	sum := sha256.Sum256(csr.Raw)
	switch {
	case o.header.Alg != "ES256" || o.header.Typ != "JWT":
		t.Errorf("header: %+v", o.header)
	case kind == "JWK" && (o.header.Kid == "" || o.header.X5C != nil || c.Aud != caURL+"/1.0/sign"):
		t.Errorf("JWK: %+v, aud %s", o.header, c.Aud)
	case kind == "X5C" && (o.header.Kid != "" || len(o.header.X5C) != 1 || c.Aud != caURL+"/1.0/sign#x5c/nodes"):
		t.Errorf("X5C: %+v, aud %s", o.header, c.Aud)
	case c.Iss != provider || c.Sub != nodeID || !slices.Equal(c.Sans, []string{nodeURI}) || len(c.JTI) != 32:
		t.Errorf("claims: %+v", c)
	case c.Nbf != c.Iat || c.Exp-c.Iat != 300 || time.Since(time.Unix(c.Iat, 0)) > time.Minute:
		t.Errorf("times: %+v", c)
	case c.Cnf["x5rt#S256"] != base64.RawURLEncoding.EncodeToString(sum[:]):
		t.Errorf("not bound to the request: %v", c.Cnf)
	case !slices.Equal(csr.Raw, o.csr.Raw):
		t.Error("the request is not the node's")
	case o.NotAfter != "1h0m0s":
		t.Errorf("notAfter %s", o.NotAfter)
	}
	if kind == "X5C" {
		der, err := base64.StdEncoding.DecodeString(o.header.X5C[0])
		leaf, parsed := x509.ParseCertificate(der)
		if err != nil || parsed != nil || !f.key.PublicKey.Equal(leaf.PublicKey) {
			t.Errorf("x5c: %v, %v", err, parsed)
		}
	}
}

// TestRequestsThatStepCATakes are those whose names are none, or just what the token says.
func TestRequestsThatStepCATakes(t *testing.T) {
	uri, _ := url.Parse(nodeURI)
	for name, template := range map[string]x509.CertificateRequest{
		"no names":     {},
		"id as name":   {Subject: pkix.Name{CommonName: nodeID}},
		"id and a URI": {Subject: pkix.Name{CommonName: nodeID}, URIs: []*url.URL{uri}},
	} {
		f := newFake(t)
		if _, err := f.open().Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(t, template)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrdersThatAreNotSent(t *testing.T) {
	csr := newCSR(t, x509.CertificateRequest{})
	named := newCSR(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "box"}})
	for name, test := range map[string]struct {
		request authority.Request
		want    string
	}{
		"another common name":  {authority.Request{NodeID: nodeID, CSR: named}, `"box"`},
		"no request":           {authority.Request{NodeID: nodeID}, "needs a certificate request"},
		"no node":              {authority.Request{CSR: csr}, "node id"},
		"a path as node":       {authority.Request{NodeID: "n/../m", CSR: csr}, "node id"},
		"a query in the node":  {authority.Request{NodeID: "n?m", CSR: csr}, "node id"},
		"a node of 65 letters": {authority.Request{NodeID: strings.Repeat("n", 65), CSR: csr}, "node id"},
		"too short a life":     {authority.Request{NodeID: nodeID, CSR: csr, TTL: time.Second}, "lifetime"},
		"too long a life":      {authority.Request{NodeID: nodeID, CSR: csr, TTL: 1000 * time.Hour}, "lifetime"},
	} {
		f := newFake(t)
		_, err := f.open().Issue(t.Context(), test.request)
		wantError(t, err, test.want)
		var detail *wire.ErrorDetail
		if csrAtFault := errors.Is(err, authority.ErrBadCSR); csrAtFault != (test.request.CSR == named) || csrAtFault &&
			(!errors.As(err, &detail) || detail.Code != wire.CodeBadCSR) {
			t.Errorf("%s: %v, bad CSR: %v", name, err, csrAtFault)
		}
		if f.count() != 0 {
			t.Errorf("%s: step-ca was asked", name)
		}
	}
}

// TestCertificatesThatAreNotBelieved gives what a template or a foreign CA may make.
func TestCertificatesThatAreNotBelieved(t *testing.T) {
	other, _ := url.Parse("spiffe://muster-1/node/n-2")
	for _, test := range []struct {
		name     string
		template func(*x509.Certificate)
		want     string
	}{
		{"another key", func(c *x509.Certificate) { c.PublicKey = &newKey(t).PublicKey }, "another key"},
		{"another common name", func(c *x509.Certificate) { c.Subject.CommonName = "n-2" }, "its subject"},
		{"more in the subject", func(c *x509.Certificate) { c.Subject.Organization = []string{"Example"} }, "authority.template"},
		{"another URI", func(c *x509.Certificate) { c.URIs[0] = other }, "alternative names"},
		{"a second URI", func(c *x509.Certificate) { c.URIs = append(c.URIs, other) }, "alternative names"},
		{"a host besides", func(c *x509.Certificate) { c.DNSNames = []string{"n-1"} }, "alternative names"},
		{"no URI", func(c *x509.Certificate) { c.URIs = nil }, "alternative names"},
		{"a CA", func(c *x509.Certificate) { c.IsCA = true; c.BasicConstraintsValid = true }, "it is a CA's"},
		{"signs certificates", func(c *x509.Certificate) {
			c.KeyUsage |= x509.KeyUsageCertSign
			c.IsCA = true
			c.BasicConstraintsValid = true
		}, "it is a CA's"},
		{"no signatures", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }, "digital signatures"},
		{"not for clients", func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, "not for clients"},
		{"lives too long", func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(2 * time.Minute) }, "longer than the 1h0m0s"},
		{"over already", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }, "set the clocks"},
		{"not yet good", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(5 * time.Minute) }, "set the clocks"},
	} {
		f := newFake(t)
		f.template = test.template
		_, err := f.issue()
		wantError(t, err, "step-ca at "+caURL, "cannot be used", test.want)
		checkUnavailable(t, err)
		if clock := strings.Contains(test.want, "clock"); errors.Is(err, authority.ErrClock) != clock {
			t.Errorf("%s: a matter of the clock: %v", test.name, !clock)
		}
		if f.count() != 1 {
			t.Errorf("%s: %d orders", test.name, f.count())
		}
	}
}

func checkUnavailable(t *testing.T, err error) {
	t.Helper()
	var detail *wire.ErrorDetail
	if !errors.As(err, &detail) || detail.Code != wire.CodeUnavailable || strings.Contains(detail.Error(), caURL) {
		t.Errorf("for the node: %+v, want that the CA is unavailable and no more", detail)
	}
}

func TestAShorterLifeIsTaken(t *testing.T) {
	f := newFake(t)
	f.template = func(c *x509.Certificate) {
		c.NotAfter = time.Now().Add(10 * time.Minute)
		c.NotBefore = time.Now().Add(30 * time.Second)
	}
	issued, err := f.issue()
	if err != nil || time.Until(issued.NotAfter) > 10*time.Minute {
		t.Errorf("%v, %+v", err, issued)
	}
}

func TestChainToAnotherRoot(t *testing.T) {
	f := newFake(t)
	f.issuer = newCA(t, "intermediate", newCA(t, "root", pair{}))
	_, err := f.issue()
	wantError(t, err, "does not chain to the configured root")
	checkUnavailable(t, err)
}

// TestServerAuth expects one warning about step-ca's default template, however many certificates follow.
func TestServerAuth(t *testing.T) {
	f := newFake(t)
	issuer := f.open()
	for range 3 {
		if _, err := issuer.Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.log.count("extKeyUsage clientAuth alone"); got != 1 {
		t.Errorf("%d warnings, want 1", got)
	}
	f = newFake(t)
	f.template = func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	if _, err := f.issue(); err != nil || f.log.count("clientAuth") != 0 {
		t.Errorf("for clients alone: %v, %d warnings", err, f.log.count("clientAuth"))
	}
}

// TestOverTLS goes through the client that New makes.
func TestOverTLS(t *testing.T) {
	f := newFake(t)
	server := httptest.NewUnstartedServer(f)
	key := newKey(t)
	leaf := signed(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}, &key.PublicKey, f.issuer)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, f.issuer.certificate.Raw}, PrivateKey: key}}}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	f.config.Client = nil
	f.config.URL = server.URL
	issuer := f.open()
	if err := issuer.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := issuer.Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})}); err != nil {
		t.Error(err)
	}
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	f.config.URL = "https://localhost:" + port
	wantError(t, f.open().Check(t.Context()), "is for another host", "dnsNames")

	f.config.URL = server.URL
	f.config.RootFile = f.file("other.pem", certificatePEM(newCA(t, "root", pair{}).certificate))
	wantError(t, f.open().Check(t.Context()), "does not chain to the configured root", "root file")
	_, err := f.issue()
	wantError(t, err, "does not chain to the configured root")
}

func TestRoots(t *testing.T) {
	f := newFake(t)
	second := newCA(t, "next root", pair{}).certificate
	f.file("root.pem", certificatePEM(f.root.certificate)+certificatePEM(second))
	got := f.open().Roots()
	if len(got) != 2 || !got[0].Equal(f.root.certificate) || !got[1].Equal(second) {
		t.Errorf("%d roots", len(got))
	}
}

// TestX5CEnds asks for no more than the gateway's own certificate has left.
func TestX5CEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		end := time.Now().Add(30 * time.Minute).Truncate(time.Second)
		f.x5c(end)
		f.template = func(c *x509.Certificate) { c.NotAfter = end }
		issuer := f.open()
		ask := func() error {
			_, err := issuer.Issue(t.Context(), authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})})
			return err
		}
		if err := ask(); err != nil || f.orders[0].NotAfter != end.UTC().Format(time.RFC3339) {
			t.Errorf("%v, asked for %+v", err, f.orders)
		}
		time.Sleep(time.Hour) // of the bubble
		wantError(t, ask(), "X5C certificate of the gateway expired", "step ca renew")
		if f.count() != 1 {
			t.Error("step-ca was asked with an expired certificate")
		}
		f.x5c(time.Now().Add(48 * time.Hour))
		f.template = nil
		time.Sleep(2 * time.Second)
		if err := ask(); err != nil || f.orders[1].NotAfter != "1h0m0s" {
			t.Errorf("after its renewal: %v", err)
		}
	})
}
