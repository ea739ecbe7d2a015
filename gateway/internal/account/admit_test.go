package account_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/cluster/peer"
	"muster/store"
)

func TestRefusedCallers(t *testing.T) {
	d := newFixture(t)
	past := d.now.Add(-time.Second)
	good := d.account(store.Account{Name: "ops", Scopes: everything()})
	stranger, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	guess := good[:strings.LastIndex(good, "_")] + strings.TrimPrefix(stranger.Reveal(), stranger.Public())
	enrol, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	expired := d.account(store.Account{Name: "old", Scopes: everything(), ExpiresAt: &past})
	revoked := d.account(store.Account{Name: "gone", Scopes: everything(), RevokedAt: &past})
	reader := d.account(store.Account{Name: "reader", Scopes: []string{api.ScopeTokensRead, api.ScopeNodesWrite}})
	one := d.account(store.Account{Name: "one", Tenant: "platform", Scopes: everything()})
	for _, c := range []struct {
		name, header, want string
		status             int
	}{
		{"nothing", "", wire.CodeUnauthorized, 401},
		{"another scheme", "Basic " + good, wire.CodeUnauthorized, 401},
		{"not a token", "Bearer hello", wire.CodeUnauthorized, 401},
		{"mistyped", "Bearer " + good[:len(good)-1], wire.CodeUnauthorized, 401},
		{"an enrollment token", "Bearer " + enrol.Reveal(), wire.CodeUnauthorized, 401},
		{"a bootstrap token", "Bearer " + d.bootstrapToken().Reveal(), wire.CodeTokenWrongRoute, 403},
		{"another gateway's", "Bearer " + stranger.Reveal(), wire.CodeUnauthorized, 401},
		{"a guessed secret", "Bearer " + guess, wire.CodeUnauthorized, 401},
		{"expired", "Bearer " + expired, wire.CodeUnauthorized, 401},
		{"revoked", "Bearer " + revoked, wire.CodeUnauthorized, 401},
		{"without the scope", "Bearer " + reader, wire.CodeForbidden, 403},
		{"of one tenant", "Bearer " + one, wire.CodeForbidden, 403},
		{"good", "bearer " + good, "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			d.gate = d.open(false)
			w, code := d.call(request("GET", "/things", c.header), all(api.ScopeNodesRead), nil)
			if w.Code != c.status || code != c.want {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (c.status == 401) {
				t.Errorf("WWW-Authenticate: %q", w.Header().Get("WWW-Authenticate"))
			}
			if c.want == "" {
				return
			}
			if e := d.refusals()[0]; e.Outcome != c.want || !e.Security || e.Address != "192.0.2.1" || e.Detail["scope"] != api.ScopeNodesRead {
				t.Errorf("the log says %+v", e)
			}
		})
	}
	events := d.refusals()
	if len(events) != 12 || strings.Contains(fmt.Sprint(events), good[len(good)-10:]) {
		t.Errorf("%d refusals in the log: %v", len(events), events)
	}
}

// TestSocket: who can open the socket is the operator, whatever the request shows, unless a secret stands in the URL.
func TestSocket(t *testing.T) {
	d := newFixture(t)
	d.gate = d.open(true)
	if w, _ := d.call(request("GET", "/things", "Bearer hello"), all(api.ScopeKeysWrite), nil); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "operator:socket") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w, code := d.call(request("GET", "/things?t=msa_ab12_x"), all(), nil); w.Code != 400 || code != wire.CodePlaintextSecret {
		t.Errorf("with a token in the query: got %d %s", w.Code, w.Body)
	}
}

// TestSocketOf: the log says which gateway passed an operator's call on. A caller here cannot have it say so by the name of the own end.
func TestSocketOf(t *testing.T) {
	d := newFixture(t)
	gate := d.open(true)
	t.Chdir(t.TempDir())
	l, err := net.Listen("unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := gate.Admit(r, all())
		fmt.Fprint(w, who.Actor.Address, err)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	own := net.Dialer{LocalAddr: &net.UnixAddr{Name: "socket of gw9", Net: "unix"}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return own.DialContext(ctx, "unix", "s")
	}}}
	answer, err := client.Get("http://gateway/things")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "socket<nil>" {
		t.Errorf("a caller with a name of its own: %s, %v", text, err)
	}
	r := request("GET", "/things")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, peer.SocketAddr("gw9")))
	if who, err := gate.Admit(r, all()); err != nil || who.Actor.Address != "socket of gw9" {
		t.Errorf("a call that another gateway passed on: %v, %v", who.Actor, err)
	}
}

func TestTwoAuthorizationHeaders(t *testing.T) {
	d := newFixture(t)
	boot := "Bearer " + d.bootstrapToken().Reveal()
	a := "Bearer " + d.account(store.Account{Name: "a", Scopes: everything()})
	b := "Bearer " + d.account(store.Account{Name: "b", Scopes: everything()})
	for _, c := range []struct {
		values        []string
		account, node string
	}{
		{[]string{a, b}, "a", ""}, {[]string{"Bearer msa_none1234_x", b}, "b", ""}, {[]string{a, boot}, "", "gpu-7"},
		{[]string{"Bearer msb_none1234_x", boot}, "", "gpu-7"},
	} {
		w, _ := d.call(request("GET", "/things", c.values...), own(), nil)
		if e := d.refusals()[0]; w.Code != 401 || c.account != "" && e.Detail["account"] != c.account || e.NodeName != c.node {
			t.Errorf("%v: got %d %s, event %+v", c.values, w.Code, w.Body, e)
		}
	}
}

func TestSecretInURL(t *testing.T) {
	d := newFixture(t)
	good := d.account(store.Account{Name: "ops", Scopes: everything()})
	psk, _, err := d.psks.GeneratePSK(t.Context(), store.Actor{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/things?token=" + good, "/things?" + good + "=1",
		"/things?selector=" + strings.Replace(good, "_", "%5F", 1),
		"/things/" + strings.Replace(good, "msa", "mse", 1), "/things/" + psk, "/things?keep=" + psk} {
		if w, code := d.call(request("DELETE", path, "Bearer "+good), own(), nil); w.Code != 400 || code != wire.CodePlaintextSecret {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	if w, code := d.look(psk, own()); w.Code != 400 || code != wire.CodePlaintextSecret {
		t.Errorf("a PSK as an API token: got %d %s", w.Code, w.Body)
	}
	text := fmt.Sprint(d.refusals())
	if strings.Contains(text, psk[8:]) || strings.Contains(text, good[len(good)-10:]) {
		t.Errorf("a secret is in the log: %s", text)
	}
}

func TestLastUse(t *testing.T) {
	d := newFixture(t)
	token := d.account(store.Account{Name: "ops"})
	id := token[:strings.LastIndex(token, "_")]
	start := d.now
	for _, c := range []struct{ after, want time.Duration }{{0, 0}, {30 * time.Second, 0}, {61 * time.Second, 61 * time.Second}} {
		d.now = start.Add(c.after)
		if w, _ := d.look(token, own()); w.Code != 200 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		a, err := d.store.Account(t.Context(), id)
		if err != nil || a.LastUsedAt == nil || !a.LastUsedAt.Equal(start.Add(c.want)) {
			t.Errorf("after %s: last used %v, want %v (%v)", c.after, a.LastUsedAt, start.Add(c.want), err)
		}
	}
}

// TestBrokenStore: an account that cannot be looked up is nobody's fault, and nobody is let in.
func TestBrokenStore(t *testing.T) {
	d := newFixture(t)
	token := d.account(store.Account{Name: "ops", Scopes: everything()})
	d.store.Close()
	if w, code := d.look(token, own()); w.Code != 500 || code != wire.CodeInternal {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestCallers(t *testing.T) {
	everyone := account.Caller{Scopes: everything()}
	one := account.Caller{Tenant: "platform", Scopes: []string{api.ScopeNodesRead}}
	for _, c := range []struct {
		who               account.Caller
		asked, want, code string
	}{
		{everyone, "", "", ""}, {everyone, "research", "research", ""}, {one, "", "platform", ""}, {one, "platform", "platform", ""},
		{one, "research", "", wire.CodeForbidden}, {everyone, "msa_ab12", "", wire.CodeBadRequest}, {one, "mse_ab12_x", "", wire.CodeBadRequest},
	} {
		got, err := c.who.Within(c.asked)
		code := ""
		if refused, ok := err.(*wire.ErrorDetail); ok {
			code = refused.Code
		}
		if got != c.want || code != c.code {
			t.Errorf("%s asks for %q: got %q, %v", c.who.Tenant, c.asked, got, err)
		}
	}
	if missing := one.Lacks([]string{api.ScopeNodesRead, api.ScopeNodesWrite,
		api.ScopeTokensRead}); missing != api.ScopeNodesWrite {
		t.Errorf("it lacks %q first", missing)
	}
	if missing := everyone.Lacks(api.KnownScopes()); missing != "" {
		t.Errorf("who may everything lacks %q", missing)
	}
}

// FuzzAuthorization: whatever stands in the header, a stranger is refused, and nothing breaks.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"", "Bearer ", "Bearer msa_ab12_x", "bearer  msk_0123456789abcdefghij", "Basic bXNhXw==", "Bearer msb_a_b.c",
		"\x00"} {
		f.Add(s)
	}
	d := newFixture(f)
	f.Fuzz(func(t *testing.T, header string) {
		d.t = t
		d.gate = d.open(false)
		w, code := d.call(request("GET", "/things", header), own(), nil)
		if w.Code != 400 && w.Code != 401 && w.Code != 403 || code == "" {
			t.Errorf("%q: got %d %s", header, w.Code, w.Body)
		}
	})
}

// TestParts: a part of a scope lets in where the route says so, and is good for that part alone. The whole scope is good for each part.
func TestParts(t *testing.T) {
	d := newFixture(t)
	part := api.ScopePart(api.ScopeTasksWrite, wire.TaskDiagCollect)
	parts := account.Need{Scopes: []string{api.ScopeTasksWrite}, Parts: true, Reach: account.OwnTenant}
	for i, c := range []struct {
		scopes      []string
		in          bool // where a part is enough
		diag, other bool // the part of diag.collect, and of another type
	}{
		{[]string{part}, true, true, false},
		{[]string{api.ScopeTasksWrite}, true, true, true},
		{everything(), true, true, true},
		{[]string{api.ScopeTasksRead}, false, false, false},
		{[]string{api.ScopeTasksWrite + "x"}, false, false, false},
	} {
		token := d.account(store.Account{Name: fmt.Sprint("a", i), Scopes: c.scopes})
		w, code := d.look(token, parts)
		if (w.Code == 200) != c.in || !c.in && code != wire.CodeForbidden {
			t.Errorf("%s where a part is enough: got %d %s", c.scopes, w.Code, w.Body)
		}
		if !c.in && !strings.Contains(w.Body.String(), "the roles runner, operator, admin have it; an admin can: muster account update a") ||
			!c.in && !strings.Contains(w.Body.String(), "a part of tasks:write may be enough") {
			t.Errorf("%s is not told that a part is enough: %s", c.scopes, w.Body)
		}
		who := account.Caller{Scopes: c.scopes}
		diag := who.Part(api.ScopeTasksWrite, wire.TaskDiagCollect)
		other := who.Part(api.ScopeTasksWrite, wire.TaskAgentRestart)
		if (diag == nil) != c.diag || (other == nil) != c.other {
			t.Errorf("%s may not do its part: %v, %v", c.scopes, diag, other)
		}
		if !c.other && !strings.Contains(other.Error(), "lacks the scope tasks:write:agent.restart") {
			t.Errorf("%s: %v", c.scopes, other)
		}
	}
	viewer, _ := api.ScopesOf("viewer")
	for _, c := range []struct {
		name, scope string
		has         []string
		want        string
	}{
		{"ada", api.ScopeSessions, viewer, "operator, admin have it; an admin can: muster account update ada --role runner"},
		{"ada", api.ScopeBackupRead, viewer, "the role admin has it; an admin can: muster account update ada --role viewer --scope backup:read"},
		{"ada", api.ScopeSessions, []string{api.ScopeNodesRead}, "muster account update ada --scope nodes:read,sessions"},
		{"", api.ScopeSessions, nil, "the roles runner, operator, admin have it"},
	} {
		who := account.Caller{Scopes: c.has, Account: store.Account{Name: c.name}}
		var refusal *wire.ErrorDetail
		if !errors.As(who.Needs(c.scope), &refusal) || !strings.HasSuffix(refusal.Hint, c.want) {
			t.Errorf("want %s, got %+v", c.want, refusal)
		}
	}
	token := d.account(store.Account{Name: "part", Scopes: []string{part}})
	if w, code := d.look(token, own(api.ScopeTasksWrite)); w.Code != 403 || code != wire.CodeForbidden {
		t.Errorf("a part where the whole is needed: got %d %s", w.Code, w.Body)
	}
}
