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
