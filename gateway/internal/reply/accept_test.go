package reply_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/gateway/internal/reply"
)

func TestPrefers(t *testing.T) {
	for accept, want := range map[string]bool{"text/plain": true, "text/plain; q=0.9, */*": false, "text/plain, */*;q=0.1": true,
		"text/plain;q=0": false,
		"application/json;q=0.5, text/plain;q=0.8": true, "text/plain;q=0.5, application/json": false,
		"text/plain;q=0.5, application/json;q=0.5": true,
		"text/plain;q=nan":                         false, "text/plain;q=2, */*;q=0.1": false,
		"; , text/plain": true, " TEXT/plain;charset=utf-8": true,
		"text/plainly": false,
		"text/plain-x": false, "*/*": false, "": false, ";": false, "application/json, text/plain": false} {
		if got := reply.Prefers(&http.Request{Header: http.Header{"Accept": {accept}}}, "text/plain"); got != want {
			t.Errorf("%q: got %v, want %v", accept, got, want)
		}
	}
}

func TestTakesGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip;q=0, *": false, "*": true, "*;q=0": false,
		"GZIP ; Q=1": true, "x-gzip": true, "br": false, "gzip;q=x": false, "gzip;level=1": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", accept)
		if got := reply.TakesGzip(r); got != want {
			t.Errorf("%q: got %v", accept, got)
		}
	}
	if reply.TakesGzip(httptest.NewRequest(http.MethodGet, "/", nil)) {
		t.Error("without the header")
	}
}

func FuzzTakesGzip(f *testing.F) {
	f.Add("gzip;q=0.5, *;q=0")
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Accept-Encoding"] = []string{accept}
		if reply.TakesGzip(r) && !strings.Contains(strings.ToLower(accept), "gzip") && !strings.Contains(accept, "*") {
			t.Errorf("%q takes gzip", accept)
		}
	})
}
