// Package authority is the gateway's certificate authority and the keeper of its signing keys.
//
// One root (20 years, path length 1) signs one intermediate (5 years), which signs the nodes' certificates and the
// gateway's own serving certificate. Beside them stand Ed25519 keys with one role each: trust signs sets of roots and
// verifier keys and nothing else; answer, task and release are named in those sets.
//
// Keys rest in the store as sealed secrets, one value per level with its certificate, written once: however many
// processes start at the same moment on one database, they end with one CA. The root's key is read to sign an
// intermediate and dropped then. Nothing of a certificate request but its public key gets into a certificate, and
// CheckCSR refuses requests that ask for more.
package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"muster/agent/sign"
	"muster/store"
)

// Bounds and default for a node certificate's lifetime.
const (
	MinTTL     = 5 * time.Second
	MaxTTL     = 30 * 24 * time.Hour
	DefaultTTL = 24 * time.Hour
)

// ErrClock is wrapped by errors that come from a clock outside the dates of the CA's own certificates. Nothing can be
// issued that anyone would accept then.
var ErrClock = errors.New("the gateway's clock lies outside its CA's dates")

// Issuer signs node certificates. Implementations are safe for concurrent use.
type Issuer interface {
	// Issue certifies the request's public key for a node. The request's CSR must have passed CheckCSR.
	Issue(ctx context.Context, r Request) (Issued, error)
	// Roots are the certificates that a chain may end in. The caller must not change them.
	Roots() []*x509.Certificate
}

// Request asks for one node certificate.
type Request struct {
	NodeID string
	CSR    *x509.CertificateRequest
	TTL    time.Duration // MinTTL to MaxTTL; 0: what the issuer was configured with
}

// Issued is a signed node certificate.
type Issued struct {
	Leaf  *x509.Certificate
	Chain string // PEM: the leaf, then the intermediate
}

// Config says where an Authority keeps its keys and what it issues.
type Config struct {
	Store       *store.Store
	TrustDomain string        // empty: the one on record, at first start "muster-" and 8 random hex digits
	CertTTL     time.Duration // node certificates, MinTTL to MaxTTL; 0: DefaultTTL

	Now    func() time.Time // nil: time.Now
	Rand   io.Reader        // nil: crypto/rand; for serial numbers and the trust domain, keys always use crypto/rand
	Logger *slog.Logger     // nil: slog.Default()
}

// Authority is the built-in CA with the gateway's Ed25519 keys. It is safe for concurrent use.
type Authority struct {
	config Config

	root         *x509.Certificate
	intermediate level
	chainTail    string // PEM of what follows a leaf

	trust, answer, task, release ed25519.PrivateKey
	sets                         []sign.Envelope
}

var _ Issuer = (*Authority)(nil)

// Open reads the CA and the keys from the store, and makes those that are not there yet. An intermediate that is in its
// last year, or was made under a clock that ran ahead, is replaced. Errors wrap ErrClock where the clock is to blame.
func Open(ctx context.Context, c Config) (*Authority, error) {
	a := &Authority{config: withDefaults(c)}
	if err := checkTTL(a.config.CertTTL); err != nil {
		return nil, err
	}
	domain, err := a.keptDomain(ctx)
	if err != nil {
		return nil, err
	}
	a.config.TrustDomain = domain
	if err := a.openLevels(ctx); err != nil {
		return nil, err
	}
	if err := a.openKeys(ctx); err != nil {
		return nil, err
	}
	if err := a.openSets(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

func withDefaults(c Config) Config {
	if c.CertTTL == 0 {
		c.CertTTL = DefaultTTL
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("certificate lifetime %v: choose one from %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

const metaDomain = "ca/trust-domain"

// keptDomain gives the trust domain on record. It stands in every certificate, so it cannot change afterwards.
func (a *Authority) keptDomain(ctx context.Context) (string, error) {
	wanted := a.config.TrustDomain
	if wanted == "" {
		var random [4]byte
		if _, err := io.ReadFull(a.config.Rand, random[:]); err != nil {
			return "", fmt.Errorf("random trust domain: %w", err)
		}
		wanted = "muster-" + hex.EncodeToString(random[:])
	}
	if !validDomain(wanted) {
		return "", fmt.Errorf("trust domain %.80q: it has 1 to 63 lower-case letters, digits, dots and dashes", wanted)
	}
	kept, err := a.config.Store.MetaOnce(ctx, metaDomain, wanted)
	if err != nil {
		return "", fmt.Errorf("record the trust domain: %w", err)
	}
	if a.config.TrustDomain != "" && kept != wanted {
		return "", fmt.Errorf("trust domain %s: this gateway's is %s and every certificate names it; leave the setting out, or start with a new data directory", wanted, kept)
	}
	return kept, nil
}

// validDomain takes a narrow form of what SPIFFE allows (SPIFFE-ID section 2.1); 63 fits into a certificate's name.
func validDomain(domain string) bool {
	for i := 0; i < len(domain); i++ {
		c := domain[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		inner := (c == '.' || c == '-') && i > 0 && i < len(domain)-1
		if !alphanumeric && !inner {
			return false
		}
	}
	return domain != "" && len(domain) <= 63
}

// TrustDomain is the SPIFFE trust domain that this gateway's certificates name.
func (a *Authority) TrustDomain() string { return a.config.TrustDomain }

// NodeURI is the SPIFFE id of a node: spiffe://<trust-domain>/node/<node-id>.
func (a *Authority) NodeURI(nodeID string) string { return a.nodeURL(nodeID).String() }

func (a *Authority) nodeURL(nodeID string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: a.config.TrustDomain, Path: "/node/" + nodeID}
}

// Roots is the one root.
func (a *Authority) Roots() []*x509.Certificate { return []*x509.Certificate{a.root} }

// RootPEM is the root's certificate as a PEM bundle.
func (a *Authority) RootPEM() string { return encodeCertificate(a.root.Raw) }

// RootPin is "sha256:" and the hex SHA-256 of the root's public key (SubjectPublicKeyInfo, DER), the form of --root-pin.
func (a *Authority) RootPin() string {
	sum := sha256.Sum256(a.root.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// AnswerKey signs the answers to signed requests. The caller must not change it.
func (a *Authority) AnswerKey() ed25519.PrivateKey { return a.answer }

// TrustKey is the public key that verifies the first trust set, and the later ones until a set names another.
func (a *Authority) TrustKey() ed25519.PublicKey { return a.trust.Public().(ed25519.PublicKey) }

// TrustSets is the chain of signed wire.TrustSet documents, oldest first, as they were first made.
func (a *Authority) TrustSets() []sign.Envelope { return slices.Clone(a.sets) }
