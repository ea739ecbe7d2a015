package adminapi_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// onSocket serves the API on a unix socket in a directory of its own.
func (h *house) onSocket() (dir string) {
	h.t.Helper()
	dir, err := os.MkdirTemp("", "m") // a test's own directory can be too long a path for a socket
	if err != nil {
		h.t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, client.SocketName))
	if err != nil {
		h.t.Fatal(err)
	}
	server := &http.Server{Handler: h.routes(true)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	h.t.Cleanup(func() {
		server.Close()
		<-done
		os.RemoveAll(dir)
	})
	return dir
}

func TestClientOnSocket(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	ctx := t.Context()
	c, err := client.Dial(ctx, client.Target{DataDir: h.onSocket()})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, ok bool, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
	who, err := client.Get[api.Caller](ctx, c, api.PathWhoAmI, nil)
	check("whoami", who.Actor == "operator:socket", err)
	g, err := client.Get[api.Gateway](ctx, c, api.PathGateway, nil)
	check("gateway", g.Version == "test", err)
	rows, err := client.Get[api.NodeRows](ctx, c, api.PathNodes, api.NodeFilter{Selector: "tier=sovereign", Status: "online",
		State: "active", All: true, Limit: 5})
	check("nodes", rows.Total == 1 && len(rows.Nodes) == 1, err)
	raw, err := client.Get[json.RawMessage](ctx, c, api.At(api.PathNode, "n"), nil)
	check("node", strings.Contains(string(raw), `"skew_ms":`), err)
	n, err := client.Send[api.Node](ctx, c, "POST", api.At(api.PathNode, "n")+"/"+"drain", nil)
	check("drain", n.State == "drained", err)
	n, err = client.Send[api.Node](ctx, c, "POST", api.At(api.PathLabels, "n"), api.LabelsRequest{Set: map[string]string{"a": "b"}})
	check("label", n.Labels["a"] == "b", err)
	token, err := client.Send[api.NewToken](ctx, c, "POST", api.PathTokens, api.TokenRequest{TTL: api.Duration(90 * time.Minute)})
	check("token", token.ExpiresAt.Equal(h.now.Add(90*time.Minute)), err)
	check("revoke", true, client.Drop(ctx, c, api.At(api.PathToken, token.ID), nil))
	tokens, err := client.Get[api.TokenList](ctx, c, api.PathTokens, api.ListFilter{Tenant: "default", All: true})
	check("tokens", len(tokens.Tokens) == 1 && tokens.Tokens[0].Status == "revoked", err)
	psk, err := client.Send[api.NewPSK](ctx, c, "POST", api.PathPSK, api.PSKRequest{Generate: true})
	check("psk", psk.Secret != "", err)
	_, err = client.Send[api.NewPSK](ctx, c, "POST", api.PathPSKRotate, api.PSKRequest{Generate: true})
	check("rotate", true, err)
	check("clear", true, client.Drop(ctx, c, api.PathPSK, api.PSKFilter{Keep: psk.ID}))
	psks, err := client.Get[api.PSKList](ctx, c, api.PathPSK, nil)
	check("psks", len(psks.PSKs) == 1, err)
	events, err := client.Get[api.EventList](ctx, c, api.PathEvents, api.EventFilter{After: new(int64(1)), Before: 1000, Limit: 10,
		Since: h.now.Add(-time.Hour)})
	check("events", len(events.Events) > 5 && events.Events[0].Kind == "node.drained", err)
	events, err = client.Get[api.EventList](ctx, c, api.PathEvents, api.EventFilter{Node: "n", Kind: "node.drained",
		Tenant: "platform", Security: true})
	check("security events", len(events.Events) == 1, err)
	_, err = client.Get[json.RawMessage](ctx, c, api.At(api.PathNode, "../tokens"), nil)
	check("a name with a slash", client.IsNotFound(err), nil)
	if _, err := client.Get[json.RawMessage](ctx, c, api.At(api.PathNode, "x"), nil); !client.IsNotFound(err) {
		t.Errorf("unknown node: %v", err)
	}
	h.store.Close()
	var detail *wire.ErrorDetail
	if _, err := client.Get[api.NodeRows](ctx, c, api.PathNodes, api.NodeFilter{}); !errors.As(err, &detail) ||
		!strings.Contains(detail.Message, "request id ") {
		t.Errorf("with a broken store: %v", err)
	}
}

func TestClientSocketTrouble(t *testing.T) {
	stale := t.TempDir()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(stale, client.SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	for _, c := range []struct{ name, dir, want string }{
		{"none", t.TempDir(), "no gateway answers at "},
		{"left behind", stale, "no gateway answers at "},
		{"too long", filepath.Join(t.TempDir(), strings.Repeat("x", 120)), "too long"},
	} {
		dialled, err := client.Dial(t.Context(), client.Target{DataDir: c.dir})
		if err == nil {
			_, err = client.Get[api.Caller](t.Context(), dialled, api.PathWhoAmI, nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// overTLS serves the API, and the root bundle, with a certificate that no system trusts.
func (h *house) overTLS() (server *httptest.Server, pin, caFile string) {
	h.t.Helper()
	mux := http.NewServeMux()
	server = httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	h.t.Cleanup(server.Close)
	root := server.Certificate()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})
	mux.Handle(wire.PrefixAdmin, h.routes(false))
	mux.HandleFunc("GET "+wire.PathRoots, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bundle) })
	caFile = filepath.Join(h.t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, bundle, 0o600); err != nil {
		h.t.Fatal(err)
	}
	sum := sha256.Sum256(root.RawSubjectPublicKeyInfo)
	return server, "sha256:" + hex.EncodeToString(sum[:]), caFile
}

func TestClientOverTLS(t *testing.T) {
	h := newHouse(t)
	server, pin, caFile := h.overTLS()
	token := h.account("ops", "", "*")
	enrol, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		target client.Target
		want   string // "" works
	}{
		{"pinned root", client.Target{URL: server.URL, Token: token, RootPin: pin}, ""},
		{"CA file", client.Target{URL: server.URL + "/", Token: token + "\n", CAFile: caFile}, ""},
		{"system's roots", client.Target{URL: server.URL, Token: token}, "--root-pin"},
		{"another root", client.Target{URL: server.URL, Token: token, RootPin: "sha256:" + strings.Repeat("0", 64)}, "poses as it"},
		{"malformed pin", client.Target{URL: server.URL, Token: token, RootPin: pin[7:]}, "sha256:<64 hex digits>"},
		{"both", client.Target{URL: server.URL, Token: token, RootPin: pin, CAFile: caFile}, "give one"},
		{"no CA file", client.Target{URL: server.URL, Token: token, CAFile: caFile + "x"}, "no such file"},
		{"empty CA file", client.Target{URL: server.URL, Token: token, CAFile: empty}, "no certificate"},
		{"no token", client.Target{URL: server.URL, CAFile: caFile}, "MUSTER_API_TOKEN"},
		{"mistyped token", client.Target{URL: server.URL, CAFile: caFile, Token: token[:len(token)-2] + "zz"}, "mistyped"},
		{"wrong kind", client.Target{URL: server.URL, CAFile: caFile, Token: enrol.Reveal()}, "msa_"},
		{"plain http", client.Target{URL: "http://gateway.example", Token: token}, "plain http"},
		{"no URL", client.Target{URL: "gateway.example:7443", Token: token}, "must look like"},
		{"URL with a user", client.Target{URL: "https://a:b@gateway.example", Token: token}, "must look like"},
		{"nobody there", client.Target{URL: "https://127.0.0.1:1", Token: token, RootPin: pin}, "cannot reach"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialled, err := client.Dial(t.Context(), c.target)
			if err == nil {
				_, err = client.Get[api.Caller](t.Context(), dialled, api.PathWhoAmI, nil)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), token[len(token)-12:]) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// TestPinBelievesTheChain has a server that shows the pinned root and answers with another certificate.
func TestPinBelievesTheChain(t *testing.T) {
	h := newHouse(t)
	other, err := x509.ParseCertificate(rootOf(t))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathRoots, func(w http.ResponseWriter, _ *http.Request) {
		_ = pem.Encode(w, &pem.Block{Type: "CERTIFICATE", Bytes: other.Raw})
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	sum := sha256.Sum256(other.RawSubjectPublicKeyInfo)
	dialled, err := client.Dial(t.Context(), client.Target{URL: server.URL, Token: h.account("ops", "", "*"),
		RootPin: "sha256:" + hex.EncodeToString(sum[:])})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get[api.Caller](t.Context(), dialled, api.PathWhoAmI, nil); err == nil ||
		!strings.Contains(err.Error(), "not one that this machine trusts") {
		t.Errorf("got %v", err)
	}
}

func TestClientAnswersOfOthers(t *testing.T) {
	h := newHouse(t)
	token := h.account("ops", "", "*")
	stolen := ""
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	defer thief.Close()
	for _, c := range []struct {
		name, kind string
		status     int
		body, want string
	}{
		{"a page", "text/html", 200, "<html>", "not muster's admin API"},
		{"an error page", "text/html; charset=utf-8", 502, "<html>", "status 502"},
		{"a redirect", "text/html", 302, "", "status 302"},
		{"JSON of something else", "application/json", 404, `{"message":"no route"}`, "status 404"},
		{"not JSON", "application/json", 200, `{`, "not as this version expects"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Location", thief.URL)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		dialled, err := client.Dial(t.Context(), client.Target{URL: server.URL, Token: token})
		if err == nil {
			_, err = client.Get[api.Caller](t.Context(), dialled, api.PathWhoAmI, nil)
		}
		server.Close()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if stolen != "" {
		t.Error("a redirect took the token elsewhere")
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{`"90m"`: 90 * time.Minute, `"7d"`: 168 * time.Hour, `60`: time.Minute, `"0s"`: 0,
		`"d"`: -1, `"-1d"`: -1, `"x"`: -1, `null`: 0, `true`: -1, `"99999999d"`: -1} {
		var d api.Duration
		err := json.Unmarshal([]byte(text), &d)
		if (err != nil) != (want < 0) || want >= 0 && time.Duration(d) != want {
			t.Errorf("%s: got %s, %v", text, time.Duration(d), err)
		}
	}
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{`{}`, `{"set":{"a":"b"}}`, `{"remove":["a"]}`, `{"set":{"a":1}}`, `[[[[`, `{"set":`, `{"set":{},"set":{}}`,
		"null", " "} {
		f.Add([]byte(s))
	}
	h := newHouse(f)
	routes := h.routes(true)
	f.Fuzz(func(t *testing.T, body []byte) {
		status, answer := serve(t, routes, "POST", "nodes/nobody/labels", "", string(body))
		if status != 400 && status != 404 || code(answer) == "" {
			t.Errorf("%q: got %d %s", body, status, answer)
		}
	})
}
