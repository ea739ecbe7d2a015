package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"strings"
)

// sealedV1 begins values that are sealed with AES-256-GCM. After it comes, in standard base64, a random nonce of 12 bytes and the
// sealed value.
const sealedV1 = "v1:"

// Sealer encrypts values for the file. A sealed value opens only in the place for which it was sealed, so nobody can move it to
// another row. With random nonces, one master key is good for 2^32 values (NIST SP 800-38D, 8.3).
type Sealer struct{ aead cipher.AEAD }

// NewSealer takes a master key of 32 bytes.
func NewSealer(masterKey []byte) (Sealer, error) {
	if len(masterKey) != 32 {
		return Sealer{}, fmt.Errorf("master key of %d bytes, want 32", len(masterKey))
	}
	block, err := aes.NewCipher(masterKey)
	if err != nil {
		return Sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return Sealer{aead}, err
}

// Seal returns the text to store. The place is table/column/row id.
func (s Sealer) Seal(place string, value []byte) string {
	return sealedV1 + base64.StdEncoding.EncodeToString(s.aead.Seal(nil, nil, value, []byte(place)))
}

// Open returns the value that Seal was given for the same place, or ErrSealed.
func (s Sealer) Open(place, sealed string) ([]byte, error) {
	text, ok := strings.CutPrefix(sealed, sealedV1)
	if !ok {
		return nil, fmt.Errorf("%s: %w", place, ErrSealed)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, ErrSealed)
	}
	value, err := s.aead.Open(nil, nil, raw, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, ErrSealed)
	}
	return value, nil
}
