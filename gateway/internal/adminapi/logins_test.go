package adminapi_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// TestLogins: an account gets a code for itself alone. The socket gets one for any live account.
func TestLogins(t *testing.T) {
	h := newHouse(t)
	alice := h.account("alice", "platform", api.ScopeNodesRead)
	h.account("operator", "", api.ScopeAll)
	ended := h.now
	h.accountWith(store.Account{Name: "gone", RevokedAt: &ended})
	for _, c := range []struct {
		token, body string
		status      int
		of          string // the account, or the code of the refusal
	}{
		{alice, ``, 201, "alice"},
		{alice, `{"account":"alice"}`, 201, "alice"},
		{alice, `{"account":"operator"}`, 403, wire.CodeForbidden},
		{"", ``, 201, "operator"},
		{"", `{"account":"alice"}`, 201, "alice"},
		{"", `{"account":"gone"}`, 404, wire.CodeNotFound},
		{"", `{"account":"nobody"}`, 404, wire.CodeNotFound},
	} {
		status, body := h.ask("POST", "logins", c.token, c.body)
		made := decode[api.Login](t, body)
		if status != c.status || status == 201 && (made.Account != c.of || made.URL != "https://gw:7443/ui/login#"+made.Code ||
			len(made.Code) != 26 || made.ExpiresAt.Sub(h.now).Minutes() != 2) || status != 201 && code(body) != c.of {
			t.Errorf("%q of %.8q: %d %s", c.body, c.token, status, body)
		}
		events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "console.code", Limit: 1})
		if err != nil || status == 201 && (len(events) != 1 || events[0].Detail["account"] != c.of ||
			strings.Contains(events[0].Detail["account"], made.Code)) {
			t.Errorf("%q: events %+v, %v", c.body, events, err)
		}
	}
}
