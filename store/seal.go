package store

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// sealedV1 marks values sealed as: AES-256-GCM, a random nonce of 12 bytes in front, all in standard base64.
const sealedV1 = "v1:"

// errSealed says that a sealed value was not made under this master key for this place, or was changed since.
var errSealed = errors.New("a sealed value does not open: it was sealed under another master key, moved, or changed")

// sealer keeps values secret in the file, and bound to the row that they were stored in. Random nonces allow 2^32 values under
// one master key.
type sealer struct{ aead cipher.AEAD }

func newSealer(masterKey []byte) (sealer, error) {
	if len(masterKey) != 32 {
		return sealer{}, fmt.Errorf("master key of %d bytes, want 32", len(masterKey))
	}
	block, err := aes.NewCipher(masterKey)
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// seal returns the text to store. The place is table/column/row id.
func (s sealer) seal(place string, value []byte) string {
	return sealedV1 + base64.StdEncoding.EncodeToString(s.aead.Seal(nil, nil, value, []byte(place)))
}

// open undoes seal for the same place.
func (s sealer) open(place, sealed string) ([]byte, error) {
	text, ok := strings.CutPrefix(sealed, sealedV1)
	if !ok {
		return nil, fmt.Errorf("%s: %w", place, errSealed)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, errSealed)
	}
	value, err := s.aead.Open(nil, nil, raw, []byte(place))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, errSealed)
	}
	return value, nil
}
