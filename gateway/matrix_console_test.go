package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/console"
	"muster/store"
)

// TestConsoleMatrix asks every route of the console, on every listener, as callers who are not logged in. Pages lead to the login, changes
// and live data are refused, and where accounts may not log in there is no console at all.
func TestConsoleMatrix(t *testing.T) {
	g, faces := matrixGateway(t)
	a := store.Account{Name: "visitor", Scopes: []string{api.ScopeAll}, CreatedAt: time.Now()}
	token, err := account.Mint(&a, nil)
	if err == nil {
		err = g.store.CreateAccount(t.Context(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
	cookies := map[string]string{"none": "", "of nobody": strings.Repeat("A", 26)}
	cookies["of a session that has ended"], err = g.logins.Begin(t.Context(), a, login.Visitor{})
	if err == nil {
		var s login.Session
		if s, err = g.logins.Session(t.Context(), cookies["of a session that has ended"]); err == nil {
			err = g.logins.End(t.Context(), a, s.ID, "")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	v := visits{open: map[string]*visitOf{}}
	t.Cleanup(v.close)
	for _, f := range faces {
		for _, route := range console.Table() {
			for what, cookie := range cookies {
				got := v.console(t, f, route, cookie, token.Reveal())
				if want := wantConsole(f, route); !strings.HasPrefix(got, want) {
					t.Errorf("%s, %s, a cookie %s: got %s, want %s", f.name, route.Pattern(), what, got, want)
				}
			}
		}
	}
}

// wantConsole is how the answer begins: its status, with the place of a redirect or the code of a refusal.
func wantConsole(f face, route console.Route) string {
	served := f.admin && !f.socket() && !f.overheard()
	data := strings.HasPrefix(route.Path, api.PathConsole+"api/")
	switch {
	case !served:
		return "404 " + wire.CodeNotFound
	case route.Path == api.PathLogin && route.Method == http.MethodPost:
		return "401 "
	case route.Open:
		return "200 "
	case data:
		return "401 " + wire.CodeUnauthorized
	case route.Method == http.MethodGet:
		return "303 " + api.PathLogin
	}
	return "401 "
}

// console sends a form or asks for a page. An API token in a header opens no page.
func (v *visits) console(t *testing.T, f face, route console.Route, cookie, token string) string {
	t.Helper()
	path := strings.NewReplacer("{$}", "", "{file}", "console.css", "{", "", "}", "").Replace(route.Path)
	r, err := http.NewRequestWithContext(t.Context(), route.Method, f.base()+path, strings.NewReader(url.Values{"form": {""}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	v.forward(f, r)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie != "" {
		r.Header.Set("Cookie", "__Host-muster="+cookie)
	}
	if f.private() {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := v.to(f, nil, "").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var refused wire.Error
	_ = json.Unmarshal(text, &refused)
	return answer.Status[:4] + answer.Header.Get("Location") + refused.Error.Code
}
