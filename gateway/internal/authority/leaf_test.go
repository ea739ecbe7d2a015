package authority_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/url"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/store"
)

// TestIssueLikeStandardLibrary has crypto/x509 make the same certificate: what is signed must be the same to the byte.
func TestIssueLikeStandardLibrary(t *testing.T) {
	times := map[string]time.Time{"now": start, "at the end of UTCTime": time.Date(2049, 12, 31, 12, 0, 0, 0, time.UTC)}
	ids := []string{"n-0123456789abcdef", "n1", "under_score", "a-name-of-sixty-four-letters-0123456789-0123456789-0123456789-01"}
	for name, at := range times {
		t.Run(name, func(t *testing.T) {
			a := open(t, newStore(t), func() time.Time { return at })
			for _, id := range ids {
				for range 8 { // serial numbers differ in their first bit
					issued, err := a.Issue(t.Context(), authority.Request{NodeID: id, CSR: newCSR(t, x509.CertificateRequest{})})
					if err != nil {
						t.Fatal(err)
					}
					want := standard(t, issued, id, a.NodeURI(id))
					if !bytes.Equal(leafOf(t, issued).RawTBSCertificate, want.RawTBSCertificate) {
						t.Fatalf("node %s: got  %x\nwant %x", id, leafOf(t, issued).RawTBSCertificate, want.RawTBSCertificate)
					}
				}
			}
		})
	}
}

// standard is crypto/x509's certificate with the serial number, dates, key and issuer of another one. Another key signs it, because
// the issuer's key is the authority's own secret.
func standard(t *testing.T, issued store.Certificate, id, uri string) *x509.Certificate {
	t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	_, rest := pem.Decode([]byte(issued.Chain))
	block, _ := pem.Decode(rest)
	parent, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf := leafOf(t, issued)
	if err := leaf.CheckSignatureFrom(parent); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	parent.PublicKey = key.Public()
	template := &x509.Certificate{
		SerialNumber: leaf.SerialNumber, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		Subject: pkix.Name{CommonName: id}, URIs: []*url.URL{parsed}, SubjectKeyId: leaf.SubjectKeyId,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, leaf.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
