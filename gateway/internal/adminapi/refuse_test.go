package adminapi_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// TestRefusedWrites: whatever a write is refused for is in the log, with who, what and from where. Reads are not.
func TestRefusedWrites(t *testing.T) {
	h := newHouse(t).withScripts()
	h.node("busy", "platform", "")
	h.account("taken", "", "*")
	ops := h.account("ops", "", "*")
	tenant := h.account("tenant", "platform", "*")
	whole, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token, method, path, body string
		status                          int
		outcome, node                   string
	}{
		{"an unknown node", ops, "POST", "nodes/nobody/drain", "", 404, wire.CodeNotFound, ""},
		{"a name that is taken", ops, "POST", "nodes", `{"name":"busy"}`, 409, wire.CodeNameInUse, ""},
		{"a scope that is none", ops, "POST", "accounts", `{"name":"x","scopes":["nodes:fly"]}`, 400, wire.CodeBadRequest, ""},
		{"an account that is there", ops, "POST", "accounts", `{"name":"taken"}`, 409, wire.CodeAlreadyThere, ""},
		{"a node at work", tenant, "POST", "nodes/busy/labels", `{"set":{"state":"x"}}`, 400, wire.CodeReservedKey, "busy"},
		{"another tenant's", h.account("other", "research", "*"), "POST", "nodes/busy/drain", "", 404, wire.CodeNotFound, ""},
		{"no JSON", ops, "POST", "nodes/busy/drain", "x", 400, wire.CodeBadRequest, "busy"},
		{"too large", ops, "POST", "tokens", strings.Repeat(" ", 1<<20+1), 413, wire.CodeBodyTooLarge, ""},
		{"a token's name", ops, "DELETE", "tokens/" + whole.Public(), "", 404, wire.CodeNotFound, ""},
		{"a token in the path", ops, "POST", "nodes/" + whole.Public() + "%2F" + whole.Secret + "/drain", "", 404, wire.CodeNotFound, ""},
		{"a whole token in the path", ops, "POST", "nodes/" + whole.Reveal() + "/drain", "", 400, wire.CodePlaintextSecret, ""},
		{"the operator on the machine", "", "POST", "nodes/busy/resume", "x", 400, wire.CodeBadRequest, "busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(refused(t, h))
			status, body := h.ask(c.method, c.path, c.token, c.body)
			events := refused(t, h)
			if status != c.status || code(body) != c.outcome || len(events) != before+1 {
				t.Fatalf("got %d %s, %d more events", status, body, len(events)-before)
			}
			e := events[0]
			if e.Outcome != c.outcome || e.NodeName != c.node || !e.Security || e.Address == "" || e.Detail["method"] != c.method ||
				e.Actor == "unknown" || e.Actor == "" {
				t.Errorf("event %+v", e)
			}
			if c.node != "" && e.Tenant != "platform" {
				t.Errorf("the tenant is %q", e.Tenant)
			}
			if strings.Contains(fmt.Sprint(e), whole.Secret) {
				t.Errorf("the secret is in %+v", e)
			}
		})
	}
	before := len(refused(t, h))
	for path, want := range map[string]int{"nodes/nobody": 404, "nodes?limit=x": 400, "events?since=x": 400} {
		if status, body := h.ask("GET", path, ops, ""); status != want {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	if after := len(refused(t, h)); after != before {
		t.Errorf("%d reads are in the log", after-before)
	}
}

func refused(t *testing.T, h *house) []store.Event {
	t.Helper()
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	if err != nil {
		t.Fatal(err)
	}
	return events
}
