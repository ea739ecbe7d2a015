package transport

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"
)

var errNoHTTP = errors.New("what answers there does not speak HTTP: check the port of --gateway")

// parseHeaders reads what curl dumps: the header block of the answer, after those of a proxy's CONNECT and of 1xx answers
// where there are any, and before trailers. The last block counts.
func parseHeaders(raw []byte) (status int, header http.Header, err error) {
	inside := false
	for line := range bytes.Lines(raw) {
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case !inside:
			if code := statusOf(text); code != 0 {
				status, header, inside = code, http.Header{}, true
			}
		case text == "":
			inside = false
		default:
			name, value, ok := strings.Cut(text, ":")
			if ok && isToken(name) {
				header.Add(name, strings.Trim(value, " \t"))
			}
		}
	}
	if status < 200 || inside {
		return 0, nil, errNoHTTP
	}
	return status, header, nil
}

// statusOf reads a status line such as "HTTP/1.1 200 OK" or "HTTP/2 200"; 0: it is none.
func statusOf(line string) int {
	version, rest, ok := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(rest, " ")
	if !ok || !strings.HasPrefix(version, "HTTP/") || len(digits) != 3 {
		return 0
	}
	code, err := strconv.Atoi(digits)
	if err != nil || code < 100 {
		return 0
	}
	return code
}
