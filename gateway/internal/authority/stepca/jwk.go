package stepca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

var (
	errNotP256 = errors.New("it is not an EC P-256 key, the only kind that tokens are signed with here; make the provisioner with: " +
		"step crypto jwk create --kty EC --crv P-256")
	errEncryptedJWK = errors.New("it is encrypted with a password: step crypto jwe decrypt < FILE gives the plain key; keep that in a " +
		"file of mode 0600")
)

// jwk is a private key of kind EC (RFC 7518 section 6.2). An encrypted one (RFC 7516 section 7.2) has a ciphertext instead.
type jwk struct {
	Kind       string `json:"kty"`
	Curve      string `json:"crv"`
	KeyID      string `json:"kid"`
	X          string `json:"x"`
	Y          string `json:"y"`
	D          string `json:"d"`
	Ciphertext string `json:"ciphertext"`
}

// parseJWK reads a plain private JWK and its key id. Its errors hold nothing of the key.
func parseJWK(text []byte) (*ecdsa.PrivateKey, string, error) {
	var k jwk
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, "", errors.New("it begins like a JWK but is not one in JSON")
	}
	switch {
	case k.Ciphertext != "":
		return nil, "", errEncryptedJWK
	case k.Kind != "EC" || k.Curve != "P-256":
		return nil, "", errNotP256
	case k.D == "":
		return nil, "", errors.New("it is a public key; the private one has a part \"d\"")
	}
	d, err := base64.RawURLEncoding.DecodeString(k.D)
	if err != nil {
		return nil, "", errors.New("its part \"d\" is not base64url")
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
	if err != nil {
		return nil, "", errors.New("its part \"d\" is not a P-256 scalar of 32 bytes")
	}
	if x, y, err := coordinates(&key.PublicKey); err != nil || x != k.X || y != k.Y {
		return nil, "", errors.New("its parts x and y are not the public key of its part d")
	}
	return key, k.KeyID, nil
}

// coordinates are the key's x and y as a JWK has them.
func coordinates(key *ecdsa.PublicKey) (x, y string, err error) {
	point, err := key.Bytes()
	if err != nil {
		return "", "", err
	}
	return base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:]), nil
}

// thumbprint is the key's name by RFC 7638. The step command uses it as the kid of a new provisioner.
func thumbprint(key *ecdsa.PublicKey) (string, error) {
	x, y, err := coordinates(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + x + `","y":"` + y + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
