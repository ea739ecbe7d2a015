package console_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/console"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/reply"
	"muster/store"
)

func (h *house) events(kind string) []store.Event {
	h.t.Helper()
	events, err := h.store.Events(h.t.Context(), store.EventQuery{Kind: kind})
	h.must(err)
	return events
}

// TestLoginByToken: the cookie is one that no script and no other site can use, and the login is an event.
func TestLoginByToken(t *testing.T) {
	h := newHouse(t)
	_, token := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeNodesRead}})
	b := h.browser("")
	got := b.post("/ui/login", "token", token, "next", "/ui/tasks?node=a&status=")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/tasks?node=a&status=" {
		t.Fatalf("got %d to %q", got.status, got.header.Get("Location"))
	}
	cookie := got.header.Get("Set-Cookie")
	for _, want := range []string{"__Host-muster=", "Path=/", "HttpOnly", "Secure", "SameSite=Strict", "Max-Age=604800"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Domain") || strings.Contains(cookie, token) {
		t.Errorf("the cookie is %q", cookie)
	}
	events := h.events("console.login")
	if len(events) != 1 || events[0].Actor != "account:alice" || events[0].Detail["by"] != "token" || !events[0].Security {
		t.Errorf("events: %+v", events)
	}
	if got := b.get("/ui/account"); got.status != http.StatusOK || !strings.Contains(got.body, "alice") {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// TestLoginByCode: a code logs in once, for two minutes, in whatever case it is typed.
func TestLoginByCode(t *testing.T) {
	h := newHouse(t)
	a, _ := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeAll}})
	mint := func() string {
		code, _, err := h.logins.Mint(t.Context(), a, store.Actor{Name: "test"})
		h.must(err)
		return code
	}
	code := mint()
	if got := h.browser("").post("/ui/login", "code", " "+strings.ToLower(code)+"\n"); got.status != http.StatusSeeOther {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	late := mint()
	h.now = h.now.Add(2 * time.Minute)
	ended := mint()
	h.must(h.store.RevokeAccount(t.Context(), "", a.ID, h.now))
	for what, code := range map[string]string{"used": code, "too late": late, "of an ended account": ended, "wrong": "ABC"} {
		got := h.browser("").post("/ui/login", "code", code)
		if got.status != http.StatusUnauthorized || !strings.Contains(got.body, "muster login") || got.header.Get("Set-Cookie") != "" {
			t.Errorf("a code that is %s: %d %s", what, got.status, got.body)
		}
	}
	if got := h.events("console.code"); len(got) != 3 {
		t.Errorf("%d codes are on record", len(got))
	}
}

// TestRefusedLogins: they are recorded, and whoever tries too often must wait, by whichever field.
func TestRefusedLogins(t *testing.T) {
	for _, field := range []string{"token", "code"} {
		h := newHouse(t)
		last := answer{}
		for range 12 {
			last = h.browser("").post("/ui/login", field, "msa_0123456789ab_"+strings.Repeat("x", 30))
		}
		if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
			t.Errorf("%s: got %d %s", field, last.status, last.body)
		}
		if strings.Contains(last.body, "xxxxxx") {
			t.Errorf("%s: the answer repeats the secret", field)
		}
		events := h.events("admin.refused")
		if len(events) < 10 || events[0].Detail["path"] != "/ui/login" {
			t.Errorf("%s: events %+v", field, events)
		}
	}
}

// TestSessionEnds: by a logout, by another session, without use, after a week, and with its account.
func TestSessionEnds(t *testing.T) {
	h := newHouse(t)
	a, token := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeAll}})
	in := func(b *browser) bool {
		t.Helper()
		got := b.get("/ui/account")
		if got.status == http.StatusSeeOther && got.header.Get("Location") == "/ui/login?next=%2Fui%2Faccount" {
			return false
		}
		return got.status == http.StatusOK
	}
	one := h.browser(token)
	if got := one.post("/ui/logout"); got.status != http.StatusSeeOther || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("logout: %d %q", got.status, got.header)
	}
	if in(one) || len(h.events("console.logout")) != 1 {
		t.Error("a logout did not end the session, or is no event")
	}
	one = h.browser(token)
	other := h.browser(token)
	sessions, err := h.logins.Sessions(t.Context(), a)
	h.must(err)
	if len(sessions) != 2 {
		t.Fatalf("%d sessions", len(sessions))
	}
	page := one.get("/ui/account").body
	for _, s := range sessions {
		if !strings.Contains(page, "/ui/account/sessions/"+s.ID+"/end") {
			t.Errorf("the page lacks the session %s", s.ID)
		}
	}
	own := regexp.MustCompile(`this one</span>(?s:.*?)/ui/account/sessions/([0-9a-f]+)/end`).FindStringSubmatch(page)[1]
	for _, s := range sessions {
		if s.ID != own {
			one.post("/ui/account/sessions/" + s.ID + "/end")
		}
	}
	if !in(one) || in(other) {
		t.Error("the other session was to end, and this one not")
	}
	one.post("/ui/account/sessions/" + own + "/end")
	if in(one) {
		t.Error("a session that was ended goes on")
	}
	idle := h.browser(token)
	h.now = h.now.Add(12*time.Hour - time.Second)
	if !in(idle) {
		t.Error("a session ended before its time")
	}
	h.now = h.now.Add(12 * time.Hour)
	if in(idle) {
		t.Error("a session without use goes on")
	}
	long := h.browser(token)
	for range 7*24/6 - 1 {
		h.now = h.now.Add(6 * time.Hour)
		if !in(long) {
			t.Fatalf("a session that is used ended at %s", h.now)
		}
	}
	h.now = h.now.Add(6 * time.Hour)
	if in(long) {
		t.Error("a session goes on after a week")
	}
	last := h.browser(token)
	h.must(h.store.RevokeAccount(t.Context(), "", a.ID, h.now))
	if in(last) {
		t.Error("a session goes on without its account")
	}
}

// TestOthersSessions: nobody can end the session of another account.
func TestOthersSessions(t *testing.T) {
	h := newHouse(t)
	a, token := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeNodesRead}})
	alice := h.browser(token)
	_, token = h.account(store.Account{Name: "bob", Scopes: []string{api.ScopeAll}})
	bob := h.browser(token)
	sessions, err := h.logins.Sessions(t.Context(), a)
	h.must(err)
	for _, id := range []string{sessions[0].ID, sessions[0].ID[:1], "%25"} {
		if got := bob.post("/ui/account/sessions/" + id + "/end"); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d", id, got.status)
		}
	}
	if got := alice.get("/ui/account"); got.status != http.StatusOK {
		t.Errorf("got %d", got.status)
	}
}

// TestForms: a form without the session's own text, or from another site, changes nothing.
func TestForms(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	good := url.Values{"form": {b.formText()}, "uses": {"1"}}
	other := h.browser("")
	for what, change := range map[string]func(*http.Request){
		"of another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"of a sister site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"of an old browser": func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "https://evil.example") },
	} {
		r := b.form("/ui/tokens", good)
		change(r)
		if got := b.do(r); got.status != http.StatusForbidden {
			t.Errorf("a form %s: %d", what, got.status)
		}
	}
	for what, text := range map[string]string{"none": "", "wrong": strings.Repeat("0", 64)} {
		if got := b.do(b.form("/ui/tokens", url.Values{"form": {text}})); got.status != http.StatusForbidden {
			t.Errorf("a form whose text is %s: %d", what, got.status)
		}
	}
	if got := other.do(other.form("/ui/tokens", good)); got.status != http.StatusUnauthorized {
		t.Errorf("nobody's form: %d", got.status)
	}
	if made := h.events("token.created"); len(made) != 0 {
		t.Errorf("tokens were made: %+v", made)
	}
	if got := b.do(b.form("/ui/tokens", good)); got.status != http.StatusOK || len(h.events("token.created")) != 1 {
		t.Errorf("the good form: %d", got.status)
	}
}

// TestWithoutSession: every route but the open ones leads to the login, or is refused, also with the cookie of a session that has ended.
func TestWithoutSession(t *testing.T) {
	h := newHouse(t)
	ended := h.operator()
	text := ended.formText()
	cookies := ended.http.Jar.Cookies(parse(t, h.server.URL))
	ended.post("/ui/logout")
	ended.http.Jar.SetCookies(parse(t, h.server.URL), cookies)
	for _, b := range []*browser{h.browser(""), ended} {
		for _, route := range console.Table() {
			path := strings.NewReplacer("{$}", "", "{file}", "console.css", "{node}", "n", "{task}", "t", "{channel}", "c", "{verb}", "pause",
				"{token}", "mse_1", "{account}", "a", "{session}", "s", "{topic}", "joining").Replace(route.Path)
			r := b.form(path, url.Values{"form": {text}})
			r.Method = route.Method
			got := b.do(r)
			led := got.status == http.StatusSeeOther && strings.HasPrefix(got.header.Get("Location"), "/ui/login")
			data := strings.HasPrefix(path, "/ui/api/")
			switch {
			case route.Open:
				if led || route.Method == http.MethodGet && got.status != http.StatusOK {
					t.Errorf("%s is open: %d", route.Pattern(), got.status)
				}
			case route.Method == http.MethodGet && !data && !led, (route.Method != http.MethodGet || data) && got.status != http.StatusUnauthorized:
				t.Errorf("%s: %d to %q", route.Pattern(), got.status, got.header.Get("Location"))
			}
		}
	}
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestLongAnswerEnds: what the API sends for hours ends with the session that asked for it, whoever ended it.
func TestLongAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kit.Store(t, nil)
		a := store.Account{ID: "msa_a", Name: "alice", Scopes: []string{api.ScopeAll}, CreatedAt: time.Now()}
		logins := login.New(s, nil, slog.New(slog.DiscardHandler))
		if err := s.CreateAccount(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		cookie, err := logins.Begin(t.Context(), a, login.Visitor{})
		if err != nil {
			t.Fatal(err)
		}
		long := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		console := console.New(console.Config{API: long, Logins: logins, Info: &reply.Info{}, Address: new(origin.Resolver).Address})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/api/events", nil)
		r.AddCookie(&http.Cookie{Name: "__Host-muster", Value: cookie})
		over := make(chan struct{})
		go func() {
			defer close(over)
			console.ServeHTTP(httptest.NewRecorder(), r)
		}()
		time.Sleep(time.Hour) // of the bubble's clock
		select {
		case <-over:
			t.Fatal("it ended before the session")
		default:
		}
		live, err := logins.Session(t.Context(), cookie)
		if err != nil {
			t.Fatal(err)
		}
		if err := logins.End(t.Context(), a, live.ID, "test"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Error("it goes on without its session")
		}
	})
}

// TestLoginThroughProxy: the address of a login by token is the browser's, as the proxy tells it, also of a refused one.
func TestLoginThroughProxy(t *testing.T) {
	h := newHouse(t)
	_, token := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeAll}})
	for _, text := range []string{token, "wrong"} {
		b := h.browser("")
		r := b.form("/ui/login", url.Values{"token": {text}})
		r.Header.Set("X-Forwarded-For", "198.51.100.9")
		b.do(r)
	}
	for _, kind := range []string{"console.login", "admin.refused"} {
		if events := h.events(kind); len(events) != 1 || events[0].Address != "198.51.100.9" {
			t.Errorf("%s: %+v", kind, events)
		}
	}
}

// TestLoginAsAnother: a code of another account than the browser was logged in as last asks first, and is not used up by that. One of the
// same account, and the first one of a browser, do not ask.
func TestLoginAsAnother(t *testing.T) {
	h := newHouse(t)
	alice, _ := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeAll}})
	mallory, _ := h.account(store.Account{Name: "mallory", Scopes: []string{api.ScopeAll}})
	mint := func(a store.Account) string {
		code, _, err := h.logins.Mint(t.Context(), a, store.Actor{Name: "test"})
		h.must(err)
		return code
	}
	b := h.browser("")
	direct := func(what, code string, more ...string) {
		t.Helper()
		if got := b.post("/ui/login", append([]string{"code", code}, more...)...); got.status != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", what, got.status, got.body)
		}
	}
	asked := func(what, code, last string) {
		t.Helper()
		got := b.post("/ui/login", "code", code, "next", "/ui/tasks")
		if got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" || !strings.Contains(got.body, "was logged in as "+last+",") ||
			!strings.Contains(got.body, `name="code" value="`+code+`"`) || !strings.Contains(got.body, `name="next" value="/ui/tasks"`) {
			t.Fatalf("%s: %d %s", what, got.status, got.body)
		}
	}
	direct("a browser's first login", mint(alice))
	direct("the same account again", mint(alice))
	code := mint(mallory)
	asked("while alice is logged in", code, "alice")
	b.post("/ui/logout")
	asked("after alice's session", code, "alice")
	direct("the same account after its session", mint(alice))
	asked("once more", code, "alice")
	direct("after a yes", code, "sure", "yes")
	asked("the way back", mint(alice), "mallory")
}

// TestLoginAgain: a new login ends the session before it.
func TestLoginAgain(t *testing.T) {
	h := newHouse(t)
	a, token := h.account(store.Account{Name: "alice", Scopes: []string{api.ScopeAll}})
	b := h.browser("")
	b.post("/ui/login", "token", token)
	before := b.http.Jar.Cookies(parse(t, h.server.URL))[0].Value
	if got := b.post("/ui/login", "token", token); got.status != http.StatusSeeOther {
		t.Fatalf("got %d", got.status)
	}
	if sessions, err := h.logins.Sessions(t.Context(), a); err != nil || len(sessions) != 1 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
	if _, err := h.logins.Session(t.Context(), before); !errors.Is(err, login.ErrNone) {
		t.Errorf("the session before: %v", err)
	}
}
