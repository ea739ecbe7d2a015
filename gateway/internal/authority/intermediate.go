package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/store"
)

// secretWaiting holds the key of a new intermediate until a root that is kept elsewhere has signed its certificate.
const secretWaiting = "ca/intermediate/waiting"

// intermediate is the key that signs, with one certificate for it under each root that signed it. While two roots are trusted, a node
// that knows only one of them can verify the same chain.
type intermediate struct {
	key          *ecdsa.PrivateKey
	certificates []*x509.Certificate // in the order of roots
	roots        []*x509.Certificate // the roots that signed them, oldest first
	chainTail    string              // PEM of what follows a leaf in its chain
}

// shortest is the certificate that ends first.
func (i *intermediate) shortest() *x509.Certificate {
	return slices.MinFunc(i.certificates, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
}

// keep adds the certificates that one of the roots has signed. No node believes the others any more.
func (i *intermediate) keep(certificates, roots []*x509.Certificate) {
	for _, root := range roots {
		for _, certificate := range certificates {
			if certificate.CheckSignatureFrom(root) == nil {
				i.certificates = append(i.certificates, certificate)
				i.roots = append(i.roots, root)
				i.chainTail += encodeCertificate(certificate.Raw)
				break
			}
		}
	}
}

// findIntermediate reads the intermediate, or makes the first one.
func (a *Authority) findIntermediate(ctx context.Context, roots []*x509.Certificate) (intermediate, error) {
	value, err := a.keptSecret(ctx, secretIntermediate, func() ([]byte, error) {
		now := a.config.Now()
		for _, root := range roots {
			if now.Before(root.NotBefore) || now.After(root.NotAfter) {
				return nil, outside(now, root)
			}
		}
		return a.makeIntermediate(ctx, nil, roots, nil)
	})
	if err != nil {
		return intermediate{}, err
	}
	var out intermediate
	var certificates []*x509.Certificate
	if out.key, certificates, err = parseLevels(value); err != nil {
		return intermediate{}, fmt.Errorf("secret %s: %w", secretIntermediate, err)
	}
	out.keep(certificates, roots)
	if len(out.certificates) == 0 {
		return intermediate{}, fmt.Errorf("secret %s is not signed by the root", secretIntermediate)
	}
	now := a.config.Now()
	root := out.roots[len(out.roots)-1]
	if now.Before(root.NotBefore) || now.After(root.NotAfter) {
		return intermediate{}, outside(now, root)
	}
	return out, nil
}

// outside is the error for a clock outside a root's dates.
func outside(now time.Time, root *x509.Certificate) error {
	return fmt.Errorf("the clock says %s, the CA's root is good from %s to %s; set the clock (if it was wrong at the very first start, "+
		"start with a new data directory): %w",
		date(now), date(root.NotBefore), date(root.NotAfter), ErrClock)
}

// makeIntermediate returns an intermediate in its stored form. Each root whose key is in the store signs the key (nil: a new one). For
// the other roots it takes the certificates that were signed elsewhere.
func (a *Authority) makeIntermediate(ctx context.Context, key *ecdsa.PrivateKey, roots, signed []*x509.Certificate) ([]byte, error) {
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	var certificates [][]byte
	for _, root := range roots {
		if at := slices.IndexFunc(signed, func(c *x509.Certificate) bool { return c.CheckSignatureFrom(root) == nil }); at >= 0 {
			certificates = append(certificates, signed[at].Raw)
			continue
		}
		online, err := a.rootLevel(ctx, root)
		if err != nil {
			return nil, err
		}
		if online.key == nil {
			continue
		}
		certificate, err := signIntermediate(a.config.TrustDomain, &key.PublicKey, online, a.config.Now(), a.config.Rand)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate.Raw)
	}
	if len(certificates) == 0 {
		return nil, ErrOffline
	}
	return encodeLevel(key, certificates...)
}

// ErrOffline is wrapped by errors that come from a root's key that is kept elsewhere.
var ErrOffline = errors.New("the root's key is not in the database")

// rootLevel returns a root with its key. The key is nil if it is kept elsewhere.
func (a *Authority) rootLevel(ctx context.Context, root *x509.Certificate) (level, error) {
	for _, name := range [...]string{rootSecret(root), secretRoot} {
		found, err := a.rootIn(ctx, name, root)
		if err != nil {
			return level{}, err
		}
		if found != nil {
			return *found, nil
		}
	}
	return level{certificate: root}, nil
}

// rootIn reads a root from the secret with this name; nil: it is not there.
func (a *Authority) rootIn(ctx context.Context, name string, root *x509.Certificate) (*level, error) {
	value, err := a.config.Store.Secret(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	found, err := parseLevel(value)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	if !found.certificate.Equal(root) {
		return nil, nil
	}
	return &found, nil
}

// rootSecret is the name of the secret with a root that is not the first one. The first one is in secretRoot.
func rootSecret(root *x509.Certificate) string {
	return secretRoot + "/" + strings.TrimPrefix(Pin(root), "sha256:")[:16]
}

// worn is true if the intermediate is in its last year, or was made while the clock was ahead. One that ends with its root is not
// worn: a new one would end then too.
func (h *held) worn(now time.Time) bool {
	c := h.issuing.shortest()
	return now.Before(c.NotBefore) || now.After(c.NotAfter.Add(-intermediateSpare)) && c.NotAfter.Before(h.root().NotAfter)
}

// replaceWorn makes a new intermediate at start. A second process may do the same at the same time. That does no harm: both
// intermediates chain to the root.
func (a *Authority) replaceWorn(ctx context.Context, h *held) error {
	online, err := a.rootLevel(ctx, h.root())
	if err != nil {
		return err
	}
	if online.key == nil {
		a.config.Logger.Warn("the intermediate certificate is in its last year, and the root that signs the next one is kept elsewhere: "+
			"muster ca intermediate --root DIR",
			"not_after", h.issuing.shortest().NotAfter)
		return nil
	}
	return a.setIntermediate(ctx, nil, nil, store.Actor{Name: "gateway"})
}

// NewIntermediate makes a new intermediate under every root whose key is in the store. It signs from now on. The error wraps ErrOffline
// if the store has no root's key: then RequestIntermediate is the way.
func (a *Authority) NewIntermediate(ctx context.Context, by store.Actor) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	return a.setIntermediate(ctx, nil, nil, by)
}

// setIntermediate makes an intermediate, stores it, and then signs with it. The caller holds changing, except at the start.
func (a *Authority) setIntermediate(ctx context.Context, key *ecdsa.PrivateKey, signed []*x509.Certificate, by store.Actor) error {
	h := *a.held.Load()
	value, err := a.makeIntermediate(ctx, key, h.roots, signed)
	if err != nil {
		return err
	}
	next := intermediate{}
	var certificates []*x509.Certificate
	if next.key, certificates, err = parseLevels(value); err != nil {
		return err
	}
	next.keep(certificates, h.roots)
	event := a.event("ca.intermediate_changed", by,
		map[string]string{"not_after": date(next.shortest().NotAfter), "root": Pin(next.roots[len(next.roots)-1])})
	if err := a.config.Store.SetSecret(ctx, secretIntermediate, value, event); err != nil {
		return fmt.Errorf("store secret %s: %w", secretIntermediate, err)
	}
	h.issuing = next
	a.held.Store(&h)
	return nil
}

// RequestIntermediate makes the key of a new intermediate. It returns a certificate request (PEM) for SignIntermediate, which runs
// where the root's key is. Nothing signs with the new key before InstallIntermediate.
func (a *Authority) RequestIntermediate(ctx context.Context) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	if err := a.config.Store.SetSecret(ctx, secretWaiting, raw); err != nil {
		return "", fmt.Errorf("store secret %s: %w", secretWaiting, err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// InstallIntermediate takes the certificates (PEM) that SignIntermediate made for the last request. That intermediate signs from now
// on. Roots whose key is in the store sign it too.
func (a *Authority) InstallIntermediate(ctx context.Context, bundle string, by store.Actor) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	raw, err := a.config.Store.Secret(ctx, secretWaiting)
	if errors.Is(err, store.ErrNotFound) {
		return badChange("no intermediate waits for its certificate", "begin again: muster ca intermediate --root DIR")
	}
	if err != nil {
		return err
	}
	key, err := parseP256(raw)
	if err != nil {
		return fmt.Errorf("secret %s: %w", secretWaiting, err)
	}
	signed, err := parseRoots(bundle)
	if err != nil {
		return badChange("the intermediate: "+err.Error(), "send what muster ca intermediate --root DIR signed")
	}
	if err := checkIntermediates(key, signed, a.held.Load().roots, a.config.Now()); err != nil {
		return err
	}
	return a.setIntermediate(ctx, key, signed, by)
}

// checkIntermediates refuses certificates that are not for the waiting key, or that no node would believe now.
func checkIntermediates(key *ecdsa.PrivateKey, signed, roots []*x509.Certificate, now time.Time) error {
	for _, certificate := range signed {
		ours := slices.ContainsFunc(roots, func(root *x509.Certificate) bool { return certificate.CheckSignatureFrom(root) == nil })
		switch {
		case !key.PublicKey.Equal(certificate.PublicKey):
			return badChange("the intermediate is for another key than the one that waits",
				"begin again: muster ca intermediate --root DIR")
		case !ours:
			return badChange("the intermediate is signed by none of the roots that nodes trust",
				"muster ca show lists them; a new one is announced first: muster ca rotate-root")
		case now.Before(certificate.NotBefore) || !now.Before(certificate.NotAfter):
			return badChange("the intermediate is not good now by the gateway's clock", "set the clock of the machine that signed it")
		}
	}
	return nil
}
