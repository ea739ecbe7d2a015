package cli_test

import (
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/store"
)

// TestLogin: the link is printed, and a refusal says what to do.
func TestLogin(t *testing.T) {
	h := newHouse(t)
	if code, _, errs := h.muster("login"); code != 1 || !strings.Contains(errs, "muster account ls") {
		t.Errorf("without an account: %d %s", code, errs)
	}
	a := store.Account{ID: "msa_a", Name: "operator", Scopes: []string{api.ScopeAll}, CreatedAt: h.now}
	if err := h.store.CreateAccount(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	code, out, errs := h.muster("login")
	if code != 0 || !strings.Contains(out, "/ui/login#") || !strings.Contains(out, "logs a browser in as operator") {
		t.Errorf("got %d %s%s", code, out, errs)
	}
	if code, out, _ := h.muster("login", "operator", "-o", "json"); code != 0 || !strings.Contains(out, `"code"`) {
		t.Errorf("got %d %s", code, out)
	}
}
