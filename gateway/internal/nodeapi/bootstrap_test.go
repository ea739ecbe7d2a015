package nodeapi_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
	"muster/store"
)

// hall is a site whose scripts are rendered and whose doors are guarded, with one node that waits.
type hall struct {
	*site
	handler http.Handler
	desk    *bootstrap.Bootstrap
	node    fleet.Node
}

func newHall(t testing.TB) *hall {
	t.Helper()
	h := &hall{}
	h.site = newSite(t, func(c *nodeapi.Config) {
		h.desk = bootstrap.New(bootstrap.Config{Store: c.Store, Now: c.Now, Site: func() (bootstrap.Site, error) {
			return bootstrap.Site{NodeURL: "https://gw:7443", FirstHop: "https://gw:7443", FirstHopTrust: bootstrap.SystemTrust, Registry: "registry.example",
				Agents: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: "ab", Path: "/agent/linux/amd64"}}}, nil
		}})
		c.Bootstrap = h.desk
	})
	api := nodeapi.New(h.config)
	mux := http.NewServeMux()
	api.Routes(mux)
	mux.HandleFunc("GET /api/v1/admin/nodes", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	h.handler = api.Guard(h.config.Info.Strict(mux), nodeapi.Doors{
		Admin: func(r *http.Request) bool {
			return r.TLS != nil && r.Method == "GET" && r.URL.Path == "/api/v1/admin/nodes"
		},
		Proxied: func(r *http.Request) bool { return r.Header.Get("X-Test-Proxied") != "" },
		Open:    func(r *http.Request) bool { return r.Header.Get("X-Test-Open") != "" },
	})
	var err error
	if h.node, err = h.fleet.Create(t.Context(), fleet.NewNode{Name: "gpu-7"}, store.Actor{Name: "operator:socket"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hall) mint(ttl time.Duration) bootstrap.Minted {
	h.t.Helper()
	row, err := h.store.Node(h.t.Context(), "", h.node.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := h.desk.MintNodeToken(h.t.Context(), bootstrap.NodeTokenRequest{Node: row, TTL: ttl}, store.Actor{Name: "operator:socket"})
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// ask sends one request, over TLS or without.
func (h *hall) ask(method, target string, secure bool, header ...string) answer {
	r := httptest.NewRequest(method, target, nil)
	if r.TLS = nil; secure {
		r.TLS = &tls.ConnectionState{}
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	if a.status >= 400 {
		_ = json.Unmarshal(a.body, &a.Error)
	}
	return a
}

func scriptPath(token string) string { return "/api/v1/bootstrap/nodes/" + token + "/script" }

func credentialPath(token string) string {
	return "/api/v1/bootstrap/nodes/" + token + "/registry-credential"
}

func TestBootstrapScript(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	for _, c := range []struct {
		method, token string
		secure        bool
		want          string
	}{
		{"GET", m.Token.FetchPart(), false, m.FetchSum}, {"POST", m.Token.FetchPart(), true, m.FetchSum},
		{"GET", m.Token.Reveal(), true, m.ScriptSum}, {"POST", m.Token.Reveal(), true, m.ScriptSum},
	} {
		a := h.ask(c.method, scriptPath(c.token), c.secure)
		if a.status != http.StatusOK || hexSum(a.body) != c.want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/x-shellscript") ||
			!strings.Contains(a.header.Get("Cache-Control"), "no-store") {
			t.Errorf("%s: got %d %.80s", c.method, a.status, a.body)
		}
	}
	if n, err := h.fleet.Node(t.Context(), "", "gpu-7"); err != nil || n.State != string(fleet.Deploying) {
		t.Errorf("state %s, %v", n.State, err)
	}
	if e := h.events("bootstrap.fetched"); len(e) != 2 || e[0].Detail["part"] != "whole" || e[1].Detail["part"] != "fetch" {
		t.Errorf("%d events: %+v", len(e), e)
	}
	if e := h.events("node.script_fetched"); len(e) != 1 || e[0].Actor != "token:"+m.Token.Public() {
		t.Errorf("events: %+v", e)
	}
}

func TestBootstrapCredential(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	if a := h.ask("GET", credentialPath(m.Token.Reveal()), true); a.status != http.StatusNoContent || len(a.body) != 0 {
		t.Errorf("none: got %d %s", a.status, a.body)
	}
	c := bootstrap.RegistryCredential{Registry: "registry.example", Username: "robot", Password: "hidden"}
	if err := h.desk.SetRegistryCredential(t.Context(), c, store.Actor{Name: "gateway"}); err != nil {
		t.Fatal(err)
	}
	if a := h.ask("GET", credentialPath(m.Token.Reveal()), true); a.status != http.StatusOK || string(a.body) != `{"registry":"registry.example","username":"robot","password":"hidden"}`+"\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := h.ask("GET", credentialPath(m.Token.Reveal()), true, "Accept", "text/plain"); a.status != http.StatusOK || string(a.body) != "robot\nhidden\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if e := h.events("bootstrap.credential"); len(e) != 2 || e[1].Outcome != "none" || e[0].Outcome != "ok" {
		t.Errorf("events: %+v", e)
	}
}

// TestBootstrapRefusals: whatever is wrong with a token or its place has its own code, and is an event without the token.
func TestBootstrapRefusals(t *testing.T) {
	h := newHall(t)
	good, short, revoked := h.mint(24*time.Hour), h.mint(time.Minute), h.mint(0)
	whole, part := good.Token.Reveal(), good.Token.FetchPart()
	if err := h.desk.RevokeToken(t.Context(), "", revoked.Token.Public(), store.Actor{Name: "operator:socket"}); err != nil {
		t.Fatal(err)
	}
	h.clock.Forward(2 * time.Minute)
	enrollment, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := sign.NewToken(sign.BootstrapToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, target string
		secure               bool
		status               int
		code                 string
		header               []string
	}{
		{"expired", "GET", scriptPath(short.Token.FetchPart()), true, 403, wire.CodeTokenExpired, nil},
		{"revoked", "GET", scriptPath(revoked.Token.FetchPart()), true, 403, wire.CodeTokenRevoked, nil},
		{"of another gateway", "GET", scriptPath(foreign.FetchPart()), true, 401, wire.CodeUnknownCredential, nil},
		{"mistyped", "GET", scriptPath(whole[:len(whole)-1] + "-"), true, 400, wire.CodeBadRequest, nil},
		{"public part alone", "GET", scriptPath(good.Token.Public()), true, 400, wire.CodeBadRequest, nil},
		{"no token", "GET", scriptPath("gpu-7"), true, 400, wire.CodeBadRequest, nil},
		{"an enrollment token", "GET", scriptPath(enrollment.Reveal()), true, 403, wire.CodeTokenWrongRoute, nil},
		{"whole over plain HTTP", "GET", scriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"whole and expired over plain HTTP", "GET", scriptPath(short.Token.Reveal()), false, 403, wire.CodeTLSRequired, nil},
		{"credential over plain HTTP", "GET", credentialPath(part), false, 403, wire.CodeTLSRequired, nil},
		{"credential, whole, over plain HTTP", "GET", credentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential by the fetch part", "GET", credentialPath(part), true, 403, wire.CodeForbidden, nil},
		{"in the query string", "GET", "/healthz?token=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in the query string of its own route", "GET", scriptPath(part) + "?t=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in the query string of registering", "POST", wire.PathRegister + "?token=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in another path", "POST", "/nodes/" + whole + "/heartbeat", true, 403, wire.CodeTokenWrongRoute, nil},
		{"beside its routes", "GET", "/api/v1/bootstrap/nodes/" + whole + "/agent", true, 403, wire.CodeTokenWrongRoute, nil},
		{"by another method", "PUT", scriptPath(part), true, 403, wire.CodeTokenWrongRoute, nil},
		{"whole, by another method over plain HTTP", "PUT", scriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"whole, asked about over plain HTTP", "OPTIONS", scriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential, whole, by POST over plain HTTP", "POST", credentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential by HEAD", "HEAD", credentialPath(whole), true, 405, wire.CodeMethodNotAllowed, nil},
		{"credential by HEAD over plain HTTP", "HEAD", credentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"mistyped and whole over plain HTTP", "GET", scriptPath(whole[:len(whole)-1] + "-"), false, 403, wire.CodeTLSRequired, nil},
		{"a slash too many over plain HTTP", "GET", "/api/v1/bootstrap/nodes//" + whole + "/script", false, 403, wire.CodeTLSRequired, nil},
		{"a slash too many", "GET", "/api/v1/bootstrap/nodes//" + whole + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a way round over plain HTTP", "GET", "/api/v1/bootstrap/nodes/x/../" + whole + "/script", false, 403, wire.CodeTLSRequired, nil},
		{"a way round by the fetch part", "GET", "/api/v1/bootstrap/nodes/x/../" + part + "/script", false, 403, wire.CodeTokenWrongRoute, nil},
		{"a segment too many", "GET", "/api/v1/bootstrap/nodes/" + part + "/x/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash for the underscore", "GET", "/api/v1/bootstrap/nodes/" + good.Token.Public() + "/" + good.Token.Fetch + "." + good.Token.Secret + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"encoded twice in another path", "GET", "/agent/linux/%256Dsb" + whole[3:], true, 403, wire.CodeTokenWrongRoute, nil},
		{"encoded in the query", "GET", "/healthz?t=%6Dsb%5F" + whole[4:], true, 400, wire.CodePlaintextSecret, nil},
		{"encoded in the query of its own route", "GET", scriptPath(part) + "?token=%6Dsb_" + whole[4:], true, 400, wire.CodePlaintextSecret, nil},
		{"encoded twice in the query", "GET", "/healthz?t=%256Dsb_" + whole[4:], true, 400, wire.CodePlaintextSecret, nil},
		{"as a password", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", basic("x:" + whole)}},
		{"as a user", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", strings.TrimRight(basic(whole+":"), "=")}},
		{"for a proxy", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Proxy-Authorization", "Bearer " + whole}},
		{"as a cookie", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Cookie", "t=" + whole}},
		{"as a referrer", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Referer", "https://gw/?t=%6Dsb_" + whole[4:]}},
		{"as a key", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Api-Key", whole}},
		{"as the cluster's token", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Cluster-Token", whole}},
		{"at the admin API where that is not", "GET", "/api/v1/admin/nodes", false, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
		{"in a query for the admin API where that is not", "GET", "/api/v1/admin/nodes?t=" + whole, false, 400, wire.CodePlaintextSecret, nil},
		{"at no route of the admin API", "GET", "/api/v1/admin/nope", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
		{"at a route of the admin API, by another method", "PUT", "/api/v1/admin/nodes", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
		{"in a path below the admin API", "GET", "/api/v1/admin/nope/" + whole, true, 403, wire.CodeTokenWrongRoute, nil},
		{"as a cookie for the admin API", "GET", "/api/v1/admin/nodes", true, 403, wire.CodeTokenWrongRoute, []string{"Cookie", whole}},
		{"registering as a bearer", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret, []string{"Authorization", "Bearer " + whole}},
		{"registering with all of it as the id", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret, []string{"Authorization", `Muster credential="` + whole + `", mac="AAAA"`}},
		{"registering with a password", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret, []string{"Authorization", basic("x:" + whole)}},
		{"registering with the cluster's header", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret, []string{"X-Cluster-Token", whole}},
		{"registering with one of another gateway", "POST", wire.PathRegister, true, 401, wire.CodeUnknownCredential, []string{"Authorization", sign.Authorization(foreign.Public(), make([]byte, 32), nil)}},
		{"through a proxy", "GET", scriptPath(whole), false, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"credential through a proxy", "GET", credentialPath(whole), false, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"a slash that is none", "GET", "/api/v1/bootstrap/nodes/" + whole + "%2Fscript", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash that is none, before", "GET", "/api/v1/bootstrap%2Fnodes/" + whole + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash that is none, over plain HTTP", "GET", "/api/v1/bootstrap/nodes/" + whole + "%2Fscript", false, 403, wire.CodeTLSRequired, nil},
		{"a slash that is none, in registering", "POST", "/nodes%2Fregister", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
		{"registering by another method", "PUT", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
		{"registering by another method, the cluster's header", "GET", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute, []string{"X-Cluster-Token", whole}},
		{"over TLS through a proxy", "GET", scriptPath(whole), true, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"credential over TLS through a proxy", "GET", credentialPath(whole), true, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"credential by the fetch part over TLS through a proxy", "GET", credentialPath(part), true, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"by another method over TLS through a proxy", "PUT", scriptPath(whole), true, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"as a password behind a tab", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Basic\t" + basic("x:" + whole)[6:]}},
		{"as a password of a bearer", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + basic(whole)[6:]}},
		{"in a header of its own", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Bootstrap", whole}},
		{"as a program's name", "POST", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute, []string{"User-Agent", "x/" + whole}},
		{"behind one that is unknown", "GET", "/healthz?a=msb_none1234_x&t=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in a header of a node's request without a proof", "POST", "/nodes/n-1/heartbeat", true, 403, wire.CodeTokenWrongRoute, []string{"X-Note", whole}},
		{"in a header", "POST", "/nodes/n-1/heartbeat", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.clock.Forward(2 * time.Minute) // into another window of the counter
			before := len(h.events("bootstrap.refused"))
			a := h.ask(c.method, c.target, c.secure, c.header...)
			if a.status != c.status || a.Error.Error.Code != c.code || a.Error.Error.Message == "" || a.Error.Error.Hint == "" {
				t.Errorf("got %d %s, want %d %s", a.status, a.body, c.status, c.code)
			}
			e := h.events("bootstrap.refused")
			if len(e) != before+1 || e[0].Outcome != c.code || !e[0].Security {
				t.Fatalf("%d events, want one more than %d", len(e), before)
			}
			if whose := strings.Contains(c.target+fmt.Sprint(c.header), good.Token.ID) || strings.HasPrefix(c.name, "as a user") || strings.Contains(c.name, "password"); whose &&
				(e[0].NodeName != "gpu-7" || e[0].NodeID != h.node.ID || e[0].Tenant != "default" || e[0].Detail["token"] != good.Token.Public()) {
				t.Errorf("whose it is: %+v", e[0])
			}
			if a.header.Get("Location") != "" {
				t.Errorf("redirected to %s", a.header.Get("Location"))
			}
			raw, err := json.Marshal(e[0])
			if err != nil || strings.Contains(string(raw)+string(a.body), good.Token.Fetch) || strings.Contains(string(raw)+string(a.body), good.Token.Secret) {
				t.Errorf("the token is in %s or %s, %v", raw, a.body, err)
			}
		})
	}
}

// TestBootstrapGone: the token of a node that was retired or banned opens nothing.
func TestBootstrapGone(t *testing.T) {
	for verb, want := range map[fleet.Verb]string{fleet.Retire: wire.CodeRetired, fleet.Ban: wire.CodeTokenRevoked} {
		h := newHall(t)
		m := h.mint(0)
		if _, err := h.fleet.Apply(t.Context(), "", "gpu-7", verb, store.Actor{Name: "operator:socket"}); err != nil {
			t.Fatal(err)
		}
		if a := h.ask("GET", scriptPath(m.Token.FetchPart()), true); a.status != http.StatusForbidden || a.Error.Error.Code != want {
			t.Errorf("%s: got %d %s", verb, a.status, a.body)
		}
	}
}

// TestBootstrapRegister: a bootstrap token enrols its own node, once, under that node's name, and no other machine.
func TestBootstrapRegister(t *testing.T) {
	h := newHall(t)
	other, err := h.fleet.Create(t.Context(), fleet.NewNode{Name: "gpu-8"}, store.Actor{Name: "operator:socket"})
	if err != nil {
		t.Fatal(err)
	}
	m := h.mint(0)
	secret, err := sign.EnrollKey(m.Token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	c := credential{m.Token.Public(), secret}
	if a := h.register(c, encode(t, h.application(other.Name, newKey(t)))); a.status != http.StatusForbidden || a.code() != wire.CodeWrongNode {
		t.Errorf("another node's name: got %d %s", a.status, a.body)
	}
	key := newKey(t)
	a := h.register(c, encode(t, h.application("a-hostname", key)))
	var welcome wire.Welcome
	if err := json.Unmarshal(a.body, &welcome); err != nil || a.status != http.StatusOK || welcome.NodeID != h.node.ID || welcome.Name != "gpu-7" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	h.clock.Forward(time.Hour)
	if again := h.register(c, encode(t, h.application("a-hostname", key))); again.status != http.StatusOK {
		t.Errorf("the same key again, after the end: got %d %s", again.status, again.body)
	}
	if a := h.register(c, encode(t, h.application("gpu-7", newKey(t)))); a.code() != wire.CodeTokenUsed && a.code() != wire.CodeTokenExpired {
		t.Errorf("another key: got %d %s", a.status, a.body)
	}
	if a := h.ask("GET", scriptPath(m.Token.FetchPart()), true); a.Error.Error.Code != wire.CodeTokenUsed || a.status != http.StatusConflict {
		t.Errorf("the script after the use: got %d %s", a.status, a.body)
	}
}

// TestBootstrapThroughAProxy: what the proxy has seen is not said to have crossed the network in the clear.
func TestBootstrapThroughAProxy(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	for proxied, want := range map[string]string{"": "over plain HTTP", "1": "through a proxy that ends TLS"} {
		a := h.ask("GET", credentialPath(m.Token.Reveal()), false, "X-Test-Proxied", proxied)
		if e := h.events("bootstrap.refused"); !strings.Contains(a.Error.Error.Message, want) || !strings.Contains(e[0].Detail["reason"], want) {
			t.Errorf("proxied %q: got %s, event %+v", proxied, a.body, e[0])
		}
	}
	if a := h.ask("GET", scriptPath(m.Token.FetchPart()), false, "X-Test-Proxied", "1"); a.status != http.StatusOK {
		t.Errorf("the fetch part: got %d %s", a.status, a.body)
	}
}

// TestTokensWhereTheyMayBe: what the guard has nothing to say about.
func TestTokensWhereTheyMayBe(t *testing.T) {
	h := newHall(t)
	account, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Bearer " + account.Reveal()
	for _, c := range []struct {
		name, method, target string
		secure               bool
		status               int
		header               []string
	}{
		{"an API token at the admin API", "GET", "/api/v1/admin/nodes", true, 401, []string{"Authorization", bearer}},
		{"a query of the admin API", "GET", "/api/v1/admin/nodes?token=" + account.Reveal(), true, 401, nil},
		{"an API token elsewhere", "GET", "/healthz", true, 200, []string{"Authorization", bearer}},
		{"an API token through a proxy", "GET", "/healthz", false, 200, []string{"Authorization", bearer, "X-Test-Proxied", "1"}},
		{"a public part in a header of its own", "GET", "/healthz", true, 200, []string{"X-Note", account.Public()}},
		{"an API token in a header of its own", "GET", "/healthz", true, 200, []string{"X-Note", account.Reveal()}},
		{"an unusual header beside a node's proof", "POST", "/nodes/n-1/heartbeat", true, 401, []string{"X-Note", "msb_none1234_x", "Signature", "x"}},
		{"an API token that came openly to a proxy", "GET", "/api/v1/admin/nodes", true, 403, []string{"Authorization", bearer, "X-Test-Open", "1"}},
		{"an API token over plain HTTP", "GET", "/api/v1/admin/nodes", false, 403, []string{"Authorization", bearer}},
		{"a public part of no route", "GET", "/api/v1/admin/nope/" + account.Public(), true, 404, nil},
		{"a user and a password", "GET", "/healthz", true, 200, []string{"Authorization", basic("alice:secret")}},
		{"no base64", "GET", "/healthz", true, 200, []string{"Authorization", "Basic !"}},
		{"a query", "GET", "/healthz?a=%zz&b=msb_", true, 200, nil},
	} {
		if a := h.ask(c.method, c.target, c.secure, c.header...); a.status != c.status {
			t.Errorf("%s: got %d %s", c.name, a.status, a.body)
		}
	}
	if e := h.events("bootstrap.refused"); len(e) != 2 || e[0].Outcome != wire.CodeTLSRequired || e[1].Outcome != wire.CodeTLSRequired ||
		e[0].Detail["token"] != account.Public() || e[1].Detail["token"] != account.Public() {
		t.Errorf("events: %+v", e)
	}
}

// TestTokensInUnusualBodies: the path of registering takes a POST alone, and a secret that is sent to it otherwise is known to others too.
func TestTokensInUnusualBodies(t *testing.T) {
	h := newHall(t)
	m := h.mint(time.Hour)
	for i, c := range []struct{ method, target, body, code string }{
		{"PUT", wire.PathRegister, `{"token":"` + m.Token.Reveal() + `"}`, wire.CodePlaintextSecret},
		{"POST", "/nodes%2Fregister", `{"name":"` + m.Token.Reveal() + `"}`, wire.CodePlaintextSecret},
		{"PUT", wire.PathRegister, `{"name":"box"}`, wire.CodeMethodNotAllowed},
		{"POST", "/nodes%2Fregister", "{}", wire.CodeNotFound},
	} {
		w := httptest.NewRecorder()
		h.handler.ServeHTTP(w, httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))
		if !strings.Contains(w.Body.String(), `"`+c.code+`"`) || strings.Contains(w.Body.String(), m.Token.Secret) {
			t.Errorf("%s %s: got %d %s", c.method, c.target, w.Code, w.Body)
		}
		if e := h.events("bootstrap.refused"); len(e) != min(i+1, 2) || e[0].NodeName != "gpu-7" || e[0].Outcome != wire.CodePlaintextSecret {
			t.Errorf("%s %s: events %+v", c.method, c.target, e)
		}
	}
}

// TestBootstrapHead: to ask for the headers is no fetch.
func TestBootstrapHead(t *testing.T) {
	h := newHall(t)
	m := h.mint(24 * time.Hour)
	a := h.ask("HEAD", scriptPath(m.Token.FetchPart()), false)
	if want := h.ask("HEAD", scriptPath(m.Token.Reveal()), true).header.Get("Content-Length"); a.status != http.StatusOK ||
		!strings.HasPrefix(a.header.Get("Content-Type"), "text/x-shellscript") || want == "" || a.header.Get("Content-Length") == "" || want <= a.header.Get("Content-Length") {
		t.Errorf("got %d %v, %s", a.status, a.header, want)
	}
	if n, err := h.fleet.Node(t.Context(), "", "gpu-7"); err != nil || n.State != string(fleet.Ready) {
		t.Errorf("state %s, %v", n.State, err)
	}
	if kept, err := h.store.Bootstrap(t.Context(), m.Token.Public()); err != nil || kept.FirstFetchAt != nil || len(h.events("bootstrap.fetched")) != 0 {
		t.Errorf("first fetch %v, %v", kept.FirstFetchAt, err)
	}
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

func hexSum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
