package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// TestRetryAfterReset: a request that only reads is made once more when its connection is reset; one that changes something never is.
func TestRetryAfterReset(t *testing.T) {
	for _, c := range []struct {
		name string
		cuts int
		half bool // of the answer comes before the cut
		call func(*client.Client) error
		want []string
		ok   bool
	}{
		{"one reset", 1, false, list(t), []string{"GET", "GET"}, true},
		{"half an answer", 1, true, list(t), []string{"GET", "GET"}, true},
		{"no reset", 0, false, list(t), []string{"GET"}, true},
		{"two resets", 2, false, list(t), []string{"GET", "GET"}, false},
		{"a change", 1, false, func(c *client.Client) error {
			return client.Drop(t.Context(), c, api.At(api.PathToken, "mse_1"),
				nil)
		}, []string{"DELETE"}, false},
		{"another change", 1, false, func(c *client.Client) error {
			_, err := client.Send[api.NewToken](t.Context(), c, "POST", api.PathTokens, api.TokenRequest{})
			return err
		}, []string{"POST"}, false},
	} {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method)
			if len(asked) <= c.cuts {
				reset(t, w, c.half)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		}))
		api := &client.Client{BaseURL: server.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
		if err := c.call(api); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		server.Close()
		if !slices.Equal(asked, c.want) {
			t.Errorf("%s: asked %v, want %v", c.name, asked, c.want)
		}
	}
}

func list(t *testing.T) func(*client.Client) error {
	return func(c *client.Client) error {
		_, err := client.Get[api.PSKList](t.Context(), c, api.PathPSK, nil)
		return err
	}
}

// reset ends a connection as a process does that is killed.
func reset(t *testing.T, w http.ResponseWriter, half bool) {
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if half {
		out.WriteString("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n{\"psks\":")
		out.Flush()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Error(err)
	}
	conn.Close()
}
