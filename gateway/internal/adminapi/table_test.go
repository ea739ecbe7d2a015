package adminapi_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/adminapi"
	"muster/gateway/internal/kit"
)

// TestTable: which scopes and which tenant rule a route has is a decision, so a change of it shows in this file too.
func TestTable(t *testing.T) {
	var out strings.Builder
	for _, route := range adminapi.Table() {
		who := strings.Join(route.Need.Scopes, " and ")
		if who == "" {
			who = "any account"
		}
		if route.Need.Parts {
			who += " or a part of it"
		}
		if route.Need.Reach == account.WholeFleet {
			who += ", of all tenants"
		}
		fmt.Fprintf(&out, "%-6s %-32s %s\n", route.Method, route.Path, who)
	}
	const golden = "testdata/routes.txt"
	if kit.Updating() {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != out.String() {
		t.Errorf("the table is another than %s says (-update writes it): %v\n%s", golden, err, out.String())
	}
}

// TestScopesAndRoutes: no scope without a route, and no route with a scope that an account cannot have.
func TestScopesAndRoutes(t *testing.T) {
	used := []string{api.ScopeAll, api.ScopeMetricsRead} // the routes of package metrics need that one
	used = append(used, api.ScopeLogsWrite)              // its routes come next
	for _, route := range adminapi.Table() {
		for _, scope := range route.Need.Scopes {
			if !slices.Contains(api.KnownScopes(), scope) || scope == api.ScopeAll {
				t.Errorf("%s needs %q, which is no scope of accounts", route.Pattern(), scope)
			}
			used = append(used, scope)
			if route.Need.Parts {
				used = append(used, partsOf(scope)...)
			}
		}
	}
	for _, scope := range api.KnownScopes() {
		if !slices.Contains(used, scope) {
			t.Errorf("nothing needs the scope %s", scope)
		}
	}
}

// partsOf are the known parts of a scope.
func partsOf(scope string) []string {
	return slices.DeleteFunc(api.KnownScopes(), func(s string) bool { return !strings.HasPrefix(s, scope+":") })
}

// TestScopes has an account with every scope but one that is needed, for every route and each of its scopes.
func TestScopes(t *testing.T) {
	h := newHouse(t)
	for i, route := range adminapi.Table() {
		path := strings.NewReplacer("{", "no-", "}", "").Replace(route.Path)
		if path == "stream" {
			path += "?kinds=nothing" // otherwise it would go on
		}
		for _, scope := range route.Need.Scopes {
			opens := api.ScopesWith(scope)
			if route.Need.Parts {
				opens = append(opens, partsOf(scope)...)
			}
			others := slices.DeleteFunc(api.KnownScopes(), func(s string) bool { return slices.Contains(opens, s) })
			without := h.account(fmt.Sprintf("%d-without-%s", i, scope[:4]), "", others...)
			if status, body := h.ask(route.Method, path, without, ""); status != 403 || !strings.Contains(string(body), "lacks the scope "+scope) {
				t.Errorf("%s without %s: got %d %s", route.Pattern(), scope, status, body)
			}
		}
		with := h.account(fmt.Sprint(i, "-with"), "", route.Need.Scopes...)
		if status, body := h.ask(route.Method, path, with, ""); status == 403 || status == 401 {
			t.Errorf("%s with %s alone: got %d %s", route.Pattern(), route.Need.Scopes, status, body)
		}
	}
}

func TestTakes(t *testing.T) {
	h := newHouse(t)
	routes := h.routes(false)
	for target, want := range map[string]bool{"GET nodes": true, "POST nodes": true, "PUT nodes": false, "GET nope": false,
		"PUT secrets/a": true, "GET nodes/a": true, "GET nodes//a": false,
		"GET x/../nodes": false, "GET nodes/": false, "GET nodes/a%2Fb": true} {
		method, path, _ := strings.Cut(target, " ")
		if got := routes.Takes(httptest.NewRequest(method, wire.PrefixAdmin+path, nil)); got != want {
			t.Errorf("%s: got %v, want %v", target, got, want)
		}
	}
}

// TestBodies: a route that reads a body has a bound for it. No other route reads one.
func TestBodies(t *testing.T) {
	for _, route := range adminapi.Table() {
		sent := route.Method == "POST" || route.Method == "PATCH" || route.Method == "PUT"
		if (route.Body.Bytes > 0) != sent || (route.Body.Time > 0) != sent {
			t.Errorf("%s reads %d bytes within %s", route.Pattern(), route.Body.Bytes, route.Body.Time)
		}
	}
}
