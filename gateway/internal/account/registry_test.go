package account_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/store"
)

const agents = wire.AgentRepository

// registry makes the fixture's gate the registry's. logins says whether accounts may call.
func (d *fixture) registry(logins bool) *account.Passes {
	d.t.Helper()
	passes, err := account.OpenPasses(d.t.Context(), d.store, d.clock)
	if err != nil {
		d.t.Fatal(err)
	}
	d.gate = d.open(false)
	d.gate.Passes = passes
	d.gate.Logins = func(*http.Request) bool { return logins }
	return passes
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

func events(d *fixture) []store.Event {
	found, err := d.store.Events(d.t.Context(), store.EventQuery{Kind: "registry.refused"})
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

func TestRegistryCallers(t *testing.T) {
	d := newFixture(t)
	passes := d.registry(true)
	token := d.account(store.Account{Name: "ci", Scopes: []string{api.ScopeReleasesWrite}})
	id := token[:strings.LastIndex(token, "_")]
	gone := d.account(store.Account{Name: "gone", Scopes: []string{api.ScopeReleasesRead}, RevokedAt: &d.now})
	goneID := gone[:strings.LastIndex(gone, "_")]
	grants := []account.Grant{{Repository: agents, Actions: []string{account.ActionPull}}}
	good := passes.Issue(id, grants, time.Hour).Text
	lapsed := passes.Issue(id, grants, -time.Second).Text
	cut := good[:len(good)-1]
	other, _, _ := strings.Cut(passes.Issue(id, nil, time.Hour).Text, ".")
	_, proof, _ := strings.Cut(good, ".")
	for _, c := range []struct {
		name, header string
		status       int
		events       int
	}{
		{"an API token", "Bearer " + token, 200, 0},
		{"name and API token", basic("ci", token), 200, 0},
		{"id and API token", basic(id, token), 200, 0},
		{"no name", basic("", token), 200, 0},
		{"another name", basic("other", token), 401, 1},
		{"a token for a name", basic(token, "x"), 401, 1},
		{"no colon", "Basic " + base64.StdEncoding.EncodeToString([]byte("ci")), 401, 1},
		{"no base64", "Basic ~", 401, 1},
		{"another scheme", "Digest x", 401, 1},
		{"a pass", "Bearer " + good, 200, 0},
		{"a pass as a password", basic("pull", good), 200, 0},
		{"a pass of nobody", "Bearer " + passes.PullToken(agents, time.Hour), 200, 0},
		{"a pass that has run out", "Bearer " + lapsed, 401, 0},
		{"a pass cut short", "Bearer " + cut, 401, 1},
		{"another pass's proof", "Bearer " + other + "." + proof, 401, 1},
		{"a pass of a revoked account", "Bearer " + passes.Issue(goneID, grants, time.Hour).Text, 401, 1},
		{"a pass of no account", "Bearer " + passes.Issue("msa_none1234", grants, time.Hour).Text, 401, 1},
		{"a pass that is too long", "Bearer " + strings.Repeat("A", 20<<10), 401, 1},
	} {
		before := len(events(d))
		w, code := d.call(request("GET", "/v2/", c.header), own(api.ScopeReleasesRead), nil)
		if w.Code != c.status || c.status == 401 && code != wire.CodeUnauthorized {
			t.Errorf("%s: got %d %s", c.name, w.Code, w.Body)
		}
		if got := len(events(d)) - before; got != c.events {
			t.Errorf("%s: %d events, want %d", c.name, got, c.events)
		}
		d.now = d.now.Add(10 * time.Second) // so that no caller is refused too often
	}
}

// TestRegistryLogin: who shows nothing is no event and is never told to wait, however often he comes.
func TestRegistryLogin(t *testing.T) {
	d := newFixture(t)
	d.registry(true)
	for range 50 {
		r := request("GET", "/v2/")
		delete(r.Header, "Authorization")
		if _, err := d.gate.Admit(r, own()); !errors.Is(err, account.ErrLogin) {
			t.Fatal(err)
		}
		if w, code := d.call(r, own(), nil); w.Code != 401 || code != wire.CodeUnauthorized {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if got := events(d); len(got) != 0 {
		t.Errorf("events %v", got)
	}
	for range 20 {
		d.call(request("GET", "/v2/", "Bearer x.y"), own(), nil)
	}
	if w, code := d.call(request("GET", "/v2/", "Bearer x.y"), own(), nil); w.Code != 429 || code != wire.CodeTooManyRequests ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("a guesser: got %d %s", w.Code, w.Body)
	}
}

// TestRegistryWithoutLogins: where accounts may not call, only passes that are nobody's are good.
func TestRegistryWithoutLogins(t *testing.T) {
	d := newFixture(t)
	passes := d.registry(false)
	token := d.account(store.Account{Name: "ci", Scopes: everything()})
	id := token[:strings.LastIndex(token, "_")]
	for header, status := range map[string]int{
		"Bearer " + passes.PullToken(agents, time.Minute):   200,
		"Bearer " + passes.Issue(id, nil, time.Minute).Text: 403,
		"Bearer " + token:  403,
		basic("ci", token): 403,
		basic("x", "y"):    403,
		basic("pull", passes.PullToken(agents, 30*time.Second)): 200,
	} {
		if w, _ := d.call(request("GET", "/v2/", header), own(api.ScopeReleasesRead), nil); w.Code != status {
			t.Errorf("%.20s: got %d %s, want %d", header, w.Code, w.Body, status)
		}
	}
}

// TestPass: a pass opens what it names and nothing else, an hour at most, also after a restart. Nobody's pass only pulls, whatever it says.
func TestPass(t *testing.T) {
	d := newFixture(t)
	passes := d.registry(true)
	pull := passes.PullToken(agents, time.Minute)
	token := d.account(store.Account{Name: "ci", Scopes: everything()})
	id := token[:strings.LastIndex(token, "_")]
	push := passes.Issue(id, []account.Grant{{Repository: agents, Actions: []string{account.ActionPull, account.ActionPush}}}, 24*time.Hour)
	forged := passes.Issue("", []account.Grant{{Repository: agents, Actions: []string{account.ActionPush}}}, time.Minute).Text
	admit := func(text string) account.Caller {
		t.Helper()
		who, err := d.gate.Admit(request("GET", "/v2/", "Bearer "+text), own())
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	d.registry(true) // as after a restart
	for _, c := range []struct {
		text, repository, action string
		want                     bool
	}{
		{pull, agents, account.ActionPull, true}, {pull, agents, account.ActionPush, false}, {pull, "other", account.ActionPull, false},
		{push.Text, agents, account.ActionPush, true}, {push.Text, agents, account.ActionDelete, false},
		{forged, agents, account.ActionPush, false}, {token, "other", account.ActionDelete, true},
	} {
		if who := admit(c.text); who.Opens(c.repository, c.action) != c.want {
			t.Errorf("%+v of %+v", c, who)
		}
	}
	if who := admit(pull); who.May(api.ScopeReleasesWrite) || !who.May(api.ScopeReleasesRead) || who.Account.ID != "" {
		t.Errorf("nobody's pass: %+v", who)
	}
	d.now = d.now.Add(59 * time.Minute)
	admit(push.Text)
	d.now = d.now.Add(time.Minute)
	if _, err := d.gate.Admit(request("GET", "/v2/", "Bearer "+push.Text), own()); !errors.Is(err, account.ErrLogin) {
		t.Errorf("after an hour: %v", err)
	}
	if strings.Contains(push.Text+pull, "_") {
		t.Error("a pass may look like a token")
	}
}

// TestWriteImpliesRead: who may push may pull.
func TestWriteImpliesRead(t *testing.T) {
	for scope, want := range map[string]bool{
		api.ScopeReleasesRead: true, api.ScopeReleasesWrite: true, api.ScopeAll: true, api.ScopeTasksWrite: false, "releases": true,
	} {
		if got := (account.Caller{Scopes: []string{scope}}).May(api.ScopeReleasesRead); got != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
	if (account.Caller{Scopes: []string{api.ScopeReleasesRead}}).May(api.ScopeReleasesWrite) {
		t.Error("who may pull may push")
	}
}

// FuzzPass: nothing that anybody makes up is a pass.
func FuzzPass(f *testing.F) {
	d := newFixture(f)
	passes := d.registry(true)
	good := passes.PullToken(agents, time.Minute)
	f.Add(good[1:])
	f.Add(".")
	f.Add("e30.")
	f.Add(strings.ToUpper(good))
	f.Fuzz(func(t *testing.T, text string) {
		if text == good {
			return
		}
		r := request("GET", "/v2/", "Bearer "+text)
		if who, err := d.gate.Admit(r, own()); err == nil || len(who.Scopes) > 0 {
			t.Errorf("%q: let in as %+v", text, who)
		}
	})
}
