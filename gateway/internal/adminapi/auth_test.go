package adminapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/store"
)

func TestRefusedCallers(t *testing.T) {
	h := newHouse(t)
	past := h.now.Add(-time.Second)
	good := h.account("ops", "", "*")
	stranger, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	guess := good[:strings.LastIndex(good, "_")] + strings.TrimPrefix(stranger.Reveal(), stranger.Public())
	enrol, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, header, want string
		status             int
	}{
		{"nothing", "", wire.CodeUnauthorized, 401},
		{"another scheme", "Basic " + good, wire.CodeUnauthorized, 401},
		{"not a token", "Bearer hello", wire.CodeUnauthorized, 401},
		{"mistyped", "Bearer " + good[:len(good)-1], wire.CodeUnauthorized, 401},
		{"an enrollment token", "Bearer " + enrol.Reveal(), wire.CodeUnauthorized, 401},
		{"another gateway's", "Bearer " + stranger.Reveal(), wire.CodeUnauthorized, 401},
		{"a guessed secret", "Bearer " + guess, wire.CodeUnauthorized, 401},
		{"expired", "Bearer " + h.accountWith(store.Account{Name: "old", Scopes: []string{"*"}, ExpiresAt: &past}), wire.CodeUnauthorized, 401},
		{"revoked", "Bearer " + h.accountWith(store.Account{Name: "gone", Scopes: []string{"*"}, RevokedAt: &past}), wire.CodeUnauthorized, 401},
		{"without the scope", "Bearer " + h.account("reader", "", "tokens:read", "nodes:write"), wire.CodeForbidden, 403},
		{"good", "bearer " + good, "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", wire.PrefixAdmin+"nodes", nil)
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			w := httptest.NewRecorder()
			h.routes(false).ServeHTTP(w, r)
			if w.Code != c.status || code(w.Body.Bytes()) != c.want {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", w.Header().Get("WWW-Authenticate"))
			}
			events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused", Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (len(events) == 0 || events[0].Outcome != c.want || !events[0].Security || events[0].Address != "192.0.2.1") {
				t.Errorf("the log says %+v", events)
			}
		})
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil || len(events) != 10 {
		t.Errorf("%d refusals in the log, want 10 (%v)", len(events), err)
	}
	if text := fmt.Sprint(events); strings.Contains(text, good[len(good)-10:]) {
		t.Error("a secret is in the log")
	}
}

func TestTwoAuthorizationHeaders(t *testing.T) {
	h := newHouse(t).withScripts()
	made := decode[client.CreatedNode](t, second(h.ask("POST", "nodes", "", `{"name":"gpu-7"}`)))
	a := "Bearer " + h.account("a", "", "*")
	b := "Bearer " + h.account("b", "", "*")
	for _, c := range []struct {
		values        []string
		account, node string
	}{
		{[]string{a, b}, "a", ""}, {[]string{"Bearer msa_none1234_x", b}, "b", ""}, {[]string{a, "Bearer " + made.BootstrapToken}, "", "gpu-7"},
		{[]string{"Bearer msb_none1234_x", "Bearer " + made.BootstrapToken}, "", "gpu-7"},
	} {
		r := httptest.NewRequest("GET", wire.PrefixAdmin+"whoami", nil)
		r.Header["Authorization"] = c.values
		w := httptest.NewRecorder()
		h.routes(false).ServeHTTP(w, r)
		if e := refused(t, h); w.Code != 401 || e[0].Detail["account"] != c.account || e[0].NodeName != c.node {
			t.Errorf("%v: got %d %s, event %+v", c.values, w.Code, w.Body, e[0])
		}
	}
}

func TestTokenInQuery(t *testing.T) {
	h := newHouse(t)
	good := h.account("ops", "", "*")
	for _, query := range []string{"token=" + good, good + "=1", "selector=" + strings.Replace(good, "_", "%5F", 1)} {
		if status, body := h.ask("GET", "nodes?"+query, good, ""); status != 400 || code(body) != wire.CodePlaintextSecret {
			t.Errorf("got %d %s", status, body)
		}
	}
	status, body := h.ask("DELETE", "tokens/"+strings.Replace(good, "msa", "mse", 1), good, "")
	if status != 400 || code(body) != wire.CodePlaintextSecret {
		t.Errorf("got %d %s", status, body)
	}
}

func TestRefusalsAreLimited(t *testing.T) {
	h := newHouse(t)
	good := h.account("ops", "", "*")
	routes := h.routes(false)
	ask := func(token, address string) (int, http.Header) {
		r := httptest.NewRequest("GET", wire.PrefixAdmin+"whoami", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		return w.Code, w.Header()
	}
	for i := range 30 {
		want := 401
		if i >= 10 {
			want = 429
		}
		status, header := ask("wrong", "[2001:db8::"+fmt.Sprint(i)+"]:1") // one customer's /64
		if status != want || (header.Get("Retry-After") == "6" || header.Get("Retry-After") == "7") != (want == 429) {
			t.Fatalf("try %d: got %d, Retry-After %q", i, status, header.Get("Retry-After"))
		}
	}
	if status, _ := ask("wrong", "[2001:db8:1::1]:1"); status != 401 {
		t.Errorf("another address got %d", status)
	}
	if status, _ := ask(good, "[2001:db8::1]:1"); status != 200 {
		t.Errorf("a good token behind the same address got %d", status)
	}
	h.now = h.now.Add(7 * time.Second)
	if status, _ := ask("wrong", "[2001:db8::1]:1"); status != 401 {
		t.Errorf("after a while got %d", status)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil || len(events) != 12 {
		t.Errorf("%d refusals in the log, want 12 (%v)", len(events), err)
	}
	h.audit.Settle(t.Context(), true)
	events, err = h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil || len(events) != 13 || events[0].Detail["more"] != "20" || !strings.HasPrefix(events[0].Address, "2001:db8::") ||
		events[0].Outcome != wire.CodeUnauthorized {
		t.Errorf("what was only counted: %+v (%v)", events[0], err)
	}
}

// TestLimiterIsBounded refuses more addresses than are remembered: those beyond share one count.
func TestLimiterIsBounded(t *testing.T) {
	h := newHouse(t)
	h.store.Close() // events cannot be written, which is not what is asked about here
	routes := h.routes(false)
	limited := 0
	for i := range 4096 + 20 {
		r := httptest.NewRequest("GET", wire.PrefixAdmin+"whoami", nil)
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		if w.Code == 429 {
			limited++
		}
	}
	if limited != 10 {
		t.Errorf("%d were told to wait, want 10", limited)
	}
}

func TestLastUse(t *testing.T) {
	h := newHouse(t)
	token := h.account("ops", "", "*")
	id := token[:strings.LastIndex(token, "_")]
	start := h.now
	for _, c := range []struct{ after, want time.Duration }{{0, 0}, {30 * time.Second, 0}, {61 * time.Second, 61 * time.Second}} {
		h.now = start.Add(c.after)
		if status, body := h.ask("GET", "whoami", token, ""); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		a, err := h.store.Account(t.Context(), id)
		if err != nil || a.LastUsedAt == nil || !a.LastUsedAt.Equal(start.Add(c.want)) {
			t.Errorf("after %s: last used %v, want %v (%v)", c.after, a.LastUsedAt, start.Add(c.want), err)
		}
	}
}

func TestWhoAmI(t *testing.T) {
	h := newHouse(t)
	_, body := h.ask("GET", "whoami", "", "")
	if got := decode[client.Identity](t, body); got.Actor != "operator:socket" || got.Tenant != "" || len(got.Scopes) != 1 {
		t.Errorf("on the socket: %s", body)
	}
	_, body = h.ask("GET", "whoami", h.account("ci", "platform", "nodes:read"), "")
	if got := decode[client.Identity](t, body); got.Actor != "account:ci" || got.Tenant != "platform" || got.Scopes[0] != "nodes:read" ||
		got.AccountID == "" {
		t.Errorf("as an account: %s", body)
	}
	_, body = h.ask("GET", "gateway", "", "")
	if got := decode[client.Gateway](t, body); got.URL != "https://gw:7443" || got.PublicURLs == nil {
		t.Errorf("gateway: %s", body)
	}
}

// TestForbiddenCallsDoNotFillTheLog has an account that keeps asking for what it may not have.
func TestForbiddenCallsDoNotFillTheLog(t *testing.T) {
	h := newHouse(t)
	routes := h.routes(false)
	token := h.account("reader", "", "nodes:read")
	for range 30 {
		if status, body := serve(t, routes, "GET", "psk", token, ""); status != 403 || code(body) != wire.CodeForbidden {
			t.Fatalf("got %d %s", status, body)
		}
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil || len(events) != 10 || events[0].Actor != "account:reader" || events[0].Detail["scope"] != "psk:write" {
		t.Errorf("the log has %d refusals: %+v (%v)", len(events), events, err)
	}
}
