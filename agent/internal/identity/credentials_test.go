package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
)

func TestCheckCertificate(t *testing.T) {
	ca := gatewaytest.NewCA(t, time.Now())
	other := gatewaytest.NewCA(t, time.Now())
	key, _, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	otherKey, _, _ := identity.NewKey()
	now := time.Now()
	_, good := ca.Node(&key.PublicKey, "n1", now, time.Hour)
	_, foreignKey := ca.Node(&otherKey.PublicKey, "n1", now, time.Hour)
	_, expired := ca.Node(&key.PublicKey, "n1", now.Add(-2*time.Hour), time.Hour)
	_, tomorrow := ca.Node(&key.PublicKey, "n1", now.Add(10*time.Hour), time.Hour)
	server := ca.Server(t, now, now.Add(time.Hour), "n1")
	serverPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate[0]}))
	tests := []struct {
		name, chain, node, domain string
		roots                     *gatewaytest.CA
		want                      string // part of the error, empty: good
	}{
		{"good", good, "n1", gatewaytest.Domain, ca, ""},
		{"any domain", good, "n1", "", ca, ""},
		{"another node", good, "n2", "", ca, "it is for"},
		{"a prefix of the node", good, "n", "", ca, "it is for"},
		{"another domain", good, "n1", "elsewhere", ca, "it is for"},
		{"another key", foreignKey, "n1", "", ca, "another key"},
		{"expired", expired, "n1", "", ca, "expired"},
		{"of a gateway whose clock was ahead", tomorrow, "n1", "", ca, ""},
		{"the same of another root", tomorrow, "n1", "", other, "unknown authority"},
		{"another root", good, "n1", "", other, "unknown authority"},
		{"another CA that brings its root", good + ca.RootPEM(), "n1", gatewaytest.Domain, other, ""},
		{"the wrong root brought along", good + other.RootPEM(), "n1", "", other, "unknown authority"},
		{"an intermediate without its root", good + good, "n1", "", other, "unknown authority"},
		{"expired, with its root", expired + ca.RootPEM(), "n1", "", other, "expired"},
		{"a serving certificate", serverPEM, "n1", "", ca, "another key"},
		{"no certificate", "", "n1", "", ca, "no PEM certificate"},
		{"a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "n1", "", ca, "no certificate"},
	}
	for _, test := range tests {
		leaf, err := identity.CheckCertificate(test.chain, identity.Wanted{
			Key: key, Roots: test.roots.RootPEM(), NodeID: test.node, TrustDomain: test.domain, Now: now,
		})
		if test.want == "" && (err != nil || leaf == nil) {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.want != "" && (!errors.Is(err, identity.ErrBadCertificate) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestIssuedAt(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ notBefore, notAfter, answered, want int }{ // minutes from noon
		{-5, 1440, 0, 0},
		{-5, 1440, 600, 0}, // a recorded answer, hours later
		{-1, 1440, 0, 0},   // backdated less
		{-5, 1440, -30, 0}, // a time before the certificate
		{-5, -2, 600, -5},  // shorter than the backdating
	} {
		at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
		got := identity.IssuedAt(&x509.Certificate{NotBefore: at(test.notBefore), NotAfter: at(test.notAfter)}, at(test.answered))
		if !got.Equal(at(test.want)) {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestCSRNamesNothing(t *testing.T) {
	key, text, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.ParseKey(text)
	if err != nil || !again.Equal(key) {
		t.Fatalf("%v", err)
	}
	csr, err := identity.CSR(key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(csr))
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || parsed.CheckSignature() != nil || len(parsed.Extensions) != 0 || parsed.Subject.String() != "" {
		t.Errorf("%+v, %v", parsed, err)
	}
}

func TestParseKeyTakesP256Only(t *testing.T) {
	big, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, _ := x509.MarshalPKCS8PrivateKey(big)
	for _, text := range []string{"", "x", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[:20]}))} {
		if _, err := identity.ParseKey(text); err == nil {
			t.Errorf("%.30q was taken", text)
		}
	}
}

func TestNoIdentityNoTransport(t *testing.T) {
	if _, err := (identity.State{}).Transport(); err == nil {
		t.Error("a transport identity out of nothing")
	}
	if _, err := (identity.State{}).Leaf(); err == nil {
		t.Error("a leaf out of nothing")
	}
	id := gatewaytest.New(t).Identity(t)
	if id.Signer.Fingerprint != identity.Fingerprint(id.Certificate.Leaf) || len(id.Certificate.Certificate) != 2 {
		t.Errorf("%+v", id.Signer.Fingerprint)
	}
}
