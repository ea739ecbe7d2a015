package rqlitetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Serve puts a node on a loopback port until the end of the test, and gives HOST:PORT. Where an answer would be lost, the connection is
// cut.
func Serve(t testing.TB, n *Node) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := n.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
