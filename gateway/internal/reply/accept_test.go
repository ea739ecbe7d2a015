package reply_test

import (
	"net/http"
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
