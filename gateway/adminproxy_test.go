package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAdminElsewhere: an operator who comes to the listener behind a proxy learns where the admin API is, and what the proxy has to say.
func TestAdminElsewhere(t *testing.T) {
	t.Parallel()
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain, "--trusted-proxy", "127.0.0.1")
	account := h.account()
	for _, c := range []struct {
		name, scheme, want string
		status             int
	}{
		{"by https to the proxy", "https", "--admin-behind-proxy", http.StatusNotFound},
		{"nobody knows how", "", "X-Forwarded-Proto", http.StatusForbidden},
	} {
		r, err := http.NewRequest("GET", "http://"+plain+"/api/v1/admin/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+account)
		if c.scheme != "" {
			r.Header.Set("X-Forwarded-Proto", c.scheme)
		}
		answer, err := visitor().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %d %s %v", c.name, answer.StatusCode, text, err)
		}
	}
}
