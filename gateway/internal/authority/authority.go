// Package authority is the gateway's certificate authority, and keeps its signing keys.
//
// One root (20 years, path length 1) signs one intermediate (5 years). The intermediate signs the nodes' certificates and the
// gateway's own serving certificate. There are also Ed25519 keys, each with one role. The trust key signs trust sets and nothing
// else. A trust set is a list of roots and of the public keys for the roles answer, task and release.
//
// The store keeps the keys as sealed secrets. The key and the certificate of a level (root or intermediate) are one value: so if
// many processes start at the same moment on one database, all get the same CA. The root's key is read only to sign an
// intermediate, and is not kept in memory. The root's key and the trust key may be kept elsewhere; then the store has only their
// public halves. A certificate takes nothing from a certificate request except its public key, and CheckCSR refuses requests that
// ask for more.
//
// Nodes believe what the newest trust set names, so a change needs a new set. The set is stored before anything signs with its
// keys. The intermediate may change at any time, because nodes verify up to the root.
package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/disk"
	"muster/agent/sign"
	"muster/store"
)

// Bounds and default for a node certificate's lifetime.
const (
	MinTTL     = 5 * time.Second
	MaxTTL     = 30 * 24 * time.Hour
	DefaultTTL = 24 * time.Hour
)

// ErrClock is wrapped by errors that come from a clock outside the dates of the CA's own certificates. Nobody would accept a
// certificate that is issued then.
var ErrClock = errors.New("the gateway's clock lies outside its CA's dates")

// Issuer signs node certificates. Implementations are safe for concurrent use.
type Issuer interface {
	// Issue certifies the request's public key for a node. The request's CSR must have passed CheckCSR. The result is made by
	// store.NewCertificate. Its chain is the leaf and then the intermediate.
	Issue(ctx context.Context, r Request) (store.Certificate, error)
	// Roots are the certificates that a chain may end in. The caller must not change them.
	Roots() []*x509.Certificate
}

// Request asks for one node certificate.
type Request struct {
	NodeID string
	CSR    *x509.CertificateRequest
	TTL    time.Duration // MinTTL to MaxTTL; 0: what the issuer was configured with
}

// Config says where an Authority keeps its keys and what it issues.
type Config struct {
	Store       *store.Store
	TrustDomain string        // empty: the one on record, at first start "muster-" and 8 random hex digits
	CertTTL     time.Duration // lifetime of node certificates, MinTTL to MaxTTL; 0: DefaultTTL

	Now    func() time.Time // nil: time.Now
	Rand   io.Reader        // nil: crypto/rand; for serial numbers and the trust domain, keys always use crypto/rand
	Logger *slog.Logger     // nil: slog.Default()
	Disk   disk.Steps       // of the files that keys are exported to; nil: nobody is told; for tests
}

// Authority is the built-in CA with the gateway's Ed25519 keys. It is safe for concurrent use.
type Authority struct {
	config   Config
	changing sync.Mutex           // one change at a time: from reading held to replacing it
	held     atomic.Pointer[held] // readers take it without a lock
}

var _ Issuer = (*Authority)(nil)

// Open reads the CA and the keys from the store, and makes those that are missing. It replaces an intermediate that is in its last
// year, or that was made while the clock was ahead. Errors wrap ErrClock if the clock is the cause.
func Open(ctx context.Context, c Config) (*Authority, error) {
	a := &Authority{config: withDefaults(c)}
	if err := CheckTTL(a.config.CertTTL); err != nil {
		return nil, err
	}
	domain, err := a.keptDomain(ctx)
	if err != nil {
		return nil, err
	}
	a.config.TrustDomain = domain
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Read reads what another process has made, and makes nothing: it is for a standby gateway. The error is store.ErrNotFound if nothing was
// made yet.
func Read(ctx context.Context, c Config) (*Authority, error) {
	a := &Authority{config: withDefaults(c)}
	var err error
	if a.config.TrustDomain, err = c.Store.Meta(ctx, metaDomain); err != nil {
		return nil, err
	}
	h, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	a.held.Store(h)
	return a, nil
}

// open makes what is missing at the first start, reads everything, and replaces an intermediate that is worn.
func (a *Authority) open(ctx context.Context) error {
	first, err := a.firstSet(ctx)
	if err != nil {
		return err
	}
	if _, err := a.config.Store.MetaOnce(ctx, metaSet(1), first); err != nil {
		return fmt.Errorf("record trust set 1: %w", err)
	}
	h, err := a.read(ctx)
	if err != nil {
		return err
	}
	a.held.Store(h)
	if !h.worn(a.config.Now()) {
		return nil
	}
	return a.replaceWorn(ctx, h)
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

// CheckTTL refuses a lifetime of node certificates that is not from MinTTL to MaxTTL.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("certificate lifetime %v: choose one from %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

const metaDomain = "ca/trust-domain"

// keptDomain returns the trust domain on record. Every certificate names it, so it never changes.
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
		return "", fmt.Errorf("trust domain %s: this gateway's is %s and every certificate names it; leave the setting out, or start with a "+
			"new data directory", wanted, kept)
	}
	return kept, nil
}

// validDomain accepts less than SPIFFE does (SPIFFE-ID section 2.1). A domain of 63 characters still fits into a certificate's name,
// which has 64 at most (RFC 5280 appendix A).
func validDomain(domain string) bool {
	return domain != "" && len(domain) <= 63 && strings.Trim(domain, lowerDigits+".-") == "" && strings.Trim(domain, ".-") == domain
}

const lowerDigits = "abcdefghijklmnopqrstuvwxyz0123456789"

// TrustDomain returns the SPIFFE trust domain that this gateway's certificates name.
func (a *Authority) TrustDomain() string { return a.config.TrustDomain }

// NodeURI returns the SPIFFE id of a node: spiffe://<trust-domain>/node/<node-id>.
func (a *Authority) NodeURI(nodeID string) string { return a.nodeURL(nodeID).String() }

func (a *Authority) nodeURL(nodeID string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: a.config.TrustDomain, Path: "/node/" + nodeID}
}

// Roots returns the roots of the newest trust set, oldest first.
func (a *Authority) Roots() []*x509.Certificate { return slices.Clone(a.held.Load().roots) }

// RootPEM returns the roots as a PEM bundle.
func (a *Authority) RootPEM() string { return a.held.Load().set().Roots }

// RootPin returns the pin of the newest root that signed the intermediate, in the form of --root-pin. While two roots have signed it, a pin
// of either is good.
func (a *Authority) RootPin() string { return Pin(a.held.Load().root()) }

// Pin returns "sha256:" and the hex SHA-256 of a certificate's public key (SubjectPublicKeyInfo, DER).
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// AnswerKey signs the answers to signed requests. It is the newest answer key that nodes have had time to hear of. The caller must
// not change it.
func (a *Authority) AnswerKey() ed25519.PrivateKey {
	return a.held.Load().signs(roleAnswer, a.config.Now())
}

// TrustKey returns the public key that verifies the newest trust set. The set names the key that signs the next one.
func (a *Authority) TrustKey() ed25519.PublicKey { return a.held.Load().verifies }

// Welcome is what a node pins when it enrols. All parts belong to the same trust set.
type Welcome struct {
	Set       json.RawMessage   // the newest trust set, as a sign.Envelope
	Key       ed25519.PublicKey // verifies the set
	Roots     string            // PEM bundle; the set names the same roots
	AnswerKey ed25519.PublicKey // signs answers now; the set names it
}

// Welcome returns what a node pins when it enrols.
func (a *Authority) Welcome() Welcome {
	h := a.held.Load()
	return Welcome{
		Set: h.newest, Key: h.verifies, Roots: h.set().Roots,
		AnswerKey: h.signs(roleAnswer, a.config.Now()).Public().(ed25519.PublicKey),
	}
}

// TrustSets returns the chain of signed wire.TrustSet documents, oldest first, as they were first made.
func (a *Authority) TrustSets() []sign.Envelope { return slices.Clone(a.held.Load().envelopes) }

// TrustNumber returns the number of the newest set.
func (a *Authority) TrustNumber() int64 { return a.held.Load().set().Number }
