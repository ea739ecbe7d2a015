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
	// levelBackdate is longer than a leaf's, so that a machine with a slow clock finds the whole chain in force.
	levelBackdate = 24 * time.Hour
)

// level is a CA certificate and its key. Both rest in one sealed value, so that they cannot come from two first starts.
type level struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// openLevels reads root and intermediate or makes them.
func (a *Authority) openLevels(ctx context.Context) error {
	root, err := a.keptLevel(ctx, secretRoot, func() ([]byte, error) { return a.newLevel(nil) })
	if err != nil {
		return err
	}
	now := a.config.Now()
	if now.Before(root.certificate.NotBefore) || now.After(root.certificate.NotAfter) {
		return fmt.Errorf("the clock says %s, the CA's root is good from %s to %s; set the clock (if it was wrong at the very first start, start with a new data directory): %w",
			date(now), date(root.certificate.NotBefore), date(root.certificate.NotAfter), ErrClock)
	}
	a.root = root.certificate
	sign := func() ([]byte, error) { return a.newLevel(&root) }
	a.intermediate, err = a.keptLevel(ctx, secretIntermediate, sign)
	if err != nil {
		return err
	}
	if a.worn(now) {
		if err := a.replaceIntermediate(ctx, sign); err != nil {
			return err
		}
	}
	if err := a.intermediate.certificate.CheckSignatureFrom(a.root); err != nil {
		return fmt.Errorf("secret %s is not signed by the root: %w", secretIntermediate, err)
	}
	a.chainTail = encodeCertificate(a.intermediate.certificate.Raw)
	return nil
}

// worn reports whether the intermediate is in its last year, or was made under a clock that ran ahead.
func (a *Authority) worn(now time.Time) bool {
	c := a.intermediate.certificate
	return now.Before(c.NotBefore) || now.After(c.NotAfter.Add(-intermediateSpare)) && c.NotAfter.Before(a.root.NotAfter)
}

// replaceIntermediate needs no guard against a second process that does the same: both chain to the root, and node
// certificates are judged by the record.
func (a *Authority) replaceIntermediate(ctx context.Context, sign func() ([]byte, error)) error {
	value, err := sign()
	if err != nil {
		return err
	}
	if err := a.config.Store.SetSecret(ctx, secretIntermediate, value); err != nil {
		return fmt.Errorf("store secret %s: %w", secretIntermediate, err)
	}
	a.intermediate, err = parseLevel(value)
	return err
}

func (a *Authority) keptLevel(ctx context.Context, name string, make func() ([]byte, error)) (level, error) {
	value, err := a.keptSecret(ctx, name, make)
	if err != nil {
		return level{}, err
	}
	l, err := parseLevel(value)
	if err != nil {
		return level{}, fmt.Errorf("secret %s: %w", name, err)
	}
	return l, nil
}

// keptSecret gives the value on record under a name; where there is none it makes one, and whoever comes first wins.
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

// newLevel makes a root (parent nil) or an intermediate and gives it in its stored form.
func (a *Authority) newLevel(parent *level) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := a.serial()
	if err != nil {
		return nil, err
	}
	now := a.config.Now().UTC()
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-levelBackdate), NotAfter: now.Add(rootLife),
		Subject:  pkix.Name{Organization: []string{a.config.TrustDomain}, CommonName: "muster root CA"},
		URIs:     []*url.URL{{Scheme: "spiffe", Host: a.config.TrustDomain}},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLen: 1,
		SubjectKeyId: keyIdentifier(&key.PublicKey),
	}
	signer := &level{certificate: template, key: key}
	if parent != nil {
		signer = parent
		template.Subject.CommonName = "muster intermediate CA"
		template.MaxPathLen, template.MaxPathLenZero = 0, true
		template.NotBefore = later(template.NotBefore, parent.certificate.NotBefore)
		template.NotAfter = earlier(now.Add(intermediateLife), parent.certificate.NotAfter)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err != nil {
		return nil, err
	}
	return encodeLevel(der, key)
}

func encodeLevel(der []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	return append(out, encodeCertificate(der)...), nil
}

// parseLevel reads what encodeLevel wrote. Its errors say nothing of the value.
func parseLevel(value []byte) (level, error) {
	first, rest := pem.Decode(value)
	second, _ := pem.Decode(rest)
	if first == nil || second == nil {
		return level{}, errors.New("it does not hold a key and a certificate in PEM")
	}
	key, err := parseP256(first.Bytes)
	if err != nil {
		return level{}, err
	}
	certificate, err := x509.ParseCertificate(second.Bytes)
	if err != nil {
		return level{}, fmt.Errorf("its certificate: %w", err)
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return level{}, errors.New("its key and its certificate do not belong together")
	}
	return level{certificate: certificate, key: key}, nil
}

func parseP256(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not a P-256 key in PKCS#8")
	}
	return key, nil
}

// serial draws 128 random bits (at least 64 are asked for by the CA/Browser Forum's baseline requirements 7.1).
func (a *Authority) serial() (*big.Int, error) {
	var random [16]byte
	if _, err := io.ReadFull(a.config.Rand, random[:]); err != nil {
		return nil, fmt.Errorf("random serial number: %w", err)
	}
	return new(big.Int).SetBytes(random[:]), nil
}

// keyIdentifier is the leftmost 160 bits of the SHA-256 of the point (RFC 7093 section 2, method 1).
func keyIdentifier(key *ecdsa.PublicKey) []byte {
	point, err := key.Bytes()
	if err != nil { // a key that is no point; signing refuses it
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
