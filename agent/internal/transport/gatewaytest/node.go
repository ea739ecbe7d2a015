package gatewaytest

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/sign"
)

// Node makes an enrolled node and returns the state that its agent has on the disk.
func (g *Gateway) Node(t testing.TB) identity.State {
	t.Helper()
	key, text, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	leaf, chain := g.CA.Node(&key.PublicKey, NodeID, g.Now(), g.TTL)
	g.keys[fingerprint(leaf)] = &key.PublicKey
	g.generation = 1
	trust := sign.EncodeKey(g.Trust.Public().(ed25519.PublicKey))
	answer := sign.EncodeKey(g.Answer.Public().(ed25519.PublicKey))
	return identity.State{
		NodeID: NodeID, Enrolment: Enrolment, Name: "node-1", Tenant: "default",
		Current: &identity.Pair{Key: text, Certificate: chain, Generation: 1, IssuedAt: g.Now()},
		Gateway: identity.Gateway{
			Roots: g.CA.RootPEM(), TrustKey: trust, AnswerKeys: []string{answer}, IntervalSeconds: g.Interval,
			Trust: g.firstSet(),
		},
	}
}

// Identity returns the identity of a new node, in the form that the transport takes.
func (g *Gateway) Identity(t testing.TB) transport.Identity {
	t.Helper()
	id, err := g.Node(t).Transport()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Leaf parses the first certificate of a chain.
func Leaf(t testing.TB, chain string) *x509.Certificate {
	t.Helper()
	certificates, err := identity.ParseCertificates(chain)
	if err != nil {
		t.Fatal(err)
	}
	return certificates[0]
}

// Serving makes the gateway's own serving certificate for the in-memory network, good around the gateway's time.
func (g *Gateway) Serving(t testing.TB) *tls.Certificate {
	now := g.Now()
	certificate := g.CA.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 30), Host, "127.0.0.1")
	return &certificate
}

// CSRKey returns the public key that a CSR asks a certificate for.
func CSRKey(t testing.TB, text string) string {
	t.Helper()
	csr := parseCSR(text)
	if csr == nil {
		t.Fatal("a bad CSR")
	}
	return string(csr.RawSubjectPublicKeyInfo)
}

// FillDisk makes every write of an identity file in this state directory fail as on a full disk.
func FillDisk(t testing.TB, path string) {
	t.Helper()
	if err := os.Symlink("/dev/full", filepath.Join(path, "identity.json.new")); err != nil {
		t.Skip("no symbolic links here")
	}
}

// Block makes every write of this file (identity.json, status.json) in a state directory fail from now on.
func Block(t testing.TB, path, file string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(path, file+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
}
