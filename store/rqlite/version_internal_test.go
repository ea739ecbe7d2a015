package rqlite

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTooOld(t *testing.T) {
	for version, old := range map[string]bool{"v7.21.4": true, "8.32.2": true, "v8.32": true, "v8.32.3": false, "v8.40.0": false, "10": false,
		"v10.0.1": false, "": false, "unknown": false, "v8.3x": false, "v9.0.0-rc1": false, "-1": false} {
		headers := http.Header{}
		headers.Set("X-RQLITE-VERSION", version)
		if err := tooOld(headers); (err != nil) != old {
			t.Errorf("%q: %v", version, err)
		}
	}
}

type answering string

func (version answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Rqlite-Version": {string(version)}},
		Body: io.NopCloser(strings.NewReader(`{"results":[{}]}`))}, nil
}

func TestOpenTooOld(t *testing.T) {
	for version, refused := range map[answering]bool{"v7.21.4": true, "v8.32.3": false} {
		db, err := Open(t.Context(), Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: version})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "upgrade it to 8.32.3") {
			t.Errorf("%s: %v", version, err)
		}
		if err == nil {
			_ = db.Close()
		}
	}
}
