package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// leafBackdate lets a node whose clock is a little slow use its certificate at once.
const leafBackdate = 5 * time.Minute

// Issue signs a node's certificate: a fresh template that takes nothing from the CSR but its public key. The lifetime
// counts from now and never goes past the intermediate's. Errors wrap ErrClock where the clock is to blame.
func (a *Authority) Issue(ctx context.Context, r Request) (Issued, error) {
	if err := ctx.Err(); err != nil {
		return Issued{}, err
	}
	ttl := r.TTL
	if ttl == 0 {
		ttl = a.config.CertTTL
	}
	if err := checkTTL(ttl); err != nil {
		return Issued{}, err
	}
	if !validID(r.NodeID) {
		return Issued{}, fmt.Errorf("node id %.80q cannot stand in a certificate: it has 1 to 64 letters, digits, dashes and underscores", r.NodeID)
	}
	if r.CSR == nil {
		return Issued{}, errors.New("a certificate needs a certificate request")
	}
	key, ok := r.CSR.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return Issued{}, fmt.Errorf("the key is not ECDSA P-256: %w", ErrBadCSR)
	}
	leaf, err := a.signLeaf(key, ttl, x509.Certificate{
		Subject:     pkix.Name{CommonName: r.NodeID},
		URIs:        []*url.URL{a.nodeURL(r.NodeID)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Issued{}, fmt.Errorf("sign the certificate of node %s: %w", r.NodeID, err)
	}
	return Issued{Leaf: leaf, Chain: encodeCertificate(leaf.Raw) + a.chainTail}, nil
}

// signLeaf completes a template with everything that all leaves have in common, and signs it.
func (a *Authority) signLeaf(key *ecdsa.PublicKey, ttl time.Duration, template x509.Certificate) (*x509.Certificate, error) {
	now, parent := a.config.Now().UTC(), a.intermediate.certificate
	if now.Before(parent.NotBefore) || !now.Before(parent.NotAfter) {
		return nil, fmt.Errorf("the clock says %s, the intermediate is good from %s to %s; set the clock, or restart the gateway to have a new intermediate: %w",
			date(now), date(parent.NotBefore), date(parent.NotAfter), ErrClock)
	}
	serial, err := a.serial()
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = later(now.Add(-leafBackdate), parent.NotBefore)
	template.NotAfter = earlier(now.Add(ttl), parent.NotAfter)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	template.SubjectKeyId = keyIdentifier(key)
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key, a.intermediate.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// validID keeps a node id to what needs no escape in a URI and fits into a common name.
func validID(id string) bool {
	for i := 0; i < len(id); i++ {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return id != "" && len(id) <= 64
}
