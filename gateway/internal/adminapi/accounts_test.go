package adminapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/store"
)

func TestAccounts(t *testing.T) {
	h := newHouse(t)
	status, body := h.ask("POST", "accounts", "",
		`{"name":"ci","scopes":["tokens:write","nodes:read","nodes:read"],"tenant":"platform","ttl":"30d"}`)
	made := decode[api.NewAccount](t, body)
	if status != 201 || made.Name != "ci" || made.Tenant != "platform" || !slices.Equal(made.Scopes, []string{"nodes:read", "tokens:write"}) ||
		made.ExpiresAt == nil || !made.ExpiresAt.Equal(h.now.Add(30*24*time.Hour)) {
		t.Fatalf("got %d %s", status, body)
	}
	if token, err := sign.ParseToken(made.Token); err != nil || token.Public() != made.ID {
		t.Errorf("token of %s: %v", made.ID, err)
	}
	if status, body := h.ask("GET", "whoami", made.Token, ""); status != 200 || decode[api.Caller](t, body).Actor != "account:ci" {
		t.Errorf("whoami: %d %s", status, body)
	}
	status, body = h.ask("GET", "accounts", "", "")
	list := decode[api.AccountList](t, body)
	if status != 200 || len(list.Accounts) != 1 || list.Accounts[0].ID != made.ID || list.Accounts[0].Status != "live" ||
		list.Accounts[0].LastUsedAt == nil ||
		strings.Contains(string(body), "hash") || strings.Contains(string(body), made.Token) {
		t.Errorf("list: %d %s", status, body)
	}
	if status, body := h.ask("DELETE", "accounts/ci", "", ""); status != 200 || decode[api.Done](t, body).ID != made.ID {
		t.Errorf("revoke: %d %s", status, body)
	}
	if status, body := h.ask("GET", "whoami", made.Token, ""); status != 401 {
		t.Errorf("a revoked account: %d %s", status, body)
	}
	if _, body := h.ask("GET", "accounts", "", ""); string(body) != `{"accounts":[]}`+"\n" {
		t.Errorf("list after revoking: %s", body)
	}
	if _, body := h.ask("GET", "accounts?all=true", "", ""); decode[api.AccountList](t, body).Accounts[0].Status != "revoked" {
		t.Errorf("the whole list: %s", body)
	}
	if status, body := h.ask("DELETE", "accounts/"+made.ID, "", ""); status != 404 || code(body) != wire.CodeNotFound {
		t.Errorf("revoke twice: %d %s", status, body)
	}
	if status, body := h.ask("POST", "accounts", "", `{"name":"ci"}`); status != 201 ||
		!slices.Equal(decode[api.NewAccount](t, body).Scopes, []string{"events:read", "nodes:read", "tokens:read"}) {
		t.Errorf("the name again, no scopes: %d %s", status, body)
	}
}

func TestAccountEvents(t *testing.T) {
	h := newHouse(t)
	_, body := h.ask("POST", "accounts", "", `{"name":"ci","scopes":["*"],"tenant":"platform"}`)
	made := decode[api.NewAccount](t, body)
	h.ask("DELETE", "accounts/"+made.ID, "", "")
	events, err := h.store.Events(t.Context(), store.EventQuery{Security: true, Ascending: true, Tenant: "platform"})
	if err != nil || len(events) != 2 {
		t.Fatalf("events: %+v, %v", events, err)
	}
	for i, kind := range []string{"account.created", "account.revoked"} {
		e := events[i]
		if e.Kind != kind || e.Actor != "operator:socket" || e.Outcome != "ok" || e.Detail["account"] != "ci" || e.Detail["id"] != made.ID ||
			e.Detail["scopes"] != "*" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	raw, err := json.Marshal(events)
	if err != nil || strings.Contains(string(raw), made.Token[len(made.ID)+1:]) {
		t.Errorf("the token's secret is in the log: %s", raw)
	}
}

// TestAccountLimits: an account can make and revoke only accounts with no more scopes than its own, and make none that live longer.
func TestAccountLimits(t *testing.T) {
	h := newHouse(t)
	soon := h.now.Add(time.Hour)
	h.account("chief", "", "*")
	h.account("elsewhere", "research", "nodes:read")
	h.account("peer", "platform", "nodes:read")
	few := h.account("few", "", "accounts:write", "nodes:read")
	tenant := h.account("tenant", "platform", "*")
	brief := h.accountWith(store.Account{Name: "brief", Scopes: []string{"*"}, ExpiresAt: &soon})
	for _, c := range []struct {
		name, token, method, path, body string
		status                          int
		says                            string
	}{
		{"own scopes", few, "POST", "accounts", `{"name":"a1","scopes":["nodes:read","accounts:write"]}`, 201, `"tenant":""`},
		{"one scope more", few, "POST", "accounts", `{"name":"a2","scopes":["nodes:read","nodes:write"]}`, 403, "nodes:write"},
		{"all scopes", few, "POST", "accounts", `{"name":"a2","scopes":["*"]}`, 403, "scope *"},
		{"usual scopes", few, "POST", "accounts", `{"name":"a2"}`, 403, "events:read"},
		{"a tenant of one's choice", few, "POST", "accounts", `{"name":"a3","scopes":["nodes:read"],"tenant":"research"}`, 201,
			`"tenant":"research"`},
		{"own tenant unasked", tenant, "POST", "accounts", `{"name":"t1","scopes":["*"]}`, 201, `"tenant":"platform"`},
		{"another tenant", tenant, "POST", "accounts", `{"name":"t2","tenant":"research"}`, 403, "for the tenant platform only"},
		{"list another tenant", tenant, "GET", "accounts?tenant=research", "", 403, "for the tenant platform only"},
		{"as long a life", brief, "POST", "accounts", `{"name":"b1"}`, 201, soon.Format(time.RFC3339)},
		{"shorter", brief, "POST", "accounts", `{"name":"b2","ttl":"30m"}`, 201, ""},
		{"longer", brief, "POST", "accounts", `{"name":"b3","ttl":"2h"}`, 403, "lives longer"},
		{"revoke one that may more", few, "DELETE", "accounts/chief", "", 403, "which chief has"},
		{"revoke one that may less", few, "DELETE", "accounts/a1", "", 200, ""},
		{"revoke another tenant's", tenant, "DELETE", "accounts/elsewhere", "", 404, ""},
		{"revoke the fleet's", tenant, "DELETE", "accounts/chief", "", 404, ""},
		{"a name of one's own tenant", tenant, "POST", "accounts", `{"name":"t1"}`, 409, "an account is called \\\"t1\\\" already"},
		{"a name of another tenant's", tenant, "POST", "accounts", `{"name":"elsewhere"}`, 409,
			`"message":"the name elsewhere is taken","hint":"choose another"`},
		{"a name of the fleet's", tenant, "POST", "accounts", `{"name":"chief"}`, 409,
			`"message":"the name chief is taken","hint":"choose another"`},
		{"revoke own tenant's", tenant, "DELETE", "accounts/peer", "", 200, ""},
	} {
		status, body := h.ask(c.method, c.path, c.token, c.body)
		if status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: got %d %s", c.name, status, body)
		}
	}
	_, unknown := h.ask("DELETE", "accounts/nobody", tenant, "")
	_, foreign := h.ask("DELETE", "accounts/chief", tenant, "")
	if strings.Replace(string(foreign), "chief", "nobody", 1) != string(unknown) {
		t.Errorf("a foreign account answers %s, an unknown one %s", foreign, unknown)
	}
	_, body := h.ask("GET", "accounts?all=true", tenant, "")
	var names []string
	for _, a := range decode[api.AccountList](t, body).Accounts {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "peer t1 tenant" {
		t.Errorf("a tenant's account sees %s", got)
	}
}

func TestAccountRefusals(t *testing.T) {
	h := newHouse(t)
	h.account("taken", "", "*")
	whole, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	past := h.now.Add(-time.Minute)
	h.accountWith(store.Account{Name: "old", ExpiresAt: &past})
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code, says               string
	}{
		{"no name", "POST", "accounts", `{}`, 400, wire.CodeBadName, "1 to 63"},
		{"a colon", "POST", "accounts", `{"name":"a:b"}`, 400, wire.CodeBadName, "letters"},
		{"like an id", "POST", "accounts", `{"name":"msa_x"}`, 400, wire.CodeBadName, "msa_"},
		{"a whole token", "POST", "accounts", `{"name":"` + whole.Reveal() + `"}`, 400, wire.CodeBadName, "msa_"},
		{"unknown scope", "POST", "accounts", `{"name":"x","scopes":["nodes:fly"]}`, 400, wire.CodeBadRequest, "backup:read"},
		{"bad tenant", "POST", "accounts", `{"name":"x","tenant":"a b"}`, 400, wire.CodeBadRequest, "tenant"},
		{"negative ttl", "POST", "accounts", `{"name":"x","ttl":"-1h"}`, 400, wire.CodeBadRequest, "ttl"},
		{"short ttl", "POST", "accounts", `{"name":"x","ttl":"59s"}`, 400, wire.CodeBadRequest, "a minute or longer"},
		{"bad ttl", "POST", "accounts", `{"name":"x","ttl":"soon"}`, 400, wire.CodeBadRequest, "write 30m"},
		{"unknown field", "POST", "accounts", `{"name":"x","scope":"*"}`, 400, wire.CodeBadRequest, "scopes"},
		{"name taken", "POST", "accounts", `{"name":"taken"}`, 409, wire.CodeAlreadyThere, "revoke it"},
		{"unknown parameter", "GET", "accounts?x=1", "", 400, wire.CodeBadRequest, "tenant"},
		{"bad flag", "GET", "accounts?all=maybe", "", 400, wire.CodeBadRequest, "all=true"},
		{"unknown account", "DELETE", "accounts/nobody", "", 404, wire.CodeNotFound, "muster account ls"},
		{"token in the URL", "DELETE", "accounts/" + whole.Reveal(), "", 400, wire.CodePlaintextSecret, "public part"},
	} {
		status, body := h.ask(c.method, c.path, "", c.body)
		if status != c.status || code(body) != c.code || !strings.Contains(string(body), c.says) || strings.Contains(string(body), whole.Secret) {
			t.Errorf("%s: got %d %s", c.name, status, body)
		}
	}
	for _, route := range []struct{ method, path string }{{"GET", "accounts"}, {"POST", "accounts"}, {"DELETE", "accounts/taken"}} {
		token := h.account("without "+route.method, "", "nodes:read", "nodes:write", "tokens:read", "tokens:write", "psk:write", "events:read")
		if status, body := h.ask(route.method, route.path, token, `{"name":"x"}`); status != 403 ||
			!strings.Contains(string(body), "accounts:write") {
			t.Errorf("%s %s without the scope: %d %s", route.method, route.path, status, body)
		}
	}
	if _, body := h.ask("GET", "accounts?all=true", "", ""); !strings.Contains(string(body), `"status":"expired"`) {
		t.Errorf("an expired account: %s", body)
	}
	h.store.Close()
	for _, route := range []struct{ method, path string }{{"GET", "accounts"}, {"POST", "accounts"}, {"DELETE", "accounts/taken"}} {
		if status, body := h.ask(route.method, route.path, "", `{"name":"x"}`); status != 500 {
			t.Errorf("%s %s with a broken store: %d %s", route.method, route.path, status, body)
		}
	}
}

// TestScopeOfBefore: an account may have a scope that no route uses any more, or none uses yet. Its other scopes still work. Lists show
// all its scopes, it can be revoked, and no new account gets that scope.
func TestScopeOfBefore(t *testing.T) {
	h := newHouse(t)
	const former = "releases:sign"
	ci := h.account("ci", "", "nodes:read", former)
	if status, body := h.ask("GET", "whoami", ci, ""); status != 200 ||
		!slices.Equal(decode[api.Caller](t, body).Scopes, []string{"nodes:read", former}) {
		t.Errorf("whoami: %d %s", status, body)
	}
	if status, body := h.ask("GET", "nodes", ci, ""); status != 200 {
		t.Errorf("its other scope: %d %s", status, body)
	}
	if status, body := h.ask("GET", "tokens", ci, ""); status != 403 {
		t.Errorf("a scope that it lacks: %d %s", status, body)
	}
	if status, body := h.ask("POST", "accounts", "", `{"name":"x","scopes":["`+former+`"]}`); status != 400 ||
		!strings.Contains(string(body), "there is no scope") {
		t.Errorf("for a new account: %d %s", status, body)
	}
	if _, body := h.ask("GET", "accounts", "", ""); !strings.Contains(string(body), former) {
		t.Errorf("the list: %s", body)
	}
	if status, body := h.ask("DELETE", "accounts/ci", h.account("chief", "", "accounts:write", "nodes:read"), ""); status != 403 ||
		!strings.Contains(string(body), former) {
		t.Errorf("revoked by one who lacks it: %d %s", status, body)
	}
	if status, body := h.ask("DELETE", "accounts/ci", "", ""); status != 200 {
		t.Errorf("revoke: %d %s", status, body)
	}
}

// TestAccountMakers: it is kept who made an account, and whoever revokes one hears of those that it made.
func TestAccountMakers(t *testing.T) {
	h := newHouse(t)
	makes := func(name, token, ttl string) api.NewAccount {
		status, body := h.ask("POST", "accounts", token, `{"name":"`+name+`","scopes":["*"],"ttl":"`+ttl+`"}`)
		if status != 201 {
			t.Fatalf("%s: got %d %s", name, status, body)
		}
		return decode[api.NewAccount](t, body)
	}
	root := makes("root", "", "30d")
	for _, name := range []string{"one", "two", "gone"} {
		makes(name, root.Token, "1h")
	}
	makes("short", root.Token, "1m")
	one := makes("more", root.Token, "2h")
	makes("of-more", one.Token, "1h") // its maker is another
	h.ask("DELETE", "accounts/gone", "", "")
	h.now = h.now.Add(2 * time.Minute)
	by := map[string]string{}
	_, body := h.ask("GET", "accounts", "", "")
	for _, a := range decode[api.AccountList](t, body).Accounts {
		by[a.Name] = a.CreatedBy
	}
	if by["root"] != "operator:socket" || by["one"] != "account:root" || by["of-more"] != "account:more" {
		t.Errorf("makers: %v", by)
	}
	token := func(token string) string {
		status, body := h.ask("POST", "tokens", token, `{"tenant":"platform"}`)
		if status != 201 {
			t.Fatalf("token: got %d %s", status, body)
		}
		return decode[api.NewToken](t, body).ID
	}
	token("")
	made := token(root.Token)
	h.ask("PATCH", "accounts/root", "", `{"tenant":"research"}`) // what it made before stays its own
	status, body := h.ask("DELETE", "accounts/root", "", "")
	if got := decode[api.RevokedAccount](t, body); status != 200 || strings.Join(got.Made, " ") != "more one two" || got.ID != root.ID ||
		got.Status != "revoked" || strings.Join(got.Tokens, " ") != made {
		t.Errorf("got %d %s", status, body)
	}
	makes("root", "", "30d") // another of the same name has made none
	if _, body := h.ask("DELETE", "accounts/root", "", ""); !strings.Contains(string(body), `"made":[]`) {
		t.Errorf("got %s", body)
	}
}

func TestAccountClient(t *testing.T) {
	h := newHouse(t)
	c, err := client.Dial(t.Context(), client.Target{DataDir: h.onSocket()})
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.Send[api.NewAccount](t.Context(), c, "POST", api.PathAccounts, api.AccountRequest{Name: "ci",
		Scopes: []string{"nodes:read"}, Tenant: "platform",
		TTL: api.Duration(time.Hour)})
	if err != nil || made.ID == "" || made.Tenant != "platform" {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if list, err := client.Get[api.AccountList](t.Context(), c, api.PathAccounts, api.ListFilter{Tenant: "research",
		All: true}); err != nil || len(list.Accounts) != 0 {
		t.Errorf("of another tenant: %+v, %v", list, err)
	}
	if gone, err := client.Send[api.RevokedAccount](t.Context(), c, "DELETE", api.At(api.PathAccount, "ci"), nil); err != nil ||
		gone.ID != made.ID || gone.Status != "revoked" || len(gone.Made) != 0 {
		t.Errorf("revoke: %+v, %v", gone, err)
	}
	if _, err := client.Send[api.RevokedAccount](t.Context(), c, "DELETE", api.At(api.PathAccount, "ci"), nil); !client.IsNotFound(err) {
		t.Errorf("revoke twice: %v", err)
	}
}

func TestWhoAmI(t *testing.T) {
	h := newHouse(t)
	_, body := h.ask("GET", "whoami", "", "")
	if got := decode[api.Caller](t, body); got.Actor != "operator:socket" || got.Tenant != "" || len(got.Scopes) != 1 {
		t.Errorf("on the socket: %s", body)
	}
	_, body = h.ask("GET", "whoami", h.account("ci", "platform", "nodes:read"), "")
	if got := decode[api.Caller](t, body); got.Actor != "account:ci" || got.Tenant != "platform" || got.Scopes[0] != "nodes:read" ||
		got.AccountID == "" {
		t.Errorf("as an account: %s", body)
	}
	_, body = h.ask("GET", "gateway", "", "")
	if got := decode[api.Gateway](t, body); got.URL != "https://gw:7443" || got.PublicURLs == nil {
		t.Errorf("gateway: %s", body)
	}
}

// TestUpdateAccount: nobody gives more than they have, to others or to themselves, and nobody cuts down who may do more. The token stays.
func TestUpdateAccount(t *testing.T) {
	h := newHouse(t)
	soon := h.now.Add(time.Hour)
	viewer, _ := api.ScopesOf("viewer")
	alice := h.account("alice", "", "nodes:read")
	h.account("chief", "", "*")
	h.account("elsewhere", "research", "nodes:read")
	few := h.account("few", "", "accounts:write", "nodes:read")
	tenant := h.account("tenant", "platform", "*")
	h.account("peer", "platform", "nodes:read")
	brief := h.accountWith(store.Account{Name: "brief", Scopes: []string{"*"}, ExpiresAt: &soon})
	h.accountWith(store.Account{Name: "shorter", Scopes: []string{"nodes:read"}, ExpiresAt: &soon})
	for _, c := range []struct {
		name, token, who, body string
		status                 int
		says                   string
	}{
		{"a role", "", "alice", `{"role":"viewer"}`, 200, `"role":"viewer"`},
		{"the same again", "", "alice", `{"role":"viewer"}`, 200, `"role":"viewer"`},
		{"a role and a scope", "", "alice", `{"role":"viewer","scopes":["tokens:write"]}`, 200, `"role":""`},
		{"no such role", "", "alice", `{"role":"root"}`, 400, "viewer, runner, operator, admin"},
		{"no such scope", "", "alice", `{"scopes":["x"]}`, 400, "there is no scope"},
		{"nothing", "", "alice", `{}`, 400, "nothing is to be changed"},
		{"no scopes", "", "alice", `{"scopes":[]}`, 400, "nothing is to be changed"},
		{"a bad tenant", "", "alice", `{"tenant":"a b"}`, 400, "not a tenant"},
		{"a tenant", "", "alice", `{"tenant":"platform"}`, 200, `"tenant":"platform"`},
		{"all tenants", "", "alice", `{"tenant":""}`, 200, `"tenant":""`},
		{"nobody", "", "nobody", `{"role":"viewer"}`, 404, "no live account"},
		{"itself wider", few, "few", `{"scopes":["*"]}`, 403, "lacks the scope *"},
		{"itself an admin", few, "few", `{"role":"admin"}`, 403, "lacks the scope *"},
		{"another one wider", few, "peer", `{"role":"operator"}`, 403, "lacks the scope"},
		{"one that may more", few, "chief", `{"scopes":["nodes:read"]}`, 403, "which chief has"},
		{"one's own scopes", few, "peer", `{"scopes":["nodes:read","accounts:write"]}`, 200, `["accounts:write","nodes:read"]`},
		{"one's own scopes back", few, "peer", `{"scopes":["nodes:read"]}`, 200, `["nodes:read"]`},
		{"another tenant's", tenant, "elsewhere", `{"role":"viewer"}`, 404, ""},
		{"the fleet's", tenant, "alice", `{"role":"viewer"}`, 404, ""},
		{"out of its tenant", tenant, "peer", `{"tenant":""}`, 403, "for the tenant platform only"},
		{"into another tenant", tenant, "peer", `{"tenant":"research"}`, 403, "for the tenant platform only"},
		{"in its tenant", tenant, "peer", `{"tenant":"platform","role":"admin"}`, 200, `"role":"admin"`},
		{"itself out of its tenant", tenant, "tenant", `{"tenant":""}`, 403, "for the tenant platform only"},
		{"more than its own life", brief, "alice", `{"role":"operator"}`, 403, "lives longer"},
		{"all tenants beyond its own life", brief, "elsewhere", `{"tenant":""}`, 403, "lives longer"},
		{"less", brief, "alice", `{"scopes":["nodes:read"]}`, 200, `["nodes:read"]`},
		{"within its own life", brief, "shorter", `{"role":"operator"}`, 200, `"role":"operator"`},
		{"without the scope", alice, "peer", `{"role":"viewer"}`, 403, "accounts:write"},
	} {
		status, body := h.ask("PATCH", "accounts/"+c.who, c.token, c.body)
		if status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, body, c.status, c.says)
		}
	}
	if _, body := h.ask("GET", "whoami", alice, ""); !slices.Equal(decode[api.Caller](t, body).Scopes, []string{"nodes:read"}) {
		t.Errorf("the same token goes by the new scopes: %s", body)
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "account.updated", Ascending: true})
	if err != nil || len(events) != 11 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if e := events[0]; e.Detail["scopes_before"] != "nodes:read" || len(strings.Split(e.Detail["scopes"], ",")) != len(viewer) ||
		e.Detail["account"] != "alice" || e.Actor != "operator:socket" || !e.Security {
		t.Errorf("event %+v", e)
	}
	for n, want := range map[int]string{2: " to platform", 3: "platform to platform", 4: "platform to ", 5: " to "} {
		if e := events[n]; e.Tenant+" to "+e.Detail["tenant"] != want {
			t.Errorf("event %d of the tenant %+v", n, e)
		}
	}
}

// TestMovedAccount: both tenants have an event of it, without the other's name. The answer names the live accounts that it had made if it
// lost something.
func TestMovedAccount(t *testing.T) {
	h := newHouse(t)
	h.account("maker", "red", "nodes:read", "tokens:read")
	accounts, err := h.store.Accounts(t.Context(), "red")
	if err != nil {
		t.Fatal(err)
	}
	h.accountWith(store.Account{Name: "made", Tenant: "red", Scopes: []string{"nodes:read"}, Maker: accounts[0].ID})
	for _, c := range []struct{ body, made string }{
		{`{"scopes":["nodes:read","tokens:read","events:read"]}`, ""}, // it gained
		{`{"scopes":["nodes:read"]}`, "made"},
		{`{"scopes":["nodes:read"]}`, ""}, // nothing changed
		{`{"tenant":"blue"}`, "made"},
	} {
		status, body := h.ask("PATCH", "accounts/maker", "", c.body)
		if got := decode[api.ChangedAccount](t, body); status != 200 || strings.Join(got.Made, " ") != c.made || got.Made == nil ||
			got.Name != "maker" {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
	for tenant, other := range map[string]string{"red": "blue", "blue": "red"} {
		events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "account.updated", Tenant: tenant})
		if err != nil || len(events) == 0 || tenant == "blue" && len(events) != 1 {
			t.Errorf("%s: %d events, %v", tenant, len(events), err)
		}
		for _, e := range events {
			if text := fmt.Sprint(e); strings.Contains(text, other) {
				t.Errorf("%s reads of %s: %s", tenant, other, text)
			}
		}
	}
}

func TestRoles(t *testing.T) {
	h := newHouse(t)
	_, body := h.ask("POST", "accounts", "", `{"name":"op","role":"operator"}`)
	made := decode[api.NewAccount](t, body)
	if made.Role != "operator" || api.RoleOf(made.Scopes) != "operator" {
		t.Errorf("got %s", body)
	}
	for _, c := range []struct {
		body, role string
		status     int
	}{
		{`{"name":"a","role":"viewer"}`, "viewer", 201},
		{`{"name":"b","role":"viewer","scopes":["nodes:write"]}`, "", 201},
		{`{"name":"c","role":"runner"}`, "runner", 201},
		{`{"name":"d","role":"admin"}`, "", 403},
		{`{"name":"d","role":"Viewer"}`, "", 400},
	} {
		h.ask("PATCH", "accounts/op", "", `{"role":"operator","scopes":["accounts:write"]}`)
		status, body := h.ask("POST", "accounts", made.Token, c.body)
		if got := decode[api.NewAccount](t, body); status != c.status || got.Role != c.role {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
}
