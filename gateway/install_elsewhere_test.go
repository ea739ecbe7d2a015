package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestInstallPastTheProxy: a machine that cannot reach the public URL, which is a proxy's, fetches the script and the agent from the
// gateway's own port, by the gateway's own pin.
func TestInstallPastTheProxy(t *testing.T) {
	t.Parallel()
	listen := freeAddress(t)
	h := agentsHouse(t, recorder(t), "--listen", listen, "--public-url", "https://gw.example", "--plain-listen", freeAddress(t),
		"--trusted-proxy", "192.0.2.1")
	var made struct{ Command, Token string }
	said := h.muster("token", "create", "--gateway", "https://"+listen, "-o", "json")
	if err := json.Unmarshal([]byte(said), &made); err != nil || !strings.Contains(made.Command, " --pinned-key sha256//") {
		t.Fatalf("%v, command %q", err, made.Command)
	}
	b := newBox(t)
	b.env = append(b.env, "MUSTER_STATE="+b.state)
	if code, out := b.do("", "sh", "-c", made.Command); code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	argv := strings.Join(b.joined(made.Token), " ")
	if !strings.Contains(argv, "--gateway https://"+listen) || strings.Contains(argv, "pinned-key") {
		t.Errorf("argv: %s", argv)
	}
}
