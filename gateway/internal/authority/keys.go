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

// openKeys reads the Ed25519 keys, one sealed secret each, or makes them.
func (a *Authority) openKeys(ctx context.Context) error {
	for _, one := range []struct {
		name string
		key  *ed25519.PrivateKey
	}{
		{"key/trust", &a.trust}, {"key/answer", &a.answer}, {"key/task", &a.task}, {"key/release", &a.release},
	} {
		value, err := a.keptSecret(ctx, one.name, newEd25519)
		if err != nil {
			return err
		}
		parsed, err := x509.ParsePKCS8PrivateKey(value)
		key, ok := parsed.(ed25519.PrivateKey)
		if err != nil || !ok {
			return fmt.Errorf("secret %s is not an Ed25519 key in PKCS#8", one.name)
		}
		*one.key = key
	}
	return nil
}

func newEd25519() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

func metaSet(number int) string { return "trust/" + strconv.Itoa(number) }

// openSets reads the chain of trust sets and makes the first one where there is none. A chain that does not verify is
// an error: nodes would refuse it, and it would be served to all of them.
func (a *Authority) openSets(ctx context.Context) error {
	first, err := a.firstSet()
	if err != nil {
		return err
	}
	text, err := a.config.Store.MetaOnce(ctx, metaSet(1), first)
	for number, signer := 1, a.TrustKey(); ; number++ {
		if number > 1 {
			text, err = a.config.Store.Meta(ctx, metaSet(number))
		}
		if number > 1 && errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read trust set %d: %w", number, err)
		}
		var envelope sign.Envelope
		if envelope, signer, err = a.checkSet(text, number, signer); err != nil {
			return fmt.Errorf("recorded trust set %d: %w", number, err)
		}
		a.sets = append(a.sets, envelope)
	}
}

// firstSet names the keys and the root of this gateway in a set with number 1.
func (a *Authority) firstSet() (string, error) {
	payload, err := json.Marshal(wire.TrustSet{
		Number: 1, IssuedAt: a.config.Now().UTC(), TrustDomain: a.config.TrustDomain,
		TrustKey: sign.EncodeKey(a.TrustKey()), Roots: a.RootPEM(),
		AnswerKeys: verifier(a.answer), TaskKeys: verifier(a.task), ReleaseKeys: verifier(a.release),
	})
	if err != nil {
		return "", err
	}
	envelope, err := json.Marshal(sign.Seal(a.trust, sign.RoleTrust, payload))
	return string(envelope), err
}

func verifier(key ed25519.PrivateKey) []string {
	return []string{sign.EncodeKey(key.Public().(ed25519.PublicKey))}
}

// checkSet reads one recorded set and gives the key that signs the next one.
func (a *Authority) checkSet(text string, number int, signer ed25519.PublicKey) (sign.Envelope, ed25519.PublicKey, error) {
	var envelope sign.Envelope
	if err := sign.DecodeStrict([]byte(text), &envelope); err != nil {
		return envelope, nil, err
	}
	payload, err := envelope.Open(signer, sign.RoleTrust)
	if err != nil {
		return envelope, nil, err
	}
	var set wire.TrustSet
	if err := sign.DecodeStrict(payload, &set); err != nil {
		return envelope, nil, err
	}
	if set.Number != int64(number) || set.TrustDomain != a.config.TrustDomain {
		return envelope, nil, fmt.Errorf("it says number %d of trust domain %.80q", set.Number, set.TrustDomain)
	}
	next, err := sign.DecodeKey(set.TrustKey)
	return envelope, next, err
}
