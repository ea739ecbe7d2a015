package stepca

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/authority"
)

// credential is the key with which the gateway signs tokens for step-ca.
type credential struct {
	key   *ecdsa.PrivateKey
	keyID string              // of a JWK provisioner
	chain []*x509.Certificate // of an X5C provisioner, leaf first; nil: JWK
}

// expires is when an X5C credential ends. No certificate may end later. False: the credential never ends.
func (c *credential) expires() (time.Time, bool) {
	if c.chain == nil {
		return time.Time{}, false
	}
	return c.chain[0].NotAfter, true
}

// openCredential reads the files, and reads them again when they change: so an X5C certificate can be renewed while the gateway runs.
func openCredential(c Config) (*authority.FollowedFiles[*credential], error) {
	return authority.OpenFollowed(authority.Followed[*credential]{
		What: "credential for step-ca", Names: []string{c.KeyFile, c.CertFile}, Now: c.Now, Logger: c.Logger,
		Read: func() (*credential, error) { return readCredential(c.Settings, c.KeyID) },
	})
}

// readCredential reads the credential from the files. Its errors name the file, and hold nothing of a key.
func readCredential(s Settings, givenID string) (*credential, error) {
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("the provisioner's key: %w", err)
	}
	key, keyID, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("the provisioner's key, file %s: %w", s.KeyFile, err)
	}
	keyID = cmp.Or(givenID, keyID)
	if s.CertFile == "" {
		if keyID == "" {
			keyID, err = thumbprint(&key.PublicKey)
		}
		return &credential{key: key, keyID: keyID}, err
	}
	if text, err = os.ReadFile(s.CertFile); err != nil {
		return nil, fmt.Errorf("the X5C certificate: %w", err)
	}
	chain, err := parseCertificates(text)
	if err == nil {
		err = checkSigner(chain[0], key)
	}
	if err != nil {
		return nil, fmt.Errorf("the X5C certificate, file %s: %w", s.CertFile, err)
	}
	return &credential{key: key, chain: chain}, nil
}

// checkSigner refuses a certificate with which step-ca accepts no X5C token.
func checkSigner(leaf *x509.Certificate, key *ecdsa.PrivateKey) error {
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		return errors.New("it is not the certificate of the provisioner's key; the leaf stands first")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("it is not for digital signatures, which step-ca demands of one that signs tokens")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return errors.New("it is not for clients (clientAuth), which step-ca demands of one that signs tokens")
	}
	return nil
}

// parseKey reads a P-256 key from a plain JWK, with its id, or from PEM (PKCS#8 or SEC 1). Its errors hold nothing of the key.
func parseKey(text []byte) (*ecdsa.PrivateKey, string, error) {
	text = bytes.TrimSpace(text)
	if len(text) > 0 && text[0] == '{' {
		return parseJWK(text)
	}
	if bytes.HasPrefix(text, []byte("eyJ")) {
		return nil, "", errEncryptedJWK
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, "", errors.New("there is neither a JWK nor a private key in PEM in it")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue // openssl puts EC PARAMETERS first
		}
		key, err := parsePEMKey(block)
		return key, "", err
	}
}

func parsePEMKey(block *pem.Block) (*ecdsa.PrivateKey, error) {
	var key any
	var err error
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return nil, errors.New("it is encrypted with a password: step crypto change-pass FILE --no-password --insecure gives a plain one")
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, errors.New("its PEM block holds no private key that can be read")
	}
	p256, ok := key.(*ecdsa.PrivateKey)
	if !ok || p256.Curve != elliptic.P256() {
		return nil, errNotP256
	}
	return p256, nil
}
