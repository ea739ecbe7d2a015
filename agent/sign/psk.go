package sign

import (
	"errors"
	"io"
	"strings"
)

// PSKPrefix begins a generated pre-shared key, so that people and tools recognise one wherever it is pasted. The form is msk_<22
// random><6 checksum> in base62. All of it is secret: no part of it may be shown.
const PSKPrefix = "msk_"

// ErrMistypedPSK is returned for text that begins with PSKPrefix and is not a generated pre-shared key.
var ErrMistypedPSK = errors.New("the pre-shared key is mistyped or cut off: its checksum does not fit; copy it again")

// NewPSK makes a pre-shared key with 131 bits of secret from random (nil: crypto/rand).
func NewPSK(random io.Reader) (string, error) {
	body, err := randomBase62(random, bodyLength)
	if err != nil {
		return "", err
	}
	return PSKPrefix + body + checksum(PSKPrefix+body), nil
}

// CheckPSK finds a generated pre-shared key that was mistyped. The error is ErrMistypedPSK. Text without PSKPrefix passes: a person may
// have chosen it, or it was generated before the prefix existed.
func CheckPSK(text string) error {
	secret, generated := strings.CutPrefix(text, PSKPrefix)
	if generated && !intact(PSKPrefix, secret) {
		return ErrMistypedPSK
	}
	return nil
}
