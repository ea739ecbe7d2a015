package cli_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/logs/ship"
)

// TestShipping: a rule is made, listed, shown, tried and deleted; what is wrong is said with what to do.
func TestShipping(t *testing.T) {
	h := example(t)
	var err error
	h.api.Shipping, err = ship.Open(t.Context(), ship.Config{Store: h.store, Folder: t.TempDir(),
		Node: func(id string) (*api.NodeRow, bool) {
			return &api.NodeRow{ID: id, Name: "gpu-1", Labels: map[string]string{"tier": "prod"}}, true
		}})
	if err != nil {
		t.Fatal(err)
	}
	h.dir = h.listen()
	status := http.StatusNoContent
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(sink.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("user:pass-5d4c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	create := "logs ship create prod --to " + sink.URL + " --selector tier=prod --source agent,kernel"
	for _, c := range []struct {
		line     string
		code     int
		out, err string
	}{
		{"logs ship create prod --source agent", 2, "", "where do the logs go"},
		{"logs ship create prod --to https://x.example", 2, "", "which logs are shipped"},
		{create + " --rate fast", 2, "", "is no rate"},
		{create + " --auth-file " + filepath.Join(t.TempDir(), "none"), 1, "", "--auth-file"},
		{create + " --rate 256KiB --auth-file " + secret, 0, "agent, kernel to " + sink.URL + "/loki/api/v1/push", ""},
		{"logs ship ls", 0, "agent,kernel", ""},
		{"logs ship show prod", 0, "262144 bytes a second", ""},
		{"logs ship show prod -o json", 0, `"auth":"basic"`, ""},
		{"logs ship show none", 1, "", "there is no rule"},
		{"logs ship test prod", 0, "took the test line: status 204", ""},
		{"logs ship test none", 1, "", "there is no rule none"},
		{"logs ship create --to https://loki.example:3100 --selector tier=prod --source agent", 0,
			"loki.example-3100-tier-prod: agent to https://loki.example:3100/", ""},
		{"logs ship create --to https://loki.example:3100 --selector tier=prod --source agent,kernel", 0,
			"loki.example-3100-tier-prod: agent, kernel", ""},
		{"logs ship create --to https://loki.example:3100 --source agent -o json", 0, `"name":"loki.example-3100"`, ""},
		{"logs ship create --to loki.example --source agent", 2, "", "--to is no URL"},
		{"logs ship create --to https://loki.example --source agent --selector tier=" + strings.Repeat("a", 60), 2, "", "make no name"},
		{"logs ship delete none --yes", 1, "", "there is no rule none"},
		{"logs ship delete prod --yes", 0, "ships no more", ""},
	} {
		code, out, said := h.muster(strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(said, c.err) || strings.Contains(out+said, "5d4c") {
			t.Errorf("%s: %d\n%s\n%s", c.line, code, out, said)
		}
	}
	h.muster(strings.Fields(create)...)
	h.api.Shipping.Wanted("n-1", map[string]string{"kernel": "the policy \x1b[2J forbids it"})
	for line, want := range map[string]string{"logs ship ls": "withheld",
		"logs ship show prod": `by 1 node: gpu-1 does not ship kernel: the policy \x1b[2J forbids it`} {
		if code, out, said := h.muster(strings.Fields(line)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d\n%s\n%s", line, code, out, said)
		}
	}
	status = http.StatusUnauthorized
	if code, _, said := h.muster("logs", "ship", "test", "prod"); code != 1 || !strings.Contains(said, "--bearer-file") {
		t.Errorf("%d %s", code, said)
	}
}
