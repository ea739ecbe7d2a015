package nodeapi_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// refusedToken is a request with a token that has ended, or that stands if none belongs.
type refusedToken struct {
	name, method, target string
	secure               bool // over TLS
	status               int
	code                 string
	header               []string
}

// keys are tokens that are good, and others that are not.
type keys struct {
	good, short, revoked sign.Token
	enrollment, foreign  sign.Token
}

func (h *hall) keys() keys {
	h.t.Helper()
	k := keys{good: h.mint(24 * time.Hour).Token, short: h.mint(time.Minute).Token, revoked: h.mint(0).Token}
	if err := h.scripts.RevokeToken(h.t.Context(), "", k.revoked.Public(), store.Actor{Name: "operator:socket"}); err != nil {
		h.t.Fatal(err)
	}
	h.clock.Forward(2 * time.Minute)
	var err error
	if k.enrollment, err = sign.NewToken(sign.EnrollmentToken, nil); err != nil {
		h.t.Fatal(err)
	}
	if k.foreign, err = sign.NewToken(sign.BootstrapToken, nil); err != nil {
		h.t.Fatal(err)
	}
	return k
}

// ended are tokens at their own routes that are refused there.
func (k keys) ended() []refusedToken {
	whole := k.good.Reveal()
	part := k.good.FetchPart()
	return []refusedToken{
		{"expired", "GET", wire.BootstrapScriptPath(k.short.FetchPart()), true, 403, wire.CodeTokenExpired, nil},
		{"revoked", "GET", wire.BootstrapScriptPath(k.revoked.FetchPart()), true, 403, wire.CodeTokenRevoked, nil},
		{"of another gateway", "GET", wire.BootstrapScriptPath(k.foreign.FetchPart()), true, 401, wire.CodeUnknownCredential, nil},
		{"mistyped", "GET", wire.BootstrapScriptPath(whole[:len(whole)-1] + "-"), true, 400, wire.CodeBadRequest, nil},
		{"public part alone", "GET", wire.BootstrapScriptPath(k.good.Public()), true, 400, wire.CodeBadRequest, nil},
		{"no token", "GET", wire.BootstrapScriptPath("gpu-7"), true, 400, wire.CodeBadRequest, nil},
		{"an enrollment token", "GET", wire.BootstrapScriptPath(k.enrollment.Reveal()), true, 403, wire.CodeTokenWrongRoute, nil},
		{"whole over plain HTTP", "GET", wire.BootstrapScriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"whole and expired over plain HTTP", "GET", wire.BootstrapScriptPath(k.short.Reveal()), false, 403, wire.CodeTLSRequired, nil},
		{"credential over plain HTTP", "GET", wire.RegistryCredentialPath(part), false, 403, wire.CodeTLSRequired, nil},
		{"credential, whole, over plain HTTP", "GET", wire.RegistryCredentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential by the fetch part", "GET", wire.RegistryCredentialPath(part), true, 403, wire.CodeForbidden, nil},
	}
}

// inPlaces are tokens in paths and query strings that take none.
func (k keys) inPlaces() []refusedToken {
	whole := k.good.Reveal()
	part := k.good.FetchPart()
	return []refusedToken{
		{"in the query string", "GET", "/healthz?token=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in the query string of its own route", "GET", wire.BootstrapScriptPath(part) + "?t=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in the query string of registering", "POST", wire.PathRegister + "?token=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in another path", "POST", "/nodes/" + whole + "/heartbeat", true, 403, wire.CodeTokenWrongRoute, nil},
		{"beside its routes", "GET", "/api/v1/bootstrap/nodes/" + whole + "/agent", true, 403, wire.CodeTokenWrongRoute, nil},
		{"by another method", "PUT", wire.BootstrapScriptPath(part), true, 403, wire.CodeTokenWrongRoute, nil},
		{"whole, by another method over plain HTTP", "PUT", wire.BootstrapScriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"whole, asked about over plain HTTP", "OPTIONS", wire.BootstrapScriptPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential, whole, by POST over plain HTTP", "POST", wire.RegistryCredentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"credential by HEAD", "HEAD", wire.RegistryCredentialPath(whole), true, 405, wire.CodeMethodNotAllowed, nil},
		{"credential by HEAD over plain HTTP", "HEAD", wire.RegistryCredentialPath(whole), false, 403, wire.CodeTLSRequired, nil},
		{"mistyped and whole over plain HTTP", "GET", wire.BootstrapScriptPath(whole[:len(whole)-1] + "-"), false, 403, wire.CodeTLSRequired,
			nil},
		{"a slash too many over plain HTTP", "GET", "/api/v1/bootstrap/nodes//" + whole + "/script", false, 403, wire.CodeTLSRequired, nil},
		{"a slash too many", "GET", "/api/v1/bootstrap/nodes//" + whole + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a way round over plain HTTP", "GET", "/api/v1/bootstrap/nodes/x/../" + whole + "/script", false, 403, wire.CodeTLSRequired, nil},
		{"a way round by the fetch part", "GET", "/api/v1/bootstrap/nodes/x/../" + part + "/script", false, 403, wire.CodeTokenWrongRoute, nil},
		{"a segment too many", "GET", "/api/v1/bootstrap/nodes/" + part + "/x/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash for the underscore", "GET", "/api/v1/bootstrap/nodes/" + k.good.Public() + "/" + k.good.Fetch + "." +
			k.good.Secret + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"encoded twice in another path", "GET", "/agent/linux/%256Dsb" + whole[3:], true, 403, wire.CodeTokenWrongRoute, nil},
		{"encoded in the query", "GET", "/healthz?t=%6Dsb%5F" + whole[4:], true, 400, wire.CodePlaintextSecret, nil},
		{"encoded in the query of its own route", "GET", wire.BootstrapScriptPath(part) + "?token=%6Dsb_" + whole[4:], true, 400,
			wire.CodePlaintextSecret,
			nil},
		{"encoded twice in the query", "GET", "/healthz?t=%256Dsb_" + whole[4:], true, 400, wire.CodePlaintextSecret, nil},
	}
}

// inHeaders are tokens in headers that take none, and what came through a proxy.
func (k keys) inHeaders() []refusedToken {
	whole := k.good.Reveal()
	part := k.good.FetchPart()
	return []refusedToken{
		{"as a password", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", basic("x:" + whole)}},
		{"as a user", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", strings.TrimRight(basic(whole+":"), "=")}},
		{"for a proxy", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Proxy-Authorization", "Bearer " + whole}},
		{"as a cookie", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Cookie", "t=" + whole}},
		{"as a referrer", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"Referer", "https://gw/?t=%6Dsb_" + whole[4:]}},
		{"as a key", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Api-Key", whole}},
		{"as the cluster's token", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Cluster-Token", whole}},
		{"at the admin API where that is not", "GET", "/api/v1/admin/nodes", false, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + whole}},
		{"in a query for the admin API where that is not", "GET", "/api/v1/admin/nodes?t=" + whole, false, 400, wire.CodePlaintextSecret, nil},
		{"at no route of the admin API", "GET", "/api/v1/admin/nope", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + whole}},
		{"at a route of the admin API, by another method", "PUT", "/api/v1/admin/nodes", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + whole}},
		{"in a path below the admin API", "GET", "/api/v1/admin/nope/" + whole, true, 403, wire.CodeTokenWrongRoute, nil},
		{"as a cookie for the admin API", "GET", "/api/v1/admin/nodes", true, 403, wire.CodeTokenWrongRoute, []string{"Cookie", whole}},
		{"registering as a bearer", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret, []string{"Authorization", "Bearer " + whole}},
		{"registering with all of it as the id", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret,
			[]string{"Authorization", `Muster credential="` + whole + `", mac="AAAA"`}},
		{"registering with a password", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret,
			[]string{"Authorization", basic("x:" + whole)}},
		{"registering with the cluster's header", "POST", wire.PathRegister, true, 400, wire.CodePlaintextSecret,
			[]string{"X-Cluster-Token", whole}},
		{"registering with one of another gateway", "POST", wire.PathRegister, true, 401, wire.CodeUnknownCredential,
			[]string{"Authorization", sign.Authorization(k.foreign.Public(), make([]byte, 32), nil)}},
		{"through a proxy", "GET", wire.BootstrapScriptPath(whole), false, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"credential through a proxy", "GET", wire.RegistryCredentialPath(whole), false, 403, wire.CodeTLSRequired,
			[]string{"X-Test-Proxied", "1"}},
		{"a slash that is none", "GET", "/api/v1/bootstrap/nodes/" + whole + "%2Fscript", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash that is none, before", "GET", "/api/v1/bootstrap%2Fnodes/" + whole + "/script", true, 403, wire.CodeTokenWrongRoute, nil},
		{"a slash that is none, over plain HTTP", "GET", "/api/v1/bootstrap/nodes/" + whole + "%2Fscript", false, 403, wire.CodeTLSRequired, nil},
		{"a slash that is none, in registering", "POST", "/nodes%2Fregister", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + whole}},
		{"registering by another method", "PUT", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + whole}},
		{"registering by another method, the cluster's header", "GET", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute,
			[]string{"X-Cluster-Token", whole}},
		{"over TLS through a proxy", "GET", wire.BootstrapScriptPath(whole), true, 403, wire.CodeTLSRequired, []string{"X-Test-Proxied", "1"}},
		{"credential over TLS through a proxy", "GET", wire.RegistryCredentialPath(whole), true, 403, wire.CodeTLSRequired,
			[]string{"X-Test-Proxied", "1"}},
		{"credential by the fetch part over TLS through a proxy", "GET", wire.RegistryCredentialPath(part), true, 403, wire.CodeTLSRequired,
			[]string{"X-Test-Proxied", "1"}},
		{"by another method over TLS through a proxy", "PUT", wire.BootstrapScriptPath(whole), true, 403, wire.CodeTLSRequired,
			[]string{"X-Test-Proxied", "1"}},
		{"as a password behind a tab", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Basic\t" + basic("x:" + whole)[6:]}},
		{"as a password of a bearer", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute,
			[]string{"Authorization", "Bearer " + basic(whole)[6:]}},
		{"in a header of its own", "GET", "/healthz", true, 403, wire.CodeTokenWrongRoute, []string{"X-Bootstrap", whole}},
		{"as a program's name", "POST", wire.PathRegister, true, 403, wire.CodeTokenWrongRoute, []string{"User-Agent", "x/" + whole}},
		{"behind one that is unknown", "GET", "/healthz?a=msb_none1234_x&t=" + whole, true, 400, wire.CodePlaintextSecret, nil},
		{"in a header of a node's request without a proof", "POST", "/nodes/n-1/heartbeat", true, 403, wire.CodeTokenWrongRoute,
			[]string{"X-Note", whole}},
		{"in a header", "POST", "/nodes/n-1/heartbeat", true, 403, wire.CodeTokenWrongRoute, []string{"Authorization", "Bearer " + whole}},
	}
}

// TestBootstrapRefusals: each is an event that says whose token it was, and the secret is nowhere.
func TestBootstrapRefusals(t *testing.T) {
	h := newHall(t)
	k := h.keys()
	for _, c := range slices.Concat(k.ended(), k.inPlaces(), k.inHeaders()) {
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
			if whose := strings.Contains(c.target+fmt.Sprint(c.header), k.good.ID) || strings.HasPrefix(c.name, "as a user") ||
				strings.Contains(c.name, "password"); whose &&
				(e[0].NodeName != "gpu-7" || e[0].NodeID != h.node.ID || e[0].Tenant != "default" || e[0].Detail["token"] != k.good.Public()) {
				t.Errorf("whose it is: %+v", e[0])
			}
			if a.header.Get("Location") != "" {
				t.Errorf("redirected to %s", a.header.Get("Location"))
			}
			raw, err := json.Marshal(e[0])
			if err != nil || strings.Contains(string(raw)+string(a.body), k.good.Fetch) ||
				strings.Contains(string(raw)+string(a.body), k.good.Secret) {
				t.Errorf("the token is in %s or %s, %v", raw, a.body, err)
			}
		})
	}
}

// TestTokensWhereTheyMayBe: tokens in places where the guard lets them pass.
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
		{"an unusual header beside a node's proof", "POST", "/nodes/n-1/heartbeat", true, 401,
			[]string{"X-Note", "msb_none1234_x", "Signature", "x"}},
		{"an API token that came openly to a proxy", "GET", "/api/v1/admin/nodes", true, 403,
			[]string{"Authorization", bearer, "X-Test-Open", "1"}},
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

// TestTokensInUnusualBodies: the path of registering takes POST alone. A secret in the body of another method is refused and recorded
// too.
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
