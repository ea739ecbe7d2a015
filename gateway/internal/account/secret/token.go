// Package secret finds tokens and pre-shared keys in any text, in places where they do not belong, and cuts them down to what may be
// shown. Package sign says what a token is. This package is about texts that may hold a token: whole, in part or mistyped.
package secret

import (
	"slices"
	"strings"

	"muster/agent/sign"
)

// longestID is the longest text in the place of a token's id that may be shown, in base62 characters. A longer one may be a secret.
const longestID = 16

// prefixLength is the length of a token's kind with its underscore. PSKPrefix has the same length.
const prefixLength = len(sign.PSKPrefix)

// TokenID returns the public part, such as msb_ab12, of the first token that the text holds or seems to hold. It is empty if there is none,
// or if the id is so long that it may be a secret.
func TokenID(text string) string {
	at := tokenStart(text)
	if at < 0 {
		return ""
	}
	end := at + prefixLength + run(text[at+prefixLength:], isBase62)
	if end-at-prefixLength > longestID {
		return ""
	}
	return text[at:end]
}

// mostIDs is how many different ids TokenIDs returns at most.
const mostIDs = 64

// TokenIDs returns the public parts of all tokens that the texts hold or seem to hold, as TokenID returns them, each once. Those of
// accounts come last: if a header holds two tokens, the account's token may belong there, and the other one does not.
func TokenIDs(texts ...string) []string {
	var ids []string
	for _, text := range texts {
		for at := tokenStart(text); at >= 0 && len(ids) < mostIDs; at = tokenStart(text) {
			text = text[at:]
			if id := TokenID(text); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			text = text[prefixLength:]
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return isAccount(a) - isAccount(b) })
	return ids
}

func isAccount(id string) int {
	if strings.HasPrefix(id, string(sign.AccountToken)) {
		return 1
	}
	return 0
}

// Carries reports whether the text holds more of a token than its public part.
func Carries(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		text = text[at+prefixLength:]
		end := run(text, isBase62)
		rest := run(text[end:], isTokenTail)
		if end > longestID || strings.Trim(text[end:end+rest], "._") != "" {
			return true
		}
		text = text[end+rest:]
	}
	return false
}

// wholeToken is the least number of characters that a whole token, or a fetch part, has after its kind.
const wholeToken = 24

// Whole reports whether the text holds something as long as a whole token. It is for texts that may hold anything: there Carries would
// report things that are no tokens.
func Whole(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		text = text[at+prefixLength:]
		if run(text, isTokenTail) >= wholeToken {
			return true
		}
	}
	return false
}

func isTokenTail(c byte) bool { return isBase62(c) || c == '_' || c == '.' }

// Redact cuts everything in a text that looks like a token down to its public part: mse_<id>_....
func Redact(text string) string {
	var out strings.Builder
	for {
		at := tokenStart(text)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		id := at + prefixLength
		end := id + run(text[id:], isBase62)
		rest := end + run(text[end:], isTokenTail)
		switch {
		case end-id > longestID: // a secret without its id
			out.WriteString(text[:id] + "...")
		case strings.Trim(text[end:rest], "._") != "":
			out.WriteString(text[:end] + "_...")
		default:
			out.WriteString(text[:rest])
		}
		text = text[rest:]
	}
}

// HasToken reports whether something in the text looks like a whole or partial token.
func HasToken(text string) bool { return tokenStart(text) >= 0 }

// TokenLike reports whether a name, or a label's value, may be a token: it begins like one, or holds more of one than its public part.
func TokenLike(text string) bool {
	return len(text) >= prefixLength && isKind(text[:prefixLength]) || Redact(text) != text
}

// HasPSK reports whether something in the text looks like a generated pre-shared key.
func HasPSK(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		if strings.HasPrefix(text[at:], sign.PSKPrefix) {
			return true
		}
		text = text[at+prefixLength:]
	}
	return false
}

// tokenStart is where the first token or pre-shared key begins; -1: there is none. A token is mse_, msb_ or msa_ and then a character of
// an id. A pre-shared key is msk_ and then more characters than an id has: no part of it may be shown. So msk_1 is a name and no key.
func tokenStart(s string) int {
	for i := 0; i+prefixLength < len(s); i++ {
		if s[i] != 'm' || !isBase62(s[i+prefixLength]) {
			continue
		}
		switch prefix := s[i : i+prefixLength]; {
		case isKind(prefix):
			return i
		case prefix == sign.PSKPrefix && run(s[i+prefixLength:], isBase62) > longestID:
			return i
		}
	}
	return -1
}

// isKind is true for the kind of a token with its underscore.
func isKind(prefix string) bool {
	name, underscored := strings.CutSuffix(prefix, "_")
	kind := sign.TokenKind(name)
	return underscored && (kind == sign.EnrollmentToken || kind == sign.BootstrapToken || kind == sign.AccountToken)
}

func run(s string, of func(byte) bool) int {
	n := 0
	for n < len(s) && of(s[n]) {
		n++
	}
	return n
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
