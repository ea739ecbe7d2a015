package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// visitor asks a gateway as anybody could: it checks no certificate and follows no redirect.
func visitor() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// refusals are the events of refused calls and tokens, newest last.
func (h *house) refusals() (events []map[string]any, text string) {
	h.t.Helper()
	text = h.muster("audit", "-o", "json", "--limit", "1000")
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.t.Fatal(err)
		}
		if kind := e["kind"]; kind == "bootstrap.refused" || kind == "admin.refused" {
			events = append(events, e)
		}
	}
	return events, text
}

// TestMisplacedTokens sends a bootstrap token to every listener in places where it is not good. Each time it is refused, there is an
// event that says whose it was, no redirect leads on, and the secret is in no event, log or answer.
func TestMisplacedTokens(t *testing.T) {
	plain := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--plain-listen", plain)
	h.muster("node", "create", "gpu-7", "--tenant", "platform")
	m := h.bootstrap("gpu-7", "--ttl", "1h")
	account := h.account()
	const nodes = "/api/v1/bootstrap/nodes/"
	open := "http://" + plain
	fetch, secret, _ := strings.Cut(m.Token, ".")
	for _, c := range []struct {
		name, method, url, header, value string
		status                           int
	}{
		{"plain admin, bearer", "GET", open + "/api/v1/admin/nodes", "Authorization", "Bearer " + m.Token, 403},
		{"plain admin, query", "GET", open + "/api/v1/admin/nodes?t=" + m.Token, "", "", 400},
		{"admin, bearer", "GET", h.url + "/api/v1/admin/nodes", "Authorization", "Bearer " + m.Token, 403},
		{"admin, query", "GET", h.url + "/api/v1/admin/nodes?t=%6Dsb_" + m.Token[4:], "", "", 400},
		{"admin, no route", "GET", h.url + "/api/v1/admin/nope", "Authorization", "Bearer " + m.Token, 403},
		{"admin, no method", "PUT", h.url + "/api/v1/admin/nodes", "Authorization", "Bearer " + m.Token, 403},
		{"admin, path", "POST", h.url + "/api/v1/admin/nodes/" + m.Token + "/drain", "Authorization", "Bearer " + account, 400},
		{"plain, PUT", "PUT", open + nodes + m.Token + "/script", "", "", 403},
		{"plain, double slash", "GET", open + nodes + "/" + m.Token + "/script", "", "", 403},
		{"plain, dots", "GET", open + nodes + "x/../" + m.Token + "/script", "", "", 403},
		{"slash for the dot", "GET", h.url + nodes + fetch + "%2F" + secret + "/script", "", "", 403},
		{"comma for the dot", "GET", h.url + nodes + fetch + "," + secret + "/script", "", "", 400},
		{"line's end for the dot", "GET", h.url + nodes + fetch + "%0A" + secret + "/script", "", "", 400},
		{"slash for the dot elsewhere", "GET", h.url + "/agent/linux/" + fetch + "%2F" + secret, "", "", 403},
		{"health", "GET", h.url + "/healthz", "Cookie", "t=" + m.Token, 403},
		{"register", "POST", open + "/nodes/register", "Authorization", "Bearer " + m.Token, 400},
	} {
		before, _ := h.refusals()
		r, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		answer, err := visitor().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		after, text := h.refusals()
		if answer.StatusCode != c.status || answer.Header.Get("Location") != "" || strings.Contains(string(body), secret) {
			t.Errorf("%s: got %d %s", c.name, answer.StatusCode, body)
		}
		if len(after) != len(before)+1 {
			t.Fatalf("%s: %d more events", c.name, len(after)-len(before))
		}
		if e := after[len(after)-1]; e["node"] != "gpu-7" || e["tenant"] != "platform" || e["address"] != "127.0.0.1" {
			t.Errorf("%s: event %v", c.name, e)
		}
		if strings.Contains(text, secret) || strings.Contains(text, fetch[17:]) {
			t.Errorf("%s: the events hold the token", c.name)
		}
	}
	if strings.Contains(h.gateway.text(), secret) {
		t.Error("the log holds the secret")
	}
	h.noise(open)
	before, _ := h.refusals()
	if status := h.visit(open+nodes+m.Token+"/script", "", ""); status != 403 {
		t.Errorf("a live token among noise: got %d", status)
	}
	if after, _ := h.refusals(); len(after) != len(before)+1 || after[len(after)-1]["outcome"] != "tls_required" {
		t.Errorf("a live token among noise is no event")
	}
	h.gateway.stop() // what was only counted is recorded
	h.open()
	events, _ := h.refusals()
	if e := events[len(events)-1]; e["detail"].(map[string]any)["more"] == nil {
		t.Errorf("the last event is %v", e)
	}
	files, err := filepath.Glob(filepath.Join(h.data, "muster.db*"))
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil || strings.Contains(string(raw), secret) {
			t.Errorf("the secret is in %s, %v", name, err)
		}
	}
	if err != nil || len(files) == 0 {
		t.Errorf("no database: %v", err)
	}
}

func (h *house) account() string {
	h.t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(h.muster("account", "create", "ci", "--scope", "*", "-o", "json")), &made); err != nil {
		h.t.Fatal(err)
	}
	return made.Token
}

func (h *house) visit(url, header, value string) int {
	h.t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if header != "" {
		r.Header.Set(header, value)
	}
	answer, err := visitor().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// noise is refused more often than is recorded.
func (h *house) noise(at string) {
	h.t.Helper()
	limited := 0
	for range 40 {
		if h.visit(at+"/healthz?t=msb_none1234_x", "", "") == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		h.t.Error("nobody was held up")
	}
}

// TestMisplacedBehindAProxy: where the admin API does not answer, only the guard looks at what is sent to it.
func TestMisplacedBehindAProxy(t *testing.T) {
	for _, c := range []struct {
		args          []string
		token, bearer int // the answers to a bootstrap token, and to an API token
	}{
		{nil, 403, 404}, {[]string{"--admin-behind-proxy"}, 403, 200},
	} {
		plain := freeAddress(t)
		h := agentsHouse(t, recorder(t), append([]string{"--plain-listen", plain, "--trusted-proxy", "127.0.0.1"}, c.args...)...)
		h.muster("node", "create", "gpu-7")
		m := h.bootstrap("gpu-7")
		account := h.account()
		for _, at := range []string{h.url, "http://" + plain} {
			scheme := "https"
			ask := func(token string) int {
				r, err := http.NewRequest("GET", at+"/api/v1/admin/nodes", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("X-Forwarded-Proto", scheme)
				r.Header.Set("X-Forwarded-For", "192.0.2.9")
				answer, err := visitor().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				return answer.StatusCode
			}
			before, _ := h.refusals()
			if got := ask(m.Token); got != c.token {
				t.Errorf("%v, %s: a bootstrap token: got %d, want %d", c.args, at, got, c.token)
			}
			after, _ := h.refusals()
			if len(after) != len(before)+1 || after[len(after)-1]["node"] != "gpu-7" || after[len(after)-1]["address"] != "192.0.2.9" {
				t.Errorf("%v, %s: %d more events", c.args, at, len(after)-len(before))
			}
			if got := ask(account); got != c.bearer {
				t.Errorf("%v, %s: an API token: got %d, want %d", c.args, at, got, c.bearer)
			}
			scheme = "http"
			if got := ask(account); got != 403 {
				t.Errorf("%v, %s: an API token that came openly: got %d", c.args, at, got)
			}
			if e, _ := h.refusals(); e[len(e)-1]["outcome"] != "tls_required" || e[len(e)-1]["detail"].(map[string]any)["account"] != "ci" {
				t.Errorf("%v, %s: event %v", c.args, at, e[len(e)-1])
			}
		}
	}
}

// TestWholeTokenBehindAProxy: a whole token that a proxy has read is refused, though it comes over TLS. A request from the proxy's
// address without a forwarding header counts as that machine's own.
func TestWholeTokenBehindAProxy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	write(t, file, "robot:secret\n")
	h := agentsHouse(t, recorder(t), "--trusted-proxy", "127.0.0.1", "--bootstrap-registry", "r.example", "--bootstrap-registry-credential",
		file)
	h.muster("node", "create", "gpu-7")
	m := h.bootstrap("gpu-7")
	for _, suffix := range []string{"/script", "/registry-credential"} {
		at := h.url + "/api/v1/bootstrap/nodes/" + m.Token + suffix
		for _, header := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Via"} {
			if got := h.visit(at, header, "https"); got != 403 {
				t.Errorf("%s, %s: got %d", suffix, header, got)
			}
			if e, _ := h.refusals(); e[len(e)-1]["outcome"] != "tls_required" || e[len(e)-1]["node"] != "gpu-7" {
				t.Errorf("%s, %s: event %v", suffix, header, e[len(e)-1])
			}
		}
		if got := h.visit(at, "", ""); got != 200 {
			t.Errorf("%s, directly: got %d", suffix, got)
		}
	}
}

// TestEnrolRefusedOften: the holder of a spent token cannot fill the log.
func TestEnrolRefusedOften(t *testing.T) {
	h := newHouse(t)
	token := h.token()
	if err := newApplicant(t, visitor(), h.url, token, "box").register(); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if err := newApplicant(t, visitor(), h.url, token, "other").register(); err == nil || !strings.Contains(err.Error(), "token_used") {
			t.Fatal(err)
		}
	}
	// a minute may begin anew between
	if got := strings.Count(h.muster("audit", "-o", "json", "--kind", "enrol.refused"), "\n"); got < 1 || got > 2 {
		t.Errorf("%d events", got)
	}
}

// TestRegistryChange: a credential never goes to a registry that it is not for, whatever the gateway's setting was when the script
// was made.
func TestRegistryChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	write(t, file, "robot:for the first\n")
	h := agentsHouse(t, recorder(t), "--bootstrap-registry", "first.example", "--bootstrap-registry-credential", file)
	h.muster("node", "create", "gpu-7")
	first := h.bootstrap("gpu-7", "--ttl", "1h")
	if got := h.credential(first.Token); !strings.Contains(got, "for the first") {
		t.Fatalf("got %s", got)
	}
	h.gateway.stop()
	write(t, file, "robot:for the second\n")
	for i, arg := range h.args {
		if arg == "first.example" {
			h.args[i] = "second.example"
		}
	}
	h.open()
	if got := h.credential(first.Token); got != "" {
		t.Errorf("the first registry's script got %s", got)
	}
	if got := h.credential(h.bootstrap("gpu-7").Token); !strings.Contains(got, "for the second") {
		t.Errorf("the second registry's script got %s", got)
	}
	if got := h.muster("audit", "-o", "json"); !strings.Contains(got, "the gateway's registry is another now") {
		t.Errorf("no event says why:\n%s", got)
	}
}
