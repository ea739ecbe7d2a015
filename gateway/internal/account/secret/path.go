package secret

import (
	"net/http"
	"net/url"
	"strings"

	"muster/agent/wire"
)

// longestLogPath is how many characters of a path are logged at most.
const longestLogPath = 256

// LogPath returns the request's path in the form for logs. A token is cut down to its public part. After it only the words of routes stay.
// Control characters are escaped, and the query is left out.
func LogPath(r *http.Request) string { return PathForLog(r.URL.Path) }

// Segments returns the parts of the request's path between slashes, each without its escapes. A slash that was sent as %2F is part of its
// segment.
func Segments(r *http.Request) []string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i, segment := range segments {
		segments[i] = Unescape(segment)
	}
	return segments
}

// QueryValues returns the request's query string without its escapes, and each value in it twice: as it is, and with blanks for plus signs.
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

// PathForLog does what LogPath does, for a path that the caller has already changed.
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

// cutToken splits a path at the first token. Everything after the token's id, up to the next slash, becomes "_...". A person may write
// another character in the place of the dot (a blank, a comma, a line's end), and the secret still follows it.
func cutToken(path string) (before, token, behind string) {
	at := tokenStart(path)
	if at < 0 {
		return path, "", ""
	}
	token = path[at:]
	behind = ""
	segment, rest, more := strings.Cut(token, "/")
	if token = TokenID(segment); token == "" {
		token = segment[:prefixLength] + "..."
	} else if token != segment {
		token += "_..."
	}
	if more {
		behind = "/" + routeWords(rest)
	}
	return path[:at], token, behind
}

// routeWords keeps the segments of a path that are words of routes, and hides all others, because one may be a secret. A new route with
// such a word adds it here; without it, logs only show less.
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
