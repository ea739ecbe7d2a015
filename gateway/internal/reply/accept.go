package reply

import (
	"mime"
	"net/http"
	"strings"
)

// Prefers tells whether the first media type of a request's Accept is this one, parameters aside.
func Prefers(r *http.Request, mediaType string) bool {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	got, _, err := mime.ParseMediaType(first)
	return err == nil && got == mediaType
}
