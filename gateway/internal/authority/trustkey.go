package authority

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"muster/agent/sign"
)

// ExportTrustKey moves the key that signs the next set from the store to a new file (PKCS#8 PEM, mode 0600). Its public half stays in
// the store. The key is on the disk there before the store loses it. No gateway may serve the database meanwhile. The caller scrubs
// the database afterwards, because the file still holds the deleted key.
func (a *Authority) ExportTrustKey(ctx context.Context, file string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	signer, err := a.trustSigner(ctx)
	if err != nil {
		return err
	}
	if signer == nil {
		return errors.New("the trust key is kept out of this database already")
	}
	raw, err := x509.MarshalPKCS8PrivateKey(signer.private)
	if err != nil {
		return err
	}
	if err := writeNew(a.config.Disk, file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(signer.public)
	if err != nil {
		return err
	}
	return a.config.Store.SetSecret(ctx, a.trustSecret(ctx, signer.public), public)
}

// ImportTrustKey puts a key that ExportTrustKey wrote back into the store.
func (a *Authority) ImportTrustKey(ctx context.Context, file string) error {
	a.changing.Lock()
	defer a.changing.Unlock()
	key, err := ReadTrustKey(file)
	if err != nil {
		return err
	}
	public := key.Public().(ed25519.PublicKey)
	if !public.Equal(a.held.Load().signer) {
		return fmt.Errorf("%s holds the key %s, but the next set is signed with %s", file, sign.KeyID(public), sign.KeyID(a.held.Load().signer))
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return a.config.Store.SetSecret(ctx, a.trustSecret(ctx, public), raw)
}

// trustSecret is the name of the secret with a trust key. The first trust key has a name of its own.
func (a *Authority) trustSecret(ctx context.Context, key ed25519.PublicKey) string {
	if first, err := a.key(ctx, secretTrust); err == nil && first.public.Equal(key) {
		return secretTrust
	}
	return keySecret(roleTrust, sign.KeyID(key))
}

// ReadTrustKey reads a file that ExportTrustKey wrote. Its errors hold none of the text.
func ReadTrustKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the trust key: %w", err)
	}
	if block, rest := pem.Decode(text); block != nil && len(rest) == 0 {
		if found, err := parseKey("", block.Bytes); err == nil && found.private != nil {
			return found.private, nil
		}
	}
	return nil, fmt.Errorf("%s does not hold a trust key as muster key export --trust writes it", file)
}

// SignSet signs a trust set with the trust key in a file.
func SignSet(file string, payload []byte) (sign.Envelope, error) {
	key, err := ReadTrustKey(file)
	if err != nil {
		return sign.Envelope{}, err
	}
	return sign.Seal(key, sign.RoleTrust, payload), nil
}
