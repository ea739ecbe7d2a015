package client_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"muster/gateway/api"
)

// TestScopesInHelp: the page about accounts has the table of scopes as it is, and speaks of no others.
func TestScopesInHelp(t *testing.T) {
	page, err := os.ReadFile("../cli/help/accounts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range api.Scopes() {
		if row := "| `" + scope.Name + "` | " + scope.Opens + " |"; !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
	}
	for _, name := range regexp.MustCompile(`[a-z]+:(read|write)`).FindAllString(string(page), -1) {
		if !slices.Contains(api.KnownScopes(), name) {
			t.Errorf("the page speaks of %s, which is no scope", name)
		}
	}
}

// TestRolesInHelp: the page has the table of roles as it is.
func TestRolesInHelp(t *testing.T) {
	page, err := os.ReadFile("../cli/help/accounts.md")
	if err != nil {
		t.Fatal(err)
	}
	var before []string
	for _, role := range api.Roles() {
		row := "| `" + role.Name + "` | " + role.Is + " | `" + strings.Join(role.Scopes, "`, `") + "` |"
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %s", row)
		}
		if got := api.RoleOf(role.Scopes); got != role.Name {
			t.Errorf("the scopes of %s are those of %q", role.Name, got)
		}
		for _, scope := range role.Scopes {
			if !slices.Contains(api.KnownScopes(), scope) {
				t.Errorf("%s has %s, which is no scope", role.Name, scope)
			}
		}
		for _, scope := range before {
			if !slices.ContainsFunc(api.ScopesWith(scope), func(s string) bool { return slices.Contains(role.Scopes, s) }) {
				t.Errorf("%s cannot do what the role before it can: %s", role.Name, scope)
			}
		}
		before = role.Scopes
	}
	if got := api.RoleOf([]string{api.ScopeNodesRead}); got != "" {
		t.Errorf("one scope is the role %s", got)
	}
}
