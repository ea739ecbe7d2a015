package reply

import (
	"net/http"
	"net/url"
	"strings"
)

const bootstrapPrefix = "/api/v1/bootstrap/nodes/"

const (
	longestLogPath = 256
	longestID      = 16 // base62 characters that a log may show of what stands where a token's id should
)

// LogPath is the request's path as a log may hold it: tokens cut down to their public part, control characters escaped,
// the query left out.
func LogPath(r *http.Request) string {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, bootstrapPrefix); ok {
		token, tail, _ := strings.Cut(rest, "/")
		if public := Redact(token); public != token {
			token = public
		} else {
			token = "..."
		}
		path = bootstrapPrefix + token + "/" + tail
	}
	path = (&url.URL{Path: Redact(path)}).EscapedPath()
	if len(path) > longestLogPath {
		path = path[:longestLogPath] + "..."
	}
	return path
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
		rest := end + run(text[end:], func(c byte) bool { return isBase62(c) || c == '_' || c == '.' })
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

// tokenStart is where the first mse_, msb_ or msa_ with a character of an id behind it begins, -1 without one.
func tokenStart(s string) int {
	for i := 0; i+4 < len(s); i++ {
		if s[i] == 'm' && s[i+1] == 's' && (s[i+2] == 'e' || s[i+2] == 'b' || s[i+2] == 'a') && s[i+3] == '_' && isBase62(s[i+4]) {
			return i
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
