package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/sign"
	"muster/agent/wire"
)

// ErrBadCertificate is wrapped by errors about a certificate that is not the one this node asked for.
var ErrBadCertificate = errors.New("the gateway's certificate for this node is not usable")

// Transport returns the current pair, with what proves the gateway, in the form that the transport takes.
func (s State) Transport() (transport.Identity, error) {
	if s.Current == nil {
		return transport.Identity{}, errors.New("not enrolled")
	}
	pair, err := s.Current.TLS()
	if err != nil {
		return transport.Identity{}, err
	}
	roots, err := pool(s.Gateway.Roots)
	if err != nil {
		return transport.Identity{}, err
	}
	answerKeys, err := s.Gateway.answerKeys()
	if err != nil {
		return transport.Identity{}, fmt.Errorf("answer key: %w", err)
	}
	return transport.Identity{
		Certificate: pair, Roots: roots, RootsPEM: s.Gateway.Roots, AnswerKeys: answerKeys,
		Home: s.Gateway.URL, Gateways: s.Gateway.Gateways, Last: s.Gateway.Last,
		Signer: sign.Signer{Key: pair.PrivateKey.(*ecdsa.PrivateKey), Fingerprint: Fingerprint(pair.Leaf)},
	}, nil
}

// answerKeys are the keys that prove the gateway's answers.
func (g Gateway) answerKeys() ([]ed25519.PublicKey, error) {
	if len(g.AnswerKeys) == 0 {
		return nil, errors.New("none is known")
	}
	keys := make([]ed25519.PublicKey, 0, len(g.AnswerKeys))
	for _, text := range g.AnswerKeys {
		key, err := sign.DecodeKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Fingerprint names a certificate: its SHA-256 in lower-case hex.
func Fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// Wanted is what a node's certificate has to be.
type Wanted struct {
	Key         *ecdsa.PrivateKey
	Roots       string // PEM bundle
	NodeID      string
	TrustDomain string    // empty: any
	Now         time.Time // by the gateway's clock
}

// CheckCertificate checks a chain that the gateway issued. The leaf must be for our key and for this node (one SPIFFE URI and no other
// name), must allow client use, and must chain to the roots. The chain may bring its own root, as it does if another CA than the gateway's
// issues the certificates. The answer that brought the chain is proven, so that root counts for this one certificate. It never counts for a
// gateway. The error wraps ErrBadCertificate.
func CheckCertificate(chain string, w Wanted) (*x509.Certificate, error) {
	certificates, err := ParseCertificates(chain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCertificate, err)
	}
	leaf := certificates[0]
	if !w.Key.PublicKey.Equal(leaf.PublicKey) {
		return nil, fmt.Errorf("%w: it is for another key", ErrBadCertificate)
	}
	if err := checkURI(leaf, w); err != nil {
		return nil, err
	}
	roots, err := pool(w.Roots)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCertificate, err)
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range certificates[1:] {
		intermediates.AddCert(certificate)
		if bytes.Equal(certificate.RawSubject, certificate.RawIssuer) && certificate.IsCA {
			roots.AddCert(certificate)
		}
	}
	at := w.Now
	if at.Before(leaf.NotBefore) { // issued while the gateway's clock was ahead: the gateway decides whether it is good
		at = leaf.NotBefore
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCertificate, err)
	}
	return leaf, nil
}

// checkURI checks the name in a node's certificate: spiffe://DOMAIN/node/ID and no other name.
func checkURI(leaf *x509.Certificate, w Wanted) error {
	if len(leaf.URIs) != 1 || len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 {
		return fmt.Errorf("%w: it does not carry exactly one URI as its name", ErrBadCertificate)
	}
	uri := leaf.URIs[0]
	if uri.Scheme != "spiffe" || uri.Path != "/node/"+w.NodeID || w.TrustDomain != "" && uri.Host != w.TrustDomain {
		return fmt.Errorf("%w: it is for %.100q", ErrBadCertificate, uri.String())
	}
	return nil
}

// SignerAs signs as the node that has this identity, if name is the one by which this machine knows it; else nil. A machine that asks for
// another name becomes another node.
func (s State) SignerAs(name string) *sign.Signer {
	own, err := s.Transport()
	if err != nil || s.Name != name {
		return nil
	}
	return &own.Signer
}

// Leaf returns the certificate of the current pair.
func (s State) Leaf() (*x509.Certificate, error) {
	if s.Current == nil {
		return nil, errors.New("not enrolled")
	}
	chain, err := ParseCertificates(s.Current.Certificate)
	if err != nil {
		return nil, err
	}
	return chain[0], nil
}

// IssuedAt returns when a certificate was issued, by the gateway's clock. answered is the time of the answer that brought it. A repeated
// answer may come hours after the issue, so the certificate's own beginning decides if the two differ.
func IssuedAt(leaf *x509.Certificate, answered time.Time) time.Time {
	issued := leaf.NotBefore.Add(wire.Backdate)
	if answered.Before(issued) && answered.After(leaf.NotBefore) { // it was backdated by less
		return answered
	}
	if issued.After(leaf.NotAfter) { // its life is shorter than the backdating
		return leaf.NotBefore
	}
	return issued
}
