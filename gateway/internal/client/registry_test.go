package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/gateway/internal/client"
)

// TestPutBlob: an upload goes where the registry says, as long as that is the gateway itself, and carries the digest.
func TestPutBlob(t *testing.T) {
	const digest = "sha256:abab"
	for _, c := range []struct {
		name, location string
		status         int
		answer         string
		want           string // what the error says; "": none
	}{
		{"a path", "/v2/muster/agent/blobs/uploads/1?state=x", 201, "", ""},
		{"another host", "http://127.0.0.2:1/v2/x", 201, "", "which is not"},
		{"no place", "", 201, "", "which is not"},
		{"refused as OCI does", "/up", 400,
			`{"errors":[{"code":"DIGEST_INVALID","message":"it is another one"}]}`, "digest_invalid: it is another one"},
		{"refused as muster does", "/up", 403, `{"error":{"code":"forbidden","message":"it lacks a scope"}}`, "it lacks a scope"},
		{"a page", "/up", 502, "<html>", "status 502"},
	} {
		var put string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer msa_x" {
				t.Errorf("%s: %s without the token", c.name, r.Method)
			}
			if r.Method == http.MethodPost {
				w.Header().Set("Location", c.location)
				w.WriteHeader(http.StatusAccepted)
				return
			}
			body, _ := io.ReadAll(r.Body)
			put = fmt.Sprint(r.URL.RequestURI(), " ", r.ContentLength, " ", string(body))
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer)
		}))
		api := &client.Client{BaseURL: server.URL, Token: "msa_x", HTTP: server.Client()}
		err := api.PutBlob(t.Context(), "muster/agent", digest, 5, strings.NewReader("agent"))
		switch {
		case c.want == "" && (err != nil || put != "/v2/muster/agent/blobs/uploads/1?digest=sha256%3Aabab&state=x 5 agent"):
			t.Errorf("%s: %v, put %q", c.name, err, put)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		server.Close()
	}
}

// TestHasBlob: a blob is there, is not there, or nobody can say.
func TestHasBlob(t *testing.T) {
	for status, want := range map[int]string{200: "true <nil>", 404: "false <nil>", 500: "false the registry at"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead || r.URL.Path != "/v2/muster/agent/blobs/sha256:abab" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			w.WriteHeader(status)
		}))
		api := &client.Client{BaseURL: server.URL, HTTP: server.Client()}
		there, err := api.HasBlob(t.Context(), "muster/agent", "sha256:abab")
		if got := fmt.Sprint(there, " ", err); !strings.HasPrefix(got, want) {
			t.Errorf("%d: got %s", status, got)
		}
		server.Close()
	}
}
