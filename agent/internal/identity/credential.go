package identity

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"muster/agent/sign"
)

// minPSK is the least length of a pre-shared key in characters.
const minPSK = 20

// Credential is what a node enrols with. The gateway knows it by its ID. The key is made from the secret, and the secret is not
// kept. No way to print or to log a credential shows the key.
type Credential struct {
	ID     string
	Shared bool // a pre-shared key: it proves membership, not the gateway
	key    []byte
}

// ParseCredential reads a token (mse_, msb_) or a pre-shared key. To read a pre-shared key takes a noticeable part of a second: see
// sign.PSKKey. If the prefix tells what was mistyped, the error names it. No error repeats the text.
func ParseCredential(text string) (Credential, error) {
	text = strings.TrimSpace(text)
	switch kind, _, _ := strings.Cut(text, "_"); sign.TokenKind(kind) {
	case sign.EnrollmentToken, sign.BootstrapToken:
		return parseToken(text)
	case sign.AccountToken:
		return Credential{}, errors.New("this is an operator's API token (msa_), which enrols nobody: make an enrollment token " +
			"with muster token create")
	}
	// A short text is neither: say so before the slow key derivation.
	if n := utf8.RuneCountInString(text); n < minPSK && !strings.HasPrefix(text, sign.PSKPrefix) {
		return Credential{}, fmt.Errorf("neither a token (mse_... or msb_...) nor a pre-shared key, which has at least %d characters: "+
			"copy it again as the gateway printed it", minPSK)
	}
	if err := sign.CheckPSK(text); err != nil {
		return Credential{}, err
	}
	key, err := sign.PSKKey(text)
	if err != nil {
		return Credential{}, err
	}
	return Credential{ID: sign.PSKID(key), Shared: true, key: key}, nil
}

// parseToken reads a token. The fetch part of a bootstrap token, which stands in URLs, is easily taken for the whole, so it has an error
// of its own.
func parseToken(text string) (Credential, error) {
	if strings.HasPrefix(text, string(sign.BootstrapToken)+"_") && (!strings.Contains(text, ".") || strings.HasSuffix(text, ".")) {
		return Credential{}, errors.New("this is only the fetch part of a bootstrap token, which enrols nobody: what stands behind the " +
			"dot is missing; give the whole token, as muster bootstrap printed it")
	}
	token, err := sign.ParseToken(text)
	if err != nil {
		return Credential{}, err
	}
	key, err := sign.EnrollKey(token.Secret)
	if err != nil {
		return Credential{}, err
	}
	return Credential{ID: token.Public(), key: key}, nil
}

// Forget overwrites the key. The credential is of no use afterwards.
func (c *Credential) Forget() { clear(c.key) }

// String returns the credential's id.
func (c Credential) String() string { return c.ID }

// GoString returns String, for %#v.
func (c Credential) GoString() string { return c.ID }

// LogValue returns String, for slog.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.ID) }
