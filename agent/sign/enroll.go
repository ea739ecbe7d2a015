package sign

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// KeySize is the size in bytes of an enrolment key.
const KeySize = 32

const (
	enrollInfo      = "muster enroll v1"
	pskSalt         = "muster psk v1"
	pskRounds       = 600_000
	registerContext = "muster register v1\n"
	welcomeContext  = "muster welcome v1\n"
)

// EnrollKey derives a token's key from its secret by HKDF-SHA256 (RFC 5869). It needs no salt, because a secret has 131 random bits.
func EnrollKey(secret string) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(secret), nil, enrollInfo, KeySize)
}

// PSKKey derives the enrolment key of a pre-shared key. People choose such keys, so it is slow by design: PBKDF2 makes each guess cost a
// noticeable part of a second.
func PSKKey(psk string) ([]byte, error) {
	stretched, err := pbkdf2.Key(sha256.New, psk, []byte(pskSalt), pskRounds, KeySize)
	if err != nil {
		return nil, err
	}
	return EnrollKey(string(stretched))
}

// PSKID names a PSK's key without giving it away: psk-<8 hex of SHA-256(key)>.
func PSKID(key []byte) string {
	sum := sha256.Sum256(key)
	return pskIDPrefix + hex.EncodeToString(sum[:4])
}

const pskIDPrefix = "psk-"

// IsPSKID reports whether a credential's id is a PSK's. The others are tokens'.
func IsPSKID(id string) bool { return strings.HasPrefix(id, pskIDPrefix) }

// Authorization returns the header of a register request for these body bytes.
func Authorization(credentialID string, key, body []byte) string {
	return fmt.Sprintf(`Muster credential="%s", mac="%s"`, credentialID, encode64(registerMAC(key, body)))
}

// Presented is what a register request's Authorization header says. Nothing of it is verified.
type Presented struct {
	CredentialID string
	mac          []byte
}

// ParseAuthorization reads the header that Authorization writes. Its errors wrap ErrMalformed. If the header names a credential but
// has no MAC of the right form, it returns the credential with the error.
func ParseAuthorization(header string) (Presented, error) {
	scheme, rest, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Muster") {
		return Presented{}, fmt.Errorf("the Authorization scheme is not Muster: %w", ErrMalformed)
	}
	first, second, _ := strings.Cut(rest, ",")
	var credential, mac string
	pairs := 0
	for _, part := range [...]string{first, second} {
		name, value, _ := strings.Cut(strings.Trim(part, " \t"), "=")
		if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
			continue
		}
		pairs++
		switch value = value[1 : len(value)-1]; name {
		case "credential":
			credential = value
		case "mac":
			mac = value
		}
	}
	raw, err := decode64(mac)
	switch { // an empty value: its pair is missing
	case !credentialID(credential):
		return Presented{}, fmt.Errorf("the Authorization header needs a credential and a mac: %w", ErrMalformed)
	case pairs != 2 || err != nil || len(raw) != sha256.Size:
		return Presented{CredentialID: credential}, fmt.Errorf("the Authorization header needs a credential and a mac: %w", ErrMalformed)
	}
	return Presented{CredentialID: credential, mac: raw}, nil
}

// Verify checks the MAC over the body bytes as they arrived. The error is ErrBadProof.
func (p Presented) Verify(key, body []byte) error {
	if !hmac.Equal(p.mac, registerMAC(key, body)) {
		return ErrBadProof
	}
	return nil
}

// WelcomeProof returns the Muster-Proof header for an answer to the register request that carried nonce. nonce is as the JSON had it, and
// empty if it could not be read.
func WelcomeProof(key []byte, nonce string, status int, body []byte) string {
	return encode64(welcomeMAC(key, nonce, status, body))
}

// VerifyWelcome checks a Muster-Proof header. With an error, which is ErrBadProof, nothing of the answer may be believed.
func VerifyWelcome(header string, key []byte, nonce string, status int, body []byte) error {
	mac, err := decode64(header)
	if err != nil || plainNonce(nonce) != nonce || !hmac.Equal(mac, welcomeMAC(key, nonce, status, body)) {
		return ErrBadProof
	}
	return nil
}

// registerMAC and welcomeMAC begin with different contexts, so that a MAC of the one never passes for a MAC of the other.
func registerMAC(key, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(registerContext))
	h.Write(body)
	return h.Sum(nil)
}

func welcomeMAC(key []byte, nonce string, status int, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(welcomeContext + plainNonce(nonce) + "\n" + strconv.Itoa(status) + "\n"))
	h.Write(body)
	return h.Sum(nil)
}

// plainNonce is the nonce where it has a nonce's form, else nothing. Refusals are proven too, so anybody can get a proof for a nonce of
// their choice. A line break in the nonce would make that proof fit another status and another body.
func plainNonce(nonce string) string {
	if len(nonce) > 64 || !every(nonce, func(c byte) bool { return c > ' ' && c <= '~' }) {
		return ""
	}
	return nonce
}

// credentialID accepts mse_<id>, msb_<id> and psk-<8 hex>.
func credentialID(id string) bool {
	if hexPart, ok := strings.CutPrefix(id, pskIDPrefix); ok {
		return lowerHex(hexPart, 8)
	}
	kind, rest, ok := strings.Cut(id, "_")
	return ok && (TokenKind(kind) == EnrollmentToken || TokenKind(kind) == BootstrapToken) && allBase62(rest, leastID, longestPart)
}
