package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Settling is how long a new answer key stands in the trust set before the gateway signs with it. Nodes hear of a new set
// with their next heartbeat, which comes within ten minutes.
const Settling = 15 * time.Minute

// held is everything that an authority works with at one moment. Nobody changes a held: a change makes a new one.
type held struct {
	envelopes []sign.Envelope   // the chain of sets, oldest first
	sets      []wire.TrustSet   // the same, verified and decoded
	newest    []byte            // the last envelope, in JSON
	verifies  ed25519.PublicKey // verifies the newest set
	signer    ed25519.PublicKey // will verify the next set
	roots     []*x509.Certificate
	issuing   intermediate
	own       map[string][]ownKey            // by role: those of the newest set that the store has, newest first
	public    map[string][]ed25519.PublicKey // by role: as the newest set has them
}

// ownKey is a key that the newest set names and the store has.
type ownKey struct {
	key     ed25519.PrivateKey
	settled time.Time // from then on it may sign
}

// set is the newest set.
func (h *held) set() *wire.TrustSet { return &h.sets[len(h.sets)-1] }

// root is the newest root that signed the intermediate.
func (h *held) root() *x509.Certificate { return h.issuing.roots[len(h.issuing.roots)-1] }

// signs is the newest key of a role that has settled. If none has, it is the oldest one: nodes have known it for the longest time. nil:
// operators keep all keys of the role.
func (h *held) signs(role string, now time.Time) ed25519.PrivateKey {
	var key ed25519.PrivateKey
	for _, own := range h.own[role] {
		if key = own.key; !now.Before(own.settled) {
			break
		}
	}
	return key
}

// read reads the chain of sets from the database, and the keys that the newest set names. A chain that does not verify is an error,
// because every node would refuse it.
func (a *Authority) read(ctx context.Context) (*held, error) {
	h := &held{}
	first, err := a.key(ctx, secretTrust)
	if err != nil {
		return nil, err
	}
	h.signer = first.public
	for number := 1; ; number++ {
		text, err := a.config.Store.Meta(ctx, metaSet(number))
		if errors.Is(err, store.ErrNotFound) && number > 1 {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read trust set %d: %w", number, err)
		}
		if err := h.follow([]byte(text), a.config.TrustDomain); err != nil {
			return nil, fmt.Errorf("recorded trust set %d: %w", number, err)
		}
	}
	if err := a.complete(ctx, h); err != nil {
		return nil, fmt.Errorf("trust set %d: %w", len(h.sets), err)
	}
	return h, nil
}

// complete finds the roots, the keys and the intermediate for the newest set.
func (a *Authority) complete(ctx context.Context, h *held) error {
	var err error
	if h.roots, err = parseRoots(h.set().Roots); err != nil {
		return err
	}
	if err := a.checkFirstRoot(ctx, h); err != nil {
		return err
	}
	if err := a.findKeys(ctx, h); err != nil {
		return err
	}
	h.issuing, err = a.findIntermediate(ctx, h.roots)
	return err
}

// checkFirstRoot refuses a database whose parts come from two gateways: its root is not in its first set.
func (a *Authority) checkFirstRoot(ctx context.Context, h *held) error {
	value, err := a.config.Store.Secret(ctx, secretRoot)
	if err != nil {
		return fmt.Errorf("read secret %s: %w", secretRoot, err)
	}
	root, err := parseLevel(value)
	if err != nil {
		return fmt.Errorf("secret %s: %w", secretRoot, err)
	}
	first, err := parseRoots(h.sets[0].Roots)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(first, root.certificate.Equal) {
		return fmt.Errorf("secret %s is not the root that trust set 1 names: the database was put together from two; restore a backup",
			secretRoot)
	}
	return nil
}

// findKeys finds the keys of the newest set.
func (a *Authority) findKeys(ctx context.Context, h *held) error {
	h.own = map[string][]ownKey{}
	h.public = map[string][]ed25519.PublicKey{}
	for _, role := range workRoles() {
		list, err := keysOf(h.set(), role)
		if err != nil {
			return err
		}
		for _, text := range *list {
			found, err := a.keyOf(ctx, role, text)
			if err != nil {
				return err
			}
			h.public[role] = append(h.public[role], found.public)
			if found.private != nil {
				h.own[role] = append(h.own[role], ownKey{found.private, h.settles(role, text)})
			}
		}
	}
	if len(h.own[roleAnswer]) == 0 {
		return errors.New("the database holds none of the answer keys that it names; restore a backup")
	}
	return nil
}

// settles is when a key may begin to sign. An answer key that all sets have named may always sign: every node knows it. For a task or a
// pointer nodes fetch the set that names its key.
func (h *held) settles(role, key string) time.Time {
	if at := h.began(role, key); at > 0 && role == roleAnswer {
		return h.sets[at].IssuedAt.Add(Settling)
	}
	return time.Time{}
}

// began is the index of the first set from which on every set, up to the newest, names the key.
func (h *held) began(role, key string) int {
	at := len(h.sets) - 1
	for ; at > 0; at-- {
		if list, err := keysOf(&h.sets[at-1], role); err != nil || !slices.Contains(*list, key) {
			break
		}
	}
	return at
}

// follow verifies the next set of the chain and adds it.
func (h *held) follow(text []byte, domain string) error {
	var envelope sign.Envelope
	if err := sign.DecodeStrict(text, &envelope); err != nil {
		return err
	}
	payload, err := envelope.Open(h.signer, sign.RoleTrust)
	if err != nil {
		return err
	}
	var set wire.TrustSet
	if err := sign.DecodeStrict(payload, &set); err != nil {
		return err
	}
	if want := int64(len(h.sets) + 1); set.Number != want || set.TrustDomain != domain {
		return fmt.Errorf("it says number %d of trust domain %.80q", set.Number, set.TrustDomain)
	}
	next, err := sign.DecodeKey(set.TrustKey)
	if err != nil {
		return err
	}
	h.envelopes = append(h.envelopes, envelope)
	h.sets = append(h.sets, set)
	h.newest = text
	h.verifies = h.signer
	h.signer = next
	return nil
}

// parseRoots reads a bundle of CA certificates, at least one.
func parseRoots(bundle string) ([]*x509.Certificate, error) {
	var roots []*x509.Certificate
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !root.IsCA {
			return nil, errors.New("one of its roots is no CA certificate")
		}
		roots = append(roots, root)
	}
	if len(roots) == 0 {
		return nil, errors.New("it names no root")
	}
	return roots, nil
}
