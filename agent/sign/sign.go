// Package sign keeps both ends of every proof that agent and gateway exchange: tokens and the keys made from them, the
// MACs of an enrolment, the signatures of requests (RFC 9421) and of answers, and signed envelopes.
//
// It verifies before it parses. Ids and nonces alone are read before, because they say with which key to verify. Secrets are compared
// in constant time and never appear in an error or in a value's String.
package sign

import (
	"encoding/base64"
	"errors"
)

// ErrBadProof is returned when a MAC or a signature does not fit.
var ErrBadProof = errors.New("proof does not fit")

// ErrMalformed is wrapped by every error about text of a wrong form.
var ErrMalformed = errors.New("malformed")

func encode64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// decode64 takes standard base64 with padding and nothing else: no line breaks, no stray bits at the end.
func decode64(s string) ([]byte, error) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\r' || s[i] == '\n' {
			return nil, ErrMalformed
		}
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}
