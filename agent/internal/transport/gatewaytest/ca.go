package gatewaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"muster/agent/wire"
)

// CA is a root with an intermediate.
type CA struct {
	Root         *x509.Certificate
	intermediate *x509.Certificate
	key          *ecdsa.PrivateKey // the intermediate's
}

// NewCA makes a CA that is valid for years around now.
func NewCA(t testing.TB, now time.Time) *CA {
	t.Helper()
	rootKey := newKey(t)
	key := newKey(t)
	root := template("root", now.AddDate(-5, 0, 0), now.AddDate(20, 0, 0))
	root.Subject.CommonName += " " + root.SerialNumber.String() // so that OpenSSL, which finds roots by name, finds this one alone
	root.IsCA = true
	root.KeyUsage = x509.KeyUsageCertSign
	ca := &CA{key: key}
	ca.Root = issue(root, root, &rootKey.PublicKey, rootKey)
	intermediate := template("intermediate", now.AddDate(-5, 0, 0), now.AddDate(10, 0, 0))
	intermediate.IsCA = true
	intermediate.KeyUsage = x509.KeyUsageCertSign
	ca.intermediate = issue(intermediate, ca.Root, &key.PublicKey, rootKey)
	return ca
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(name string, from, to time.Time) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to, BasicConstraintsValid: true,
	}
}

func issue(child, parent *x509.Certificate, key *ecdsa.PublicKey, signer *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, child, parent, key, signer)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return certificate
}

// Node issues a node's certificate, backdated as by the real gateway.
func (ca *CA) Node(key *ecdsa.PublicKey, nodeID string, now time.Time, ttl time.Duration) (*x509.Certificate, string) {
	child := template(nodeID, now.Add(-wire.Backdate), now.Add(ttl))
	child.KeyUsage = x509.KeyUsageDigitalSignature
	child.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	child.URIs = []*url.URL{{Scheme: "spiffe", Host: Domain, Path: "/node/" + nodeID}}
	leaf := issue(child, ca.intermediate, key, ca.key)
	return leaf, encode(leaf) + encode(ca.intermediate)
}

// Server issues a serving certificate for these hosts.
func (ca *CA) Server(t testing.TB, from, to time.Time, hosts ...string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	child := template("server", from, to)
	child.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			child.IPAddresses = append(child.IPAddresses, ip)
		} else {
			child.DNSNames = append(child.DNSNames, host)
		}
	}
	leaf := issue(child, ca.intermediate, &key.PublicKey, ca.key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.intermediate.Raw}, PrivateKey: key}
}

// RootPEM returns the root in PEM.
func (ca *CA) RootPEM() string { return encode(ca.Root) }

// Pin returns the pin of the root, in the form of --root-pin.
func (ca *CA) Pin() string {
	sum := sha256.Sum256(ca.Root.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Pool returns a pool with only the root.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Root)
	return pool
}

func encode(certificate *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
}
