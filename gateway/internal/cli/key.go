package cli

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// SigningKey reads an operator's private Ed25519 key in PKCS#8, as muster key generate and openssl genpkey write it.
func (s *Session) SigningKey(file string) (ed25519.PrivateKey, error) {
	raw, err := s.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	const hint = "muster key generate FILE makes one; so does openssl genpkey -algorithm ed25519"
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, Hinted(file+" holds no key in PEM", hint)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, Hinted(file+" holds no private Ed25519 key", hint)
	}
	return key, nil
}
