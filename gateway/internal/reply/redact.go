package reply

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"muster/agent/wire"
)

const (
	longestLogPath = 256
	longestID      = 16 // base62 characters that a log may show of what stands where a token's id should
)

// LogPath is the request's path as a log may hold it: a token cut down to its public part, what stands behind it left out
// but for the words of routes, control characters escaped, the query left out.
func LogPath(r *http.Request) string { return PathForLog(r.URL.Path) }

// Segments are the parts of the request's path, each without its escapes. A slash that was sent as %2F belongs to its segment.
func Segments(r *http.Request) []string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i, segment := range segments {
		segments[i] = Unescape(segment)
	}
	return segments
}

// QueryValues are the request's query string without its escapes, and each value in it, in which a plus sign is a blank.
func QueryValues(r *http.Request) []string {
	if r.URL.RawQuery == "" {
		return nil
	}
	values := []string{Unescape(r.URL.RawQuery)}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		_, value, _ := strings.Cut(pair, "=")
		values = append(values, Unescape(value), Unescape(strings.ReplaceAll(value, "+", " ")))
	}
	return values
}

// PathForLog is LogPath of a path that somebody changed.
func PathForLog(path string) string {
	if plain := Unescape(path); tokenStart(plain) >= 0 {
		path = plain
	}
	before, token, behind := cutToken(path)
	if rest, ok := strings.CutPrefix(before, wire.PrefixBootstrap); ok {
		before = wire.PrefixBootstrap + routeWords(rest)
	}
	path = (&url.URL{Path: before + token + behind}).EscapedPath()
	if len(path) > longestLogPath {
		path = path[:longestLogPath] + "..."
	}
	return path
}

// cutToken parts a path at the first token. What stands behind the token's id up to the next slash becomes "_...": whatever
// is written in the place of the dot (a blank, a comma, a slash, a line's end), a secret may follow it.
func cutToken(path string) (before, token, behind string) {
	at := tokenStart(path)
	if at < 0 {
		return path, "", ""
	}
	token, behind = path[at:], ""
	segment, rest, more := strings.Cut(token, "/")
	if token = TokenID(segment); token == "" {
		token = segment[:len("mse_")] + "..."
	} else if token != segment {
		token += "_..."
	}
	if more {
		behind = "/" + routeWords(rest)
	}
	return path[:at], token, behind
}

// routeWords keeps the segments of a path that routes have behind a name, and drops all others: one may be a secret.
func routeWords(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		switch s {
		case "", "script", "registry-credential", "heartbeat", "leave", "renew", "adopt", "agent", "labels", "drain", "resume", "retire", "ban",
			"allow-recovery", "bootstrap-script":
		default:
			segments[i] = "..."
		}
	}
	return strings.Join(segments, "/")
}

// TokenID is the public part, such as msb_ab12, of the first token that the text holds or seems to hold; empty where there is
// none, or one whose id is so long that it may be a secret.
func TokenID(text string) string {
	at := tokenStart(text)
	if at < 0 {
		return ""
	}
	end := at + 4 + run(text[at+4:], isBase62)
	if end-at-4 > longestID {
		return ""
	}
	return text[at:end]
}

// mostIDs bounds how many tokens are looked for in one text.
const mostIDs = 64

// TokenIDs are the public parts of all tokens that the texts hold or seem to hold, as TokenID gives them, each once and the first
// 64 of them: those of accounts last, for of two tokens in a header that one may belong there.
func TokenIDs(texts ...string) []string {
	var ids []string
	for _, text := range texts {
		for at := tokenStart(text); at >= 0 && len(ids) < mostIDs; at = tokenStart(text) {
			text = text[at:]
			if id := TokenID(text); id != "" && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			text = text[len("mse_"):]
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return isAccount(a) - isAccount(b) })
	return ids
}

func isAccount(id string) int {
	if id[2] == 'a' {
		return 1
	}
	return 0
}

// Carries reports whether the text holds more of a token than its public part.
func Carries(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		text = text[at+len("mse_"):]
		end := run(text, isBase62)
		rest := run(text[end:], isTokenTail)
		if end > longestID || strings.Trim(text[end:end+rest], "._") != "" {
			return true
		}
		text = text[end+rest:]
	}
	return false
}

// wholeToken is the least that stands behind the kind in a whole token, or in one's fetch part.
const wholeToken = 24

// Whole reports whether the text holds something as long as a whole token. It is for texts that may hold anything, where Carries
// would find what is none.
func Whole(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		text = text[at+len("mse_"):]
		if run(text, isTokenTail) >= wholeToken {
			return true
		}
	}
	return false
}

func isTokenTail(c byte) bool { return isBase62(c) || c == '_' || c == '.' }

// Unescape undoes percent-encoding as far as there is any, twice at most; what is malformed stays as it is. It is for looking
// for what somebody hid, not for reading a request.
func Unescape(text string) string {
	for range 2 {
		if strings.IndexByte(text, '%') < 0 {
			break
		}
		text = unescapeOnce(text)
	}
	return text
}

func unescapeOnce(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if one, err := url.PathUnescape(text[i : i+3]); err == nil {
				out.WriteString(one)
				i += 2
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// Redact cuts everything in a text that looks like a token down to its public part: mse_<id>_....
func Redact(text string) string {
	var out strings.Builder
	for {
		at := tokenStart(text)
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		id := at + 4
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

// TokenLike reports whether a name, or a label's value, may be a token: it begins as one, or holds more of one than its public part.
func TokenLike(text string) bool {
	return len(text) >= 4 && text[0] == 'm' && text[1] == 's' && text[3] == '_' && strings.IndexByte("eba", text[2]) >= 0 || Redact(text) != text
}

// HasPSK reports whether something in the text looks like a generated pre-shared key.
func HasPSK(text string) bool {
	for at := tokenStart(text); at >= 0; at = tokenStart(text) {
		if text[at+2] == 'k' {
			return true
		}
		text = text[at+len("mse_"):]
	}
	return false
}

// tokenStart is where the first mse_, msb_ or msa_ with a character of an id behind it begins, or the first msk_ with more of them
// than an id has: a pre-shared key has no part that may be shown, and msk_1 is a name. It is -1 without one.
func tokenStart(s string) int {
	for i := 0; i+4 < len(s); i++ {
		if s[i] != 'm' || s[i+1] != 's' || s[i+3] != '_' || !isBase62(s[i+4]) {
			continue
		}
		switch s[i+2] {
		case 'e', 'b', 'a':
			return i
		case 'k':
			if run(s[i+4:], isBase62) > longestID {
				return i
			}
		}
	}
	return -1
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
