package gateway

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
)

// pins names the roots in a bundle as --root-pin does.
func pins(bundle string) []string {
	out := []string{}
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		name := "no certificate"
		if root, err := x509.ParseCertificate(block.Bytes); err == nil {
			sum := sha256.Sum256(root.RawSubjectPublicKeyInfo)
			name = "sha256:" + hex.EncodeToString(sum[:])
		}
		out = append(out, name)
	}
	return out
}
