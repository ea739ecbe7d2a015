package sign

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"math/big"
)

const p256Size = 32 // bytes of r and of s

// signP256 gives the raw form r || s of RFC 9421 section 3.3.4.
func signP256(key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	if key == nil || key.Curve != elliptic.P256() {
		return nil, errors.New("requests are signed with an ECDSA P-256 key")
	}
	sum := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return nil, err
	}
	out := make([]byte, 2*p256Size)
	r.FillBytes(out[:p256Size])
	s.FillBytes(out[p256Size:])
	return out, nil
}

// verifyP256 checks what signP256 made.
func verifyP256(key *ecdsa.PublicKey, message, signature []byte) bool {
	if key == nil || key.Curve != elliptic.P256() || len(signature) != 2*p256Size {
		return false
	}
	sum := sha256.Sum256(message)
	r := new(big.Int).SetBytes(signature[:p256Size])
	s := new(big.Int).SetBytes(signature[p256Size:])
	return ecdsa.Verify(key, sum[:], r, s)
}
