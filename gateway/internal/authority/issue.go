package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Issue signs a node's certificate: a fresh template that takes nothing from the CSR but its public key. The lifetime
// counts from now and never goes past the intermediate's. Errors wrap ErrClock where the clock is to blame.
func (a *Authority) Issue(ctx context.Context, r Request) (store.Certificate, error) {
	if err := ctx.Err(); err != nil {
		return store.Certificate{}, err
	}
	ttl := r.TTL
	if ttl == 0 {
		ttl = a.config.CertTTL
	}
	if err := checkTTL(ttl); err != nil {
		return store.Certificate{}, err
	}
	if !validID(r.NodeID) {
		return store.Certificate{}, fmt.Errorf("node id %.80q cannot stand in a certificate: it has 1 to 64 letters, digits, dashes and underscores", r.NodeID)
	}
	if r.CSR == nil {
		return store.Certificate{}, errors.New("a certificate needs a certificate request")
	}
	key, ok := r.CSR.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() || !usualKey(r.CSR) {
		return store.Certificate{}, fmt.Errorf("the key is not ECDSA P-256: %w", ErrBadCSR)
	}
	h := a.held.Load()
	leaf, err := a.signNode(h, r, key, ttl)
	if err != nil {
		return store.Certificate{}, fmt.Errorf("sign the certificate of node %s: %w", r.NodeID, err)
	}
	return leaf, nil
}

// signNode makes a node's certificate.
func (a *Authority) signNode(h *held, r Request, key *ecdsa.PublicKey, ttl time.Duration) (store.Certificate, error) {
	parent := h.issuing.shortest()
	from, to, err := a.leafDates(parent, ttl)
	if err != nil {
		return store.Certificate{}, err
	}
	number, err := serial(a.config.Rand)
	if err != nil {
		return store.Certificate{}, err
	}
	leaf := nodeLeaf{
		serial: number, notBefore: from, notAfter: to, id: r.NodeID, uri: a.nodeURL(r.NodeID).String(),
		key: r.CSR.RawSubjectPublicKeyInfo, keyID: keyIdentifier(key),
	}
	der, err := leaf.sign(parent, h.issuing.key)
	if err != nil {
		return store.Certificate{}, err
	}
	return store.NewCertificate(der, leaf.key, from, to, encodeCertificate(der)+h.issuing.chainTail), nil
}

// leafDates are those of a leaf of this lifetime that is made now: within its parent's.
func (a *Authority) leafDates(parent *x509.Certificate, ttl time.Duration) (from, to time.Time, err error) {
	now := a.config.Now().UTC()
	if now.Before(parent.NotBefore) || !now.Before(parent.NotAfter) {
		return from, to, fmt.Errorf("the clock says %s, the intermediate is good from %s to %s; set the clock, or make a new intermediate: muster ca intermediate: %w",
			date(now), date(parent.NotBefore), date(parent.NotAfter), ErrClock)
	}
	return later(now.Add(-wire.Backdate), parent.NotBefore), earlier(now.Add(ttl), parent.NotAfter), nil
}

// signLeaf completes a template of another leaf, and signs it.
func (a *Authority) signLeaf(h *held, key *ecdsa.PublicKey, ttl time.Duration, template x509.Certificate) (*x509.Certificate, error) {
	parent := h.issuing.shortest()
	var err error
	if template.NotBefore, template.NotAfter, err = a.leafDates(parent, ttl); err != nil {
		return nil, err
	}
	if template.SerialNumber, err = serial(a.config.Rand); err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	template.SubjectKeyId = keyIdentifier(key)
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key, h.issuing.key)
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
	return id != "" && len(id) <= wire.MaxNodeID
}
