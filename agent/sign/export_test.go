package sign

import "crypto/ecdsa"

// SignatureBase, VerifyP256 and SignP256 give tests the inner steps, for vectors that cover other components than ours.
func SignatureBase(components []string, params string, value func(string) (string, bool)) ([]byte, error) {
	return signatureBase(components, params, value)
}

func VerifyP256(key *ecdsa.PublicKey, message, signature []byte) bool {
	return verifyP256(key, message, signature)
}

func SignP256(key *ecdsa.PrivateKey, message []byte) ([]byte, error) { return signP256(key, message) }

// DictionaryBytes is one member of a dictionary of byte sequences.
func DictionaryBytes(header, member string) ([]byte, error) { return dictionaryBytes(header, member) }

// FindTagged is the member of a Signature-Input that carries our tag, and its exact text.
func FindTagged(header string) (member, text string, err error) {
	member, in, err := findTagged(header)
	return member, in.text, err
}
