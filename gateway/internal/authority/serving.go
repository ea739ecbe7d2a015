package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
)

const (
	secretServing = "key/serving"
	servingLife   = 90 * 24 * time.Hour
)

// Serving is the gateway's TLS certificate from its own CA. The key never changes, so that a pinned public key stays good. A new
// certificate is made at start, after two thirds of its life, and when the CA has changed. It is safe for concurrent use.
type Serving struct {
	authority *Authority
	key       *ecdsa.PrivateKey
	names     []string
	addresses []net.IP
	uri       *url.URL // of a gateway among the gateways; nil: this is the certificate for nodes and people

	mu      sync.Mutex
	current *tls.Certificate
	made    *held // the state of the CA that it was made with
	renewAt time.Time
	failed  bool // the last renewal failed, and the log says so
}

// NewServing makes a serving certificate for these hosts: names (also *.name) and IP addresses. It adds localhost, 127.0.0.1 and ::1.
// Errors wrap ErrClock if the clock is the cause.
func NewServing(ctx context.Context, a *Authority, hosts []string) (*Serving, error) {
	s := &Serving{authority: a}
	for _, host := range append(slices.Clone(hosts), "localhost", "127.0.0.1", "::1") {
		if err := s.add(host); err != nil {
			return nil, err
		}
	}
	value, err := a.keptSecret(ctx, secretServing, func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return x509.MarshalPKCS8PrivateKey(key)
	})
	if err != nil {
		return nil, err
	}
	if s.key, err = parseP256(value); err != nil {
		return nil, fmt.Errorf("secret %s: %w", secretServing, err)
	}
	if err := s.renew(); err != nil {
		return nil, err
	}
	return s, nil
}

// NewGateway makes the certificate with which this gateway proves itself to others: spiffe://<trust-domain>/gateway/<id>, with a key that
// nobody keeps.
func NewGateway(a *Authority, uri *url.URL) (*Serving, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	s := &Serving{authority: a, key: key, uri: uri}
	return s, s.renew()
}

// add adds a host, unless it is there already.
func (s *Serving) add(host string) error {
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && address.Zone() == "" {
		ip := net.IP(address.Unmap().AsSlice())
		if !slices.ContainsFunc(s.addresses, ip.Equal) {
			s.addresses = append(s.addresses, ip)
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !validHost(name) {
		return fmt.Errorf("host %.80q cannot stand in a certificate: give a DNS name (without a port; xn-- for other letters) or an IP address",
			host)
	}
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	return nil
}

// Cover makes the certificate be for these hosts too, from the next handshake on. The error names those that cannot stand in it.
func (s *Serving) Cover(hosts []string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.names) + len(s.addresses)
	for _, host := range hosts {
		err = errors.Join(err, s.add(host))
	}
	if len(s.names)+len(s.addresses) > before {
		s.renewAt = time.Time{}
	}
	return err
}

// validHost accepts DNS names of RFC 1123, and underscores. The first label may be a wildcard.
func validHost(name string) bool {
	name = strings.TrimPrefix(name, "*.")
	for _, label := range strings.Split(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, lowerDigits+"-_") != "" || strings.Trim(label, "-") != label {
			return false
		}
	}
	return len(name) <= 253
}

// GetCertificate returns the certificate, for tls.Config. It renews the certificate when it is time. If that fails, it logs the first
// failure and goes on with the last certificate; every handshake then tries again.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.authority.config.Now()
	if now.Before(s.renewAt) && !now.Before(s.current.Leaf.NotBefore) && s.made == s.authority.held.Load() {
		s.failed = false
		return s.current, nil
	}
	err := s.renew()
	if err != nil && !s.failed {
		s.authority.config.Logger.Error("the gateway's serving certificate was not renewed",
			"error", err, "not_after", s.current.Leaf.NotAfter)
	}
	s.failed = err != nil
	return s.current, nil
}

// renew makes a new certificate for the same key. The chain has no root: a client either has the root already, or does not believe it.
func (s *Serving) renew() error {
	h := s.authority.held.Load()
	leaf, err := s.sign(h)
	if err != nil {
		return fmt.Errorf("sign the serving certificate: %w", err)
	}
	issued := leaf.NotBefore.Add(wire.Backdate)
	s.renewAt = issued.Add(wire.RenewAfter(leaf.NotAfter.Sub(issued)))
	s.current = &tls.Certificate{
		Certificate: [][]byte{leaf.Raw}, PrivateKey: s.key, Leaf: leaf,
	}
	for _, certificate := range h.issuing.certificates {
		s.current.Certificate = append(s.current.Certificate, certificate.Raw)
	}
	s.made = h
	return nil
}

// sign makes the certificate. It names the intermediate that ends first as its issuer; all have the same subject and key.
func (s *Serving) sign(h *held) (*x509.Certificate, error) {
	a := s.authority
	parent := h.issuing.shortest()
	from, to, err := a.leafDates(parent, servingLife)
	if err != nil {
		return nil, err
	}
	number, err := serial(a.config.Rand)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, NotBefore: from, NotAfter: to,
		Subject:               pkix.Name{Organization: []string{a.config.TrustDomain}, CommonName: "muster gateway"},
		DNSNames:              s.names,
		IPAddresses:           s.addresses,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          keyIdentifier(&s.key.PublicKey),
	}
	if s.uri != nil {
		template.URIs = []*url.URL{s.uri}
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &s.key.PublicKey, h.issuing.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// PinnedPublicKey returns the serving key in the form of curl's --pinnedpubkey: "sha256//" and the base64 SHA-256 of the
// SubjectPublicKeyInfo.
func (s *Serving) PinnedPublicKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pinnedPublicKey(s.current.Leaf)
}

func pinnedPublicKey(leaf *x509.Certificate) string {
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return "sha256//" + base64.StdEncoding.EncodeToString(sum[:])
}
