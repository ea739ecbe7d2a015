package cli_test

import (
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/store"
)

// TestTenantAsked: a tenant that looks mistyped is asked about, and any other new one is made at once.
func TestTenantAsked(t *testing.T) {
	h := newHouse(t)
	h.done("token", "create", "--tenant", "platform")
	if out := h.done("token", "create", "--tenant", "research"); !strings.Contains(out, "for tenant research, ") {
		t.Errorf("a first tenant without a terminal: %s", out)
	}
	const said = "no node, account or token has tenant platfrom; did you mean platform?"
	for _, c := range [][]string{
		{"token", "create"}, {"node", "create", "gpu-1"}, {"account", "create", "a"},
	} {
		words := append(c, "--tenant", "platfrom")
		code, out, errs := h.muster(words...)
		if code != 2 || out != "" || !strings.Contains(errs, said) || !strings.Contains(errs, "--yes") {
			t.Errorf("%v without a terminal: code %d, %s%s", c, code, out, errs)
		}
		h.interactive = true
		for answer, want := range map[string]int{"n\n": 1, "": 1} {
			h.stdin = answer
			if code, _, errs := h.muster(words...); code != want || !strings.Contains(errs, said+" make it anew? [y/N] ") ||
				!strings.Contains(errs, "nothing was done") {
				t.Errorf("%v, answer %q: code %d, %s", c, answer, code, errs)
			}
		}
		h.interactive = false
	}
	h.interactive = true
	h.stdin = "y\n"
	if code, out, errs := h.muster("token", "create", "--tenant", "platfrom"); code != 0 || !strings.Contains(out, "tenant platfrom") {
		t.Errorf("with a yes: code %d, %s", code, errs)
	}
	h.interactive = false
	h.stdin = ""
	h.done("token", "create", "--tenant", "platfrom") // it is there now
	h.done("token", "create", "--tenant", "reserach", "--yes")
	if out := h.done("tenant", "ls"); out != "TENANT    NODES  ACCOUNTS  TOKENS\n"+
		"platform  0      0         1\nplatfrom  0      0         2\nresearch  0      0         1\nreserach  0      0         1\n" {
		t.Errorf("got\n%s", out)
	}
}

func TestNodeRename(t *testing.T) {
	h := newHouse(t)
	at := h.now
	for _, name := range []string{"gpu-7", "gpu-8"} {
		if err := h.store.CreateNode(t.Context(), store.Node{ID: "id-" + name, Name: name, Tenant: "default", CreatedAt: at}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if out := h.done("node", "rename", "gpu-7", "h100-a"); out != "gpu-7: its name is h100-a\n" {
		t.Errorf("got %s", out)
	}
	h.done("node", "rename", "h100-a", "h100-a")
	if code, _, errs := h.muster("node", "rename", "h100-a", "gpu-8"); code != 1 || !strings.Contains(errs, "belongs to another node") ||
		!strings.Contains(errs, "hint: ") {
		t.Errorf("a taken name: code %d, %s", code, errs)
	}
	if code, _, errs := h.muster("node", "rename", "h100-a"); code != 2 || !strings.Contains(errs, "needs NODE NAME") {
		t.Errorf("one word: code %d, %s", code, errs)
	}
	if out := h.done("node", "rename", "id-gpu-7", "h100-b", "-o", "json"); !strings.Contains(out, `"name":"h100-b"`) ||
		!strings.Contains(out, `"old":[]`) {
		t.Errorf("as JSON: %s", out)
	}
}

func TestAccountUpdate(t *testing.T) {
	h := newHouse(t)
	if out := h.done("account", "create", "alice", "--role", "viewer"); !strings.Contains(out,
		"account alice, tenant (all), role viewer, scopes alerts:read,") {
		t.Errorf("got %s", out)
	}
	if out := h.done("account", "update", "alice", "--role", "operator", "--tenant", "platform"); !strings.HasPrefix(out,
		"account alice, tenant platform, role operator, scopes ") {
		t.Errorf("got %s", out)
	}
	if out := h.done("account", "update", "alice", "--scope", "nodes:read,tokens:read", "--all-tenants"); out !=
		"account alice, tenant (all), scopes nodes:read,tokens:read\n" {
		t.Errorf("got %s", out)
	}
	h.done("account", "update", "alice", "--role", "admin")
	if out := h.done("account", "ls"); !strings.Contains(out, "admin") {
		t.Errorf("the list has no role: %s", out)
	}
	for _, args := range [][]string{{}, {"--all-tenants", "--tenant", "x"}} {
		if code, _, errs := h.muster(append([]string{"account", "update", "alice"}, args...)...); code != 2 || !strings.Contains(errs, "hint: ") {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
	}
	if code, _, errs := h.muster("account", "update", "alice", "--role", "root"); code != 1 ||
		!strings.Contains(errs, "viewer, runner, operator, admin") {
		t.Errorf("no such role: code %d, %s", code, errs)
	}
	if len(api.Roles()) != 4 {
		t.Errorf("there are %d roles", len(api.Roles()))
	}
}
