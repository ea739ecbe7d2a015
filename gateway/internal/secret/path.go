package secret

import (
	"net/http"
	"net/url"
	"strings"

	"muster/agent/wire"
)

// longestLogPath is how many characters of a path a log holds.
const longestLogPath = 256

// LogPath is the request's path as a log may hold it. A token is cut down to its public part. Behind it only the words of routes stay.
// Control characters are escaped, and the query is left out.
func LogPath(r *http.Request) string { return PathForLog(r.URL.Path) }

// Segments are the parts of the request's path, each without its escapes. A slash that was sent as %2F belongs to its segment.
func Segments(r *http.Request) []string {
	segments := strings.Split(r.URL.EscapedPath(), "/")
	for i, segment := range segments {
		segments[i] = Unescape(segment)
	}
	return segments
}

// QueryValues are the request's query string without its escapes, and each value in it, as it is and with blanks for plus signs.
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

// PathForLog is LogPath for a path from which something was taken already.
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
