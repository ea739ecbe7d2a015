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
	"strings"
	"time"

	"muster/agent/wire"
	"muster/store"
)

// Issue signs a node's certificate. It takes nothing from the CSR except its public key. The lifetime begins now, and the certificate
// never ends after the intermediate. Errors wrap ErrClock if the clock is the cause.
func (a *Authority) Issue(ctx context.Context, r Request) (store.Certificate, error) {
	if err := ctx.Err(); err != nil {
		return store.Certificate{}, err
	}
	ttl := r.TTL
	if ttl == 0 {
		ttl = a.config.CertTTL
	}
	if err := CheckTTL(ttl); err != nil {
		return store.Certificate{}, err
	}
	if !validID(r.NodeID) {
		return store.Certificate{},
			fmt.Errorf("node id %.80q cannot stand in a certificate: it has 1 to 64 letters, digits, dashes and underscores", r.NodeID)
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
	uri, err := url.Parse(a.NodeURI(r.NodeID))
	if err != nil {
		return store.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: number, NotBefore: from, NotAfter: to, Subject: pkix.Name{CommonName: r.NodeID}, URIs: []*url.URL{uri},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, SubjectKeyId: keyIdentifier(key),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, h.issuing.key)
	if err != nil {
		return store.Certificate{}, err
	}
	chain := encodeCertificate(der) + h.issuing.chainTail
	return store.NewCertificate(der, r.CSR.RawSubjectPublicKeyInfo, from, to, chain), nil
}

// leafDates are the dates of a leaf with this lifetime that is made now. They stay within the dates of its parent.
func (a *Authority) leafDates(parent *x509.Certificate, ttl time.Duration) (from, to time.Time, err error) {
	now := a.config.Now().UTC()
	if now.Before(parent.NotBefore) || !now.Before(parent.NotAfter) {
		return from, to, fmt.Errorf("the clock says %s, the intermediate is good from %s to %s; set the clock, or make a new intermediate: "+
			"muster ca intermediate: %w",
			date(now), date(parent.NotBefore), date(parent.NotAfter), ErrClock)
	}
	return later(now.Add(-wire.Backdate), parent.NotBefore), earlier(now.Add(ttl), parent.NotAfter), nil
}

// validID accepts node ids that need no escape in a URI and fit into a common name.
func validID(id string) bool {
	return id != "" && len(id) <= wire.MaxNodeID && strings.Trim(id, lowerDigits+"ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}
