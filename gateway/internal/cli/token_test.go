package cli_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/gateway/internal/kit"
)

func TestTokens(t *testing.T) {
	h := newHouse(t)
	out := h.done("token", "create", "--tenant", "platform", "--uses", "8", "--ttl", "4h", "--label", "tier=x", "--gpus", "8")
	token, _, _ := strings.Cut(out, "\n")
	parsed, err := sign.ParseToken(token)
	if err != nil {
		t.Fatalf("the first line is no token: %s", out)
	}
	kit.Golden(t, "token-create.golden", strings.ReplaceAll(out, token, "mse_ID_SECRET"))
	kit.Golden(t, "token-ls.golden", strings.ReplaceAll(h.done("token", "ls")+h.done("token", "ls", "-o", "wide"), parsed.Public(),
		"mse_0123456789ab"))
	var made struct{ ID, Token, Command, Tenant string }
	if err := json.Unmarshal([]byte(h.done("token", "create", "-o", "json")), &made); err != nil || made.Tenant != "default" ||
		!strings.Contains(made.Command, made.Token) {
		t.Errorf("got %+v, %v", made, err)
	}
	code, out, errs := h.muster("token", "revoke", token, "mse_nothere", made.ID)
	if code != 1 || out != parsed.Public()+": revoked\n"+made.ID+": revoked\n" ||
		!strings.Contains(errs, "mse_nothere: no token is called") {
		t.Errorf("revoke: code %d\n%s\n%s", code, out, errs)
	}
	if out := h.done("token", "ls"); strings.Contains(out, "mse_") {
		t.Errorf("left: %s", out)
	}
	if out := h.done("token", "ls", "--all"); strings.Count(out, "revoked") != 2 {
		t.Errorf("all: %s", out)
	}
	if out := h.done("token", "ls", "--all", "--tenant", "platform", "-o", "json"); strings.Count(out, `"id"`) != 1 {
		t.Errorf("of one tenant: %s", out)
	}
	if code, _, errs := h.muster("token", "create", "--tenant", "a b"); code != 1 || !strings.Contains(errs, "hint: ") {
		t.Errorf("bad tenant: code %d, %s", code, errs)
	}
}

func TestPSK(t *testing.T) {
	h := newHouse(t)
	out := h.done("psk", "set", "--generate")
	secret, _, _ := strings.Cut(out, "\n")
	if len(secret) < 20 || !strings.Contains(out, "The key is called psk-") {
		t.Errorf("set: %s", out)
	}
	h.stdin = "correct horse battery staple\n"
	out = h.done("psk", "rotate")
	if strings.Contains(out, "horse") || !strings.Contains(out, "muster psk clear --keep psk-") {
		t.Errorf("rotate: %s", out)
	}
	file := filepath.Join(t.TempDir(), "psk")
	if err := os.WriteFile(file, []byte("another secret of some length\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := h.muster("psk", "rotate", "--file", file); code != 1 || !strings.Contains(errs, "two PSKs are live") {
		t.Errorf("a third: %d %s", code, errs)
	}
	lines := strings.Split(h.done("psk", "ls"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "psk-") || !strings.HasSuffix(lines[1], "0s ago") {
		t.Errorf("ls: %q", lines)
	}
	newest := strings.Fields(lines[1])[0]
	if out := h.done("psk", "clear", "--keep", newest); !strings.Contains(out, newest+" is the only") {
		t.Errorf("clear: %s", out)
	}
	if out := h.done("psk", "ls", "-o", "json"); strings.Count(out, "psk-") != 1 {
		t.Errorf("left: %s", out)
	}
	h.done("psk", "set", "--file", file)
	h.done("psk", "clear")
	if out := h.done("psk", "ls", "-o", "json"); out != "{\"psks\":[]}\n" {
		t.Errorf("left: %s", out)
	}
	if out := h.done("psk", "set", "--generate", "-o", "json"); !strings.HasPrefix(out, `{"id":"psk-`) {
		t.Errorf("json: %s", out)
	}
	for _, c := range []struct {
		args, stdin string
		interactive bool
		code        int
		says        string
	}{
		{"psk set", "short", false, 1, "at least 20"},
		{"psk set", "\n", false, 2, "empty"},
		{"psk set", "", true, 2, "where does the secret come from?"},
		{"secret set hf", "\n", false, 2, "the secret is empty"},
		{"secret set hf", "", true, 2, "where does the secret come from?"},
		{"secret set hf --file /nonexistent/x", "", false, 1, "read the secret: open"},
		{"release login ghcr ghcr.io", "", true, 2, "where does the password come from?"},
		{"release login ghcr ghcr.io", "\r\n", false, 2, "the password is empty"},
		{"psk set --generate --file x", "", false, 2, "either generated"},
		{"psk set --file /nonexistent/x", "", false, 1, "no such file"},
		{"psk clear --keep psk-ffffffff", "", false, 1, "psk ls shows the ids"},
	} {
		h.stdin = c.stdin
		h.interactive = c.interactive
		if code, _, errs := h.muster(strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %s", c.args, code, errs)
		}
	}
	if events := h.done("events"); strings.Contains(events, secret) || strings.Contains(events, "horse") {
		t.Error("a secret is in the log")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }
