package main

import (
	"os"
	"strings"
	"testing"
)

// TestFirstAccount: the token of the first account is shown on a terminal, and never goes into the journal.
func TestFirstAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env   []string
		says  string
		token bool
	}{
		{nil, "account operator, API token, shown this once: msa_", true},
		{[]string{"INVOCATION_ID=0123"}, "account create NAME --scope '*'", false},
		{[]string{"JOURNAL_STREAM=8:1234"}, "account create NAME --scope '*'", false},
	} {
		dir, err := os.MkdirTemp("", "m")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		env := append([]string{asGateway + "=1", "INVOCATION_ID=", "JOURNAL_STREAM="}, c.env...)
		g := start(t, "gateway", env, os.Args[0], "serve", "--data", dir, "--listen", "127.0.0.1:0")
		g.await("mint a token with")
		h := &house{t: t, data: dir}
		if got := g.text(); !strings.Contains(got, c.says) || strings.Contains(got, "msa_") != c.token {
			t.Errorf("%v: %s", c.env, got)
		}
		if list := h.muster("account", "ls"); strings.Contains(list, "operator") != c.token {
			t.Errorf("%v: accounts\n%s", c.env, list)
		}
		h.muster("account", "create", "me", "--scope", "*")
		g.kill()
		again := start(t, "gateway", env, os.Args[0], "serve", "--data", dir, "--listen", "127.0.0.1:0")
		again.await("mint a token with")
		if got := again.text(); strings.Contains(got, "account") && strings.Contains(got, "API token") ||
			strings.Contains(got, "account create") {
			t.Errorf("%v: once there is an account it still speaks of the first: %s", c.env, got)
		}
	}
}
