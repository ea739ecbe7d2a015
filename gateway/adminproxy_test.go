package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
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

// TestAdminOfTheMachine: beside a trusted proxy on the same machine, the gateway's own TLS port answers programs of that machine, as the
// page about proxies has it. It does not answer what came through a proxy, whether the proxy writes a header or not.
func TestAdminOfTheMachine(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t), "--plain-listen", freeAddress(t), "--trusted-proxy", "127.0.0.1")
	token := h.account()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(h.url, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sni, request string
		want               string
	}{
		{"a client's address through a proxy that names nothing", "", "HTTP/1.1\r\nHost: 127.0.0.1:" + port, "404"},
		{"a program", "localhost", "HTTP/1.1\r\nHost: localhost:" + port, "200"},
		{"a proxy with a header", "localhost", "HTTP/1.1\r\nHost: localhost:" + port + "\r\nX-Forwarded-For: 198.51.100.7", "404"},
		{"a client that writes one", "localhost", "HTTP/1.1\r\nHost: localhost:" + port + "\r\nForwarded: for=127.0.0.1", "404"},
		{"a proxy as nginx is without settings", "localhost", "HTTP/1.0\r\nHost: localhost:" + port, "404"},
		{"a proxy that keeps the host", "", "HTTP/1.1\r\nHost: gw.example", "404"},
		{"a proxy that keeps the host and names itself", "backend", "HTTP/1.1\r\nHost: gw.example", "404"},
	} {
		conn, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true, ServerName: c.sni})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /api/v1/admin/whoami %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", c.request, token)
		answer, err := io.ReadAll(conn)
		conn.Close()
		if _, status, _ := strings.Cut(string(answer), " "); !strings.HasPrefix(status, c.want) {
			t.Errorf("%s: got %.300s, %v; want %s", c.name, answer, err, c.want)
		}
	}
	env := map[string]string{"MUSTER_URL": "https://127.0.0.1:" + port, "MUSTER_API_TOKEN": token, "MUSTER_ROOT_PIN": h.ca().Roots[0].Pin}
	var out, errs bytes.Buffer
	getenv := func(name string) string { return env[name] }
	if code := run(t.Context(), []string{"account", "ls"}, getenv, strings.NewReader(""), &out, &errs); code != 0 {
		t.Errorf("muster with a token by a loopback address: exit %d, %s%s", code, out.String(), errs.String())
	}
}
