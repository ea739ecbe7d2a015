package sign

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
)

// TokenKind is the prefix of a token. It says what the token can be used for.
type TokenKind string

// Kinds of tokens.
const (
	EnrollmentToken TokenKind = "mse" // enrols nodes of one tenant
	BootstrapToken  TokenKind = "msb" // enrols one node and fetches its script
	AccountToken    TokenKind = "msa" // an operator's or a service's API token
)

// Lengths in characters of base62. The last characters of a secret are its checksum.
const (
	idLength       = 12
	bodyLength     = 22 // of a secret without its checksum, and of a fetch part
	checksumLength = 6
	leastID        = 4  // of an id that is read
	leastFetch     = 22 // of a fetch part that is read
	longestPart    = 64 // of either
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ErrMistyped is returned for text that has a token's form but not its checksum: a character was lost or changed.
var ErrMistyped = errors.New("the token is mistyped or cut off: its checksum does not fit; copy it again")

// Token is the parsed form of mse_<id>_<secret>, msa_<id>_<secret> or msb_<id>_<fetch>.<secret>. Secret includes the checksum. No way
// to print a token shows its secret. Only Reveal gives the whole.
type Token struct {
	Kind   TokenKind
	ID     string
	Fetch  string // bootstrap tokens only: may stand in a URL
	Secret string
}

// NewToken makes a token with 131 bits of secret from random (nil: crypto/rand).
func NewToken(kind TokenKind, random io.Reader) (Token, error) {
	t := Token{Kind: kind}
	var err error
	for err == nil && (t.ID == "" || endsLikeKind(t.ID)) {
		t.ID, err = randomBase62(random, idLength)
	}
	if err == nil {
		t.Secret, err = randomBase62(random, bodyLength)
	}
	if err == nil && kind == BootstrapToken {
		t.Fetch, err = randomBase62(random, bodyLength)
	}
	if err != nil {
		return Token{}, err
	}
	t.Secret += checksum(t.FetchPart() + "_" + t.Secret)
	return t, nil
}

// endsLikeKind is true for an id that would look like the beginning of another token or a pre-shared key where its underscore follows.
func endsLikeKind(id string) bool {
	tail := id[max(0, len(id)-len(EnrollmentToken)):]
	return knownKind(TokenKind(tail)) || tail+"_" == PSKPrefix
}

// ParseToken reads a whole token. The error wraps ErrMalformed if the text does not begin as a token does. It is ErrMistyped if the rest of
// the form or the checksum is wrong. It never repeats the text.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	kind, rest, ok := strings.Cut(text, "_")
	if !ok || !knownKind(TokenKind(kind)) {
		return Token{}, fmt.Errorf("a token begins with mse_, msb_ or msa_: %w", ErrMalformed)
	}
	t := Token{Kind: TokenKind(kind)}
	t.ID, rest, ok = strings.Cut(rest, "_")
	if ok && t.Kind == BootstrapToken {
		t.Fetch, rest, ok = strings.Cut(rest, ".")
	}
	t.Secret = rest
	fits := allBase62(t.ID, leastID, longestPart) && (t.Kind != BootstrapToken || isFetch(t.Fetch))
	if !ok || !fits || !intact(t.FetchPart()+"_", t.Secret) {
		return Token{}, ErrMistyped
	}
	return t, nil
}

// ParseFetchPart reads msb_<id>_<fetch>, the part of a bootstrap token that a URL may hold. The token that it returns has no secret.
// The error is ErrMistyped. It never repeats the text.
func ParseFetchPart(text string) (Token, error) {
	kind, rest, _ := strings.Cut(text, "_")
	id, fetch, _ := strings.Cut(rest, "_")
	if TokenKind(kind) != BootstrapToken || !allBase62(id, leastID, longestPart) || !isFetch(fetch) {
		return Token{}, ErrMistyped
	}
	return Token{Kind: BootstrapToken, ID: id, Fetch: fetch}, nil
}

// Public returns the part that names the token and may be logged: mse_<id>.
func (t Token) Public() string { return string(t.Kind) + "_" + t.ID }

// String returns Public with dots for the rest, so that nobody prints a secret by accident.
func (t Token) String() string { return t.Public() + "_..." }

// Format prints String for every verb. Without it %d and %#v would print the fields.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// GoString returns String, for %#v.
func (t Token) GoString() string { return t.String() }

// MarshalText returns String, for encoding/json and the like. Nothing reads it back.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue returns String, for slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// FetchPart returns what may stand in a URL: msb_<id>_<fetch>.
func (t Token) FetchPart() string { return t.Public() + "_" + t.Fetch }

// Reveal returns the whole token with its secret.
func (t Token) Reveal() string {
	if t.Kind == BootstrapToken {
		return t.FetchPart() + "." + t.Secret
	}
	return t.Public() + "_" + t.Secret
}

// SecretHash returns what a gateway keeps of an account's token, which callers show as it is: its SHA-256. That is enough for 131 random
// bits.
func (t Token) SecretHash() [sha256.Size]byte { return sha256.Sum256([]byte(t.Secret)) }

// intact reports whether a secret has its length, and its checksum fits with what stands before it.
func intact(before, secret string) bool {
	return allBase62(secret, bodyLength+checksumLength, bodyLength+checksumLength) &&
		checksum(before+secret[:bodyLength]) == secret[bodyLength:]
}

// checksum is the CRC-32 of what stands before it, in base62.
func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	var out [checksumLength]byte
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

func knownKind(k TokenKind) bool {
	return k == EnrollmentToken || k == BootstrapToken || k == AccountToken
}

func isFetch(s string) bool { return allBase62(s, leastFetch, longestPart) }

func allBase62(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, base62) == ""
}

// randomBase62 draws characters without bias: bytes of 248 and above are thrown away. random nil: crypto/rand.
func randomBase62(random io.Reader, length int) (string, error) {
	if random == nil {
		random = rand.Reader
	}
	out := make([]byte, 0, length)
	var buffer [64]byte
	for len(out) < length {
		if _, err := io.ReadFull(random, buffer[:]); err != nil {
			return "", fmt.Errorf("read random bytes: %w", err)
		}
		for _, b := range buffer {
			if b < 248 && len(out) < length {
				out = append(out, base62[b%62])
			}
		}
	}
	return string(out), nil
}
