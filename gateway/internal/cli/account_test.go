package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
	"muster/store"
)

// accountToken makes an account for everything and gives its id.
func (h *house) accountToken(name string) (id string) {
	h.t.Helper()
	var made api.NewAccount
	if err := json.Unmarshal([]byte(h.done("account", "create", name, "--scope", "*", "-o", "json")), &made); err != nil {
		h.t.Fatal(err)
	}
	return made.ID
}

// accountBy stores an account that another account made.
func (h *house) accountBy(maker, name string) {
	h.t.Helper()
	if err := h.store.CreateAccount(h.t.Context(),
		store.Account{ID: "msa_" + name, Name: name, CreatedAt: h.now, CreatedBy: "account:root", Maker: maker}); err != nil {
		h.t.Fatal(err)
	}
}

func TestAccountCommands(t *testing.T) {
	h := newHouse(t)
	h.api.Gateway = api.Gateway{URL: "https://gw.example", RootPin: "sha256:00", OwnCertificate: true}
	h.dir = h.listen()
	out := h.done("account", "create", "alice", "--scope", "*")
	token, _, _ := strings.Cut(out, "\n")
	parsed, err := sign.ParseToken(token)
	if err != nil || parsed.Kind != sign.AccountToken {
		t.Fatalf("the first line is no API token: %s", out)
	}
	kit.Golden(t, "account-create.golden", strings.ReplaceAll(out, token, "msa_ID_SECRET"))
	var made api.NewAccount
	text := h.done("account", "create", "ci", "--scope", "tokens:write,nodes:read", "--scope", "events:read", "--tenant", "platform",
		"--ttl", "90d", "-o", "json")
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Tenant != "platform" ||
		strings.Join(made.Scopes, " ") != "events:read nodes:read tokens:write" {
		t.Errorf("create: %s, %v", text, err)
	}
	text = h.done("account", "ls") + h.done("account", "ls", "-o", "wide", "--tenant", "platform")
	kit.Golden(t, "account-ls.golden", strings.ReplaceAll(text, made.ID, "msa_0123456789ab"))
	if got := h.done("account", "ls", "-o", "json"); strings.Count(got, `"id"`) != 2 || strings.Contains(got, parsed.Secret) {
		t.Errorf("json: %s", got)
	}
	code, out, errs := h.muster("account", "revoke", "nobody", made.Token, "alice")
	if code != 1 || out != made.ID+": revoked\nalice: revoked\n" || !strings.Contains(errs, "muster account ls shows them") {
		t.Errorf("revoke: code %d\n%s\n%s", code, out, errs)
	}
	if got := h.done("account", "ls"); strings.Contains(got, "alice") {
		t.Errorf("left: %s", got)
	}
	h.done("account", "create", "short", "--ttl", "1m")
	h.now = h.now.Add(time.Hour)
	if got := h.done("account", "ls", "--all"); strings.Count(got, "revoked") != 2 || !strings.Contains(got, "expired  59m ago") {
		t.Errorf("all: %s", got)
	}
	if out := h.done("account", "whoami"); !strings.HasSuffix(out, ", tenant (all), role admin, scopes *, without an end\n") {
		t.Errorf("whoami: %s", out)
	}
	root := h.accountToken("root")
	for _, name := range []string{"one", "two"} {
		h.accountBy(root, name)
	}
	h.env["MUSTER_TENANT"] = "platform"  // it moves no account
	h.env["MUSTER_SCOPE"] = "nodes:read" // and this is for new ones
	if out := h.done("account", "update", "root", "--scope", "accounts:write"); out != "account root, tenant (all), scopes accounts:write\n"+
		"accounts that it had made keep what they may do: one, two; to end them: muster account revoke one two\n" {
		t.Errorf("update a maker: %s", out)
	}
	if code, _, errs := h.muster("account", "update", "root"); code != 2 || !strings.Contains(errs, "nothing is to be changed") {
		t.Errorf("update nothing: %d %s", code, errs)
	}
	delete(h.env, "MUSTER_TENANT")
	delete(h.env, "MUSTER_SCOPE")
	h.api.Gateway.OwnCertificate = false
	h.dir = h.listen()
	if out := h.done("account", "create", "public"); strings.Contains(out, "ROOT_PIN") || !strings.Contains(out, "export MUSTER_URL=") {
		t.Errorf("behind a certificate that all trust: %s", out)
	}
	if out := h.done("account", "revoke", "root"); out != "root: revoked; accounts that it had made stay live: one, two; to end them: "+
		"muster account revoke one two\n" {
		t.Errorf("revoke a maker: %s", out)
	}
	if code, _, errs := h.muster("account", "create", "a:b"); code != 1 || !strings.Contains(errs, "hint: ") {
		t.Errorf("a bad name: %d %s", code, errs)
	}
	for args, says := range map[string]string{"account": "Commands of muster account", "account create": "needs NAME",
		"account create x --ttl x": "no duration",
		"account create x -o x":    "one of table", "account ls -o x": "one of table", "account ls --all x": "does not take",
		"account revoke": "needs NAME"} {
		if code, _, errs := h.muster(strings.Fields(args)...); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	for _, args := range []string{"account create x", "account ls", "account revoke x"} {
		if code, _, errs := h.run(t.Context(), append([]string{"--data", t.TempDir()}, strings.Fields(args)...)...); code != 1 ||
			!strings.Contains(errs, "muster serve --data") {
			t.Errorf("%s without a gateway: %d %s", args, code, errs)
		}
	}
	h.env = map[string]string{"MUSTER_SCOPE": "nodes:read,events:read"}
	if got := h.done("account", "create", "env", "-o", "json"); !strings.Contains(got, `["events:read","nodes:read"]`) {
		t.Errorf("scopes of the environment: %s", got)
	}
}
