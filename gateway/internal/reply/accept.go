package reply

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Prefers reports whether a request's Accept wants this media type most (RFC 9110 section 12.5.1): the highest q wins, and of equal
// ones the first.
func Prefers(r *http.Request, mediaType string) bool {
	best := ""
	most := 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header["Accept"], ","), ",") {
		got, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		if q := weight(parameters["q"]); q > most {
			best = got
			most = q
		}
	}
	return best == mediaType
}

// weight reads a q: 1 if there is none, 0 for what is no weight.
func weight(text string) float64 {
	if text == "" {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}

// TakesGzip reports whether a request's Accept-Encoding takes gzip (RFC 9110 section 12.5.3).
func TakesGzip(r *http.Request) bool {
	named := -1.0
	any := 0.0
	for part := range strings.SplitSeq(strings.Join(r.Header["Accept-Encoding"], ","), ",") {
		coding, rest, _ := strings.Cut(part, ";")
		key, value, _ := strings.Cut(strings.TrimSpace(rest), "=")
		q := 1.0
		if strings.EqualFold(strings.TrimSpace(key), "q") {
			q = weight(strings.TrimSpace(value))
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			named = max(named, q)
		case "*":
			any = q
		}
	}
	return named > 0 || named < 0 && any > 0
}
