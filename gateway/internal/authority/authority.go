// Package authority is the gateway's certificate authority and the keeper of its signing keys.
//
// One root (20 years, path length 1) signs one intermediate (5 years), which signs the nodes' certificates and the
// gateway's own serving certificate. Beside them stand Ed25519 keys with one role each: trust signs sets of roots and
// verifier keys and nothing else; answer, task and release are named in those sets.
//
// The store keeps the keys as sealed secrets. A level's key and certificate are one value: many processes may start at the same
// moment on one database, and all end with the same CA. The root's key is read to sign an intermediate, and dropped after that. It
// and the trust key may be kept elsewhere; then the store has their public halves alone. A certificate takes nothing from a
// certificate request but its public key, and CheckCSR refuses requests that ask for more.
//
// What nodes believe (roots and verifier keys) changes by a next trust set alone. The set is stored before anything signs with its
// keys. The intermediate may change at any time, because nodes verify by root.
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
	"sync"
	"sync/atomic"
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
	// Issue certifies the request's public key for a node. The request's CSR must have passed CheckCSR. What it gives is a
	// store.NewCertificate whose chain begins with the leaf and goes on with the intermediate.
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
	CertTTL     time.Duration // node certificates, MinTTL to MaxTTL; 0: DefaultTTL

	Now    func() time.Time // nil: time.Now
	Rand   io.Reader        // nil: crypto/rand; for serial numbers and the trust domain, keys always use crypto/rand
	Logger *slog.Logger     // nil: slog.Default()
}

// Authority is the built-in CA with the gateway's Ed25519 keys. It is safe for concurrent use.
type Authority struct {
	config   Config
	changing sync.Mutex // one change at a time
	held     atomic.Pointer[held]
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
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// open makes what is missing at a first start, reads all of it, and replaces an intermediate that is worn.
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
		return "", fmt.Errorf("trust domain %s: this gateway's is %s and every certificate names it; leave the setting out, or start with a "+
			"new data directory", wanted, kept)
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

// Roots are those of the newest trust set, oldest first.
func (a *Authority) Roots() []*x509.Certificate { return slices.Clone(a.held.Load().roots) }

// RootPEM is Roots as a PEM bundle.
func (a *Authority) RootPEM() string { return a.held.Load().set().Roots }

// RootPin is the pin of the newest root that the serving chain ends in, in the form of --root-pin. While the chain ends in two
// roots, a pin of either is good.
func (a *Authority) RootPin() string { return Pin(a.held.Load().root()) }

// Pin is "sha256:" and the hex SHA-256 of a certificate's public key (SubjectPublicKeyInfo, DER).
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// AnswerKey signs the answers to signed requests: the newest one that nodes have had time to hear of. The caller must not
// change it.
func (a *Authority) AnswerKey() ed25519.PrivateKey { return a.held.Load().answerKey(a.config.Now()) }

// TrustKey is the public key that verifies the newest trust set. The set names the key that signs the next one.
func (a *Authority) TrustKey() ed25519.PublicKey { return a.held.Load().verifies }

// Welcome is what a node that enrols pins, all of one moment.
type Welcome struct {
	Set       json.RawMessage   // the newest, a sign.Envelope
	Key       ed25519.PublicKey // that verifies it
	Roots     string            // PEM bundle, those of the set
	AnswerKey ed25519.PublicKey // that signs now; the set names it
}

// Welcome gives what a node that enrols pins.
func (a *Authority) Welcome() Welcome {
	h := a.held.Load()
	return Welcome{
		Set: h.newest, Key: h.verifies, Roots: h.set().Roots,
		AnswerKey: h.answerKey(a.config.Now()).Public().(ed25519.PublicKey),
	}
}

// TrustSets is the chain of signed wire.TrustSet documents, oldest first, as they were first made.
func (a *Authority) TrustSets() []sign.Envelope { return slices.Clone(a.held.Load().envelopes) }

// TrustNumber is the number of the newest set.
func (a *Authority) TrustNumber() int64 { return a.held.Load().set().Number }
