package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"time"

	"muster/store"
)

const (
	secretRoot         = "ca/root"
	secretIntermediate = "ca/intermediate"

	year              = 365 * 24 * time.Hour
	rootLife          = 20 * year
	intermediateLife  = 5 * year
	intermediateSpare = year
	// levelBackdate is longer than that of a leaf (wire.Backdate), so that the whole chain is valid on a machine whose clock is behind.
	levelBackdate = 24 * time.Hour
)

// level is a CA certificate and its key. Both are in one sealed value. Otherwise two processes that start at once could store one
// each.
type level struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey // nil: it is a root's key, and is kept elsewhere
}

// keptSecret returns the value on record under a name, or makes one. If two processes make one at once, both get the value that was
// stored first.
func (a *Authority) keptSecret(ctx context.Context, name string, make func() ([]byte, error)) ([]byte, error) {
	value, err := a.config.Store.Secret(ctx, name)
	if err == nil {
		return value, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	if value, err = make(); err != nil {
		return nil, fmt.Errorf("make secret %s: %w", name, err)
	}
	if value, err = a.config.Store.SecretOnce(ctx, name, value); err != nil {
		return nil, fmt.Errorf("store secret %s: %w", name, err)
	}
	return value, nil
}

// newRoot makes a root and returns it in its stored form.
func newRoot(domain string, now time.Time, random io.Reader) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := levelTemplate(domain, "muster root CA", &key.PublicKey, now, random)
	if err != nil {
		return nil, err
	}
	template.NotAfter = template.NotAfter.Add(rootLife)
	template.MaxPathLen = 1
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return encodeLevel(key, der)
}

// signIntermediate certifies an intermediate's key under a root.
func signIntermediate(domain string, key *ecdsa.PublicKey, root level, now time.Time, random io.Reader) (*x509.Certificate, error) {
	template, err := levelTemplate(domain, "muster intermediate CA", key, now, random)
	if err != nil {
		return nil, err
	}
	template.MaxPathLenZero = true
	template.NotBefore = later(template.NotBefore, root.certificate.NotBefore)
	template.NotAfter = earlier(template.NotAfter.Add(intermediateLife), root.certificate.NotAfter)
	der, err := x509.CreateCertificate(rand.Reader, template, root.certificate, key, root.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// levelTemplate is what a root and an intermediate have in common. Its NotAfter is now.
func levelTemplate(domain, name string, key *ecdsa.PublicKey, now time.Time, random io.Reader) (*x509.Certificate, error) {
	number, err := serial(random)
	if err != nil {
		return nil, err
	}
	now = now.UTC()
	return &x509.Certificate{
		SerialNumber: number, NotBefore: now.Add(-levelBackdate), NotAfter: now,
		Subject:  pkix.Name{Organization: []string{domain}, CommonName: name},
		URIs:     []*url.URL{{Scheme: "spiffe", Host: domain}},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, SubjectKeyId: keyIdentifier(key),
	}, nil
}

// encodeLevel returns a key and its certificates in their stored form. The key may be nil: it is kept elsewhere.
func encodeLevel(key *ecdsa.PrivateKey, certificates ...[]byte) ([]byte, error) {
	var out []byte
	if key != nil {
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		out = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	}
	for _, der := range certificates {
		out = append(out, encodeCertificate(der)...)
	}
	return out, nil
}

// parseLevel reads a root that encodeLevel wrote. Its errors hold nothing of the value, which is secret.
func parseLevel(value []byte) (level, error) {
	if block, rest := pem.Decode(value); block != nil && block.Type == "CERTIFICATE" && len(rest) == 0 {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return level{}, fmt.Errorf("its certificate: %w", err)
		}
		return level{certificate: certificate}, nil
	}
	key, certificates, err := parseLevels(value)
	if err != nil {
		return level{}, err
	}
	return level{certificate: certificates[0], key: key}, nil
}

// parseLevels reads a key and its certificates, at least one.
func parseLevels(value []byte) (*ecdsa.PrivateKey, []*x509.Certificate, error) {
	first, rest := pem.Decode(value)
	second, rest := pem.Decode(rest)
	if first == nil || second == nil {
		return nil, nil, errors.New("it does not hold a key and a certificate in PEM")
	}
	key, err := parseP256(first.Bytes)
	if err != nil {
		return nil, nil, err
	}
	var certificates []*x509.Certificate
	for block := second; block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("its certificate: %w", err)
		}
		if !key.PublicKey.Equal(certificate.PublicKey) {
			return nil, nil, errors.New("its key and its certificate do not belong together")
		}
		certificates = append(certificates, certificate)
	}
	return key, certificates, nil
}

func parseP256(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not a P-256 key in PKCS#8")
	}
	return key, nil
}

// serial draws 128 random bits. The CA/Browser Forum's baseline requirements (7.1) ask for at least 64.
func serial(random io.Reader) (*big.Int, error) {
	var drawn [16]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return nil, fmt.Errorf("random serial number: %w", err)
	}
	return new(big.Int).SetBytes(drawn[:]), nil
}

// keyIdentifier is the leftmost 160 bits of the SHA-256 of the point (RFC 7093 section 2, method 1).
func keyIdentifier(key *ecdsa.PublicKey) []byte {
	point, err := key.Bytes()
	if err != nil { // the key is no point on the curve: crypto/x509 reads no such key, and signs none
		return nil
	}
	sum := sha256.Sum256(point)
	return sum[:20]
}

func encodeCertificate(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
