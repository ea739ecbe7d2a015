package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Roles of the Ed25519 keys, as RotateKey takes them.
const (
	roleTrust   = "trust"
	roleAnswer  = "answer"
	roleTask    = "task"
	roleRelease = "release"

	secretTrust = "key/" + roleTrust
)

// workRoles are those of the keys that sign something else than the next set.
func workRoles() [3]string { return [...]string{roleAnswer, roleTask, roleRelease} }

// ed25519Key is a key whose private half may be kept elsewhere.
type ed25519Key struct {
	public  ed25519.PublicKey
	private ed25519.PrivateKey // nil: not in the store
}

// firstSecret is the name of the secret with the first key of a role.
func firstSecret(role string) string { return "key/" + role }

// keySecret is the name of the secret with a later key of a role.
func keySecret(role, id string) string { return firstSecret(role) + "/" + id }

// key reads the key that the store has under a name.
func (a *Authority) key(ctx context.Context, name string) (ed25519Key, error) {
	value, err := a.config.Store.Secret(ctx, name)
	if err != nil {
		return ed25519Key{}, fmt.Errorf("read secret %s: %w", name, err)
	}
	return parseKey(name, value)
}

// parseKey reads a private key in PKCS#8, or in PKIX the public half of one that is kept elsewhere.
func parseKey(name string, value []byte) (ed25519Key, error) {
	if parsed, err := x509.ParsePKCS8PrivateKey(value); err == nil {
		if key, ok := parsed.(ed25519.PrivateKey); ok {
			return ed25519Key{key.Public().(ed25519.PublicKey), key}, nil
		}
	}
	if parsed, err := x509.ParsePKIXPublicKey(value); err == nil {
		if key, ok := parsed.(ed25519.PublicKey); ok {
			return ed25519Key{public: key}, nil
		}
	}
	return ed25519Key{}, fmt.Errorf("secret %s is not an Ed25519 key in PKCS#8", name)
}

// keyOf finds the key of a role that a set names. Its private half is nil if the store does not have it.
func (a *Authority) keyOf(ctx context.Context, role, encoded string) (ed25519Key, error) {
	public, err := sign.DecodeKey(encoded)
	if err != nil {
		return ed25519Key{}, err
	}
	for _, name := range [...]string{keySecret(role, sign.KeyID(public)), firstSecret(role)} {
		found, err := a.key(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return ed25519Key{}, err
		}
		if found.public.Equal(public) {
			return found, nil
		}
	}
	return ed25519Key{public: public}, nil
}

func newEd25519() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

// newKey makes and stores a key of a role. It is used when a set names it: if none ever does, the stored key does no harm.
func (a *Authority) newKey(ctx context.Context, role string) (string, error) {
	value, err := newEd25519()
	if err != nil {
		return "", err
	}
	made, err := parseKey("", value)
	if err != nil {
		return "", err
	}
	name := keySecret(role, sign.KeyID(made.public))
	if err := a.config.Store.SetSecret(ctx, name, value); err != nil {
		return "", fmt.Errorf("store secret %s: %w", name, err)
	}
	return sign.EncodeKey(made.public), nil
}

// metaSet is the meta key of the trust set with this number.
func metaSet(number int) string { return "trust/" + strconv.Itoa(number) }

// firstSet is the set with number 1. It is the one on record, or a new one, for which the keys and the root are made if they are
// missing.
func (a *Authority) firstSet(ctx context.Context) (string, error) {
	recorded, err := a.config.Store.Meta(ctx, metaSet(1))
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return recorded, err
	}
	made, err := a.keptSecret(ctx, secretRoot, func() ([]byte, error) { return newRoot(a.config.TrustDomain, a.config.Now(), a.config.Rand) })
	if err != nil {
		return "", err
	}
	root, err := parseLevel(made)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", secretRoot, err)
	}
	keys := map[string]ed25519Key{}
	for _, role := range [...]string{roleTrust, roleAnswer, roleTask, roleRelease} {
		value, err := a.keptSecret(ctx, firstSecret(role), newEd25519)
		if err != nil {
			return "", err
		}
		if keys[role], err = parseKey(firstSecret(role), value); err != nil {
			return "", err
		}
	}
	verifier := func(role string) []string { return []string{sign.EncodeKey(keys[role].public)} }
	payload, err := json.Marshal(wire.TrustSet{
		Number: 1, IssuedAt: a.config.Now().UTC(), TrustDomain: a.config.TrustDomain,
		TrustKey: sign.EncodeKey(keys[roleTrust].public), Roots: encodeCertificate(root.certificate.Raw),
		AnswerKeys: verifier(roleAnswer), TaskKeys: verifier(roleTask), ReleaseKeys: verifier(roleRelease),
	})
	if err != nil {
		return "", err
	}
	envelope, err := json.Marshal(sign.Seal(keys[roleTrust].private, sign.RoleTrust, payload))
	return string(envelope), err
}
