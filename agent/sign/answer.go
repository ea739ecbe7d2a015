package sign

import (
	"crypto/ed25519"
	"fmt"
	"strconv"
)

const answerContext = "muster answer v1\n"

// SignAnswer returns the Muster-Answer header: the gateway's Ed25519 signature over the request's nonce, the status and the digest of the
// body. By it an agent can believe an answer that came through a proxy which ends TLS.
func SignAnswer(key ed25519.PrivateKey, nonce string, status int, body []byte) string {
	return SignAnswerDigest(key, nonce, status, ContentDigest(body))
}

// SignAnswerDigest does what SignAnswer does, for a body that is not in memory, by its ContentDigest. An answer with a part of a file (206)
// is signed with the digest of the whole file. The node has the other parts from before, and checks all parts together.
func SignAnswerDigest(key ed25519.PrivateKey, nonce string, status int, digest string) string {
	return encode64(ed25519.Sign(key, answerText(nonce, status, digest)))
}

// VerifyAnswer checks a Muster-Answer header. With an error, which is ErrBadProof, the answer may come from anybody.
func VerifyAnswer(header string, key ed25519.PublicKey, nonce string, status int, body []byte) error {
	return VerifyAnswerDigest(header, key, nonce, status, ContentDigest(body))
}

// VerifyAnswerDigest does what VerifyAnswer does, for a body that is not in memory, by the digest that SignAnswerDigest takes.
func VerifyAnswerDigest(header string, key ed25519.PublicKey, nonce string, status int, digest string) error {
	signature, err := decode64(header)
	if err != nil || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, answerText(nonce, status, digest), signature) {
		return ErrBadProof
	}
	return nil
}

// EncodeKey returns a public Ed25519 key in the form in which it travels: standard base64.
func EncodeKey(key ed25519.PublicKey) string { return encode64(key) }

// DecodeKey reads what EncodeKey wrote.
func DecodeKey(text string) (ed25519.PublicKey, error) {
	raw, err := decode64(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("an Ed25519 public key is 32 bytes in base64: %w", ErrMalformed)
	}
	return ed25519.PublicKey(raw), nil
}

func answerText(nonce string, status int, digest string) []byte {
	return []byte(answerContext + nonce + "\n" + strconv.Itoa(status) + "\n" + digest)
}
