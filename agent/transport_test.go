package main

import (
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
)

func TestTransportOption(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags []string
		env   string
		want  string // of the status
	}{
		{nil, "", "mtls"},
		{[]string{"--transport", "curl"}, "", "curl"},
		{nil, "curl", "curl"},
		{[]string{"--transport=direct"}, "curl", "mtls"},
	} {
		g := gatewaytest.New(t)
		url := gatewaytest.Listen(t, g, g.Serving(t))
		state := t.TempDir()
		online := func() bool {
			s, err := identity.ReadStatus(state)
			return err == nil && s.Phase == identity.PhaseOnline
		}
		args := append([]string{"run", "--gateway", url, "--state", state, "--no-gpu", "--name", "gpu-1"}, test.flags...)
		getenv := environment("MUSTER_TOKEN", g.Token(t), "MUSTER_TRANSPORT", test.env)
		if code, _, stderr := agent(t, getenv, "", online, args...); code != 0 {
			t.Fatalf("%v: exit %d: %s", test.flags, code, stderr)
		}
		if s, err := identity.ReadStatus(state); err != nil || s.Transport != test.want {
			t.Errorf("%v %s: transport %q, want %q, error %v", test.flags, test.env, s.Transport, test.want, err)
		}
		for _, r := range g.Requests("") {
			if isCurl := strings.HasPrefix(r.Header.Get("User-Agent"), "curl/"); isCurl != (test.want == "curl") {
				t.Errorf("%v %s: %s came from %s", test.flags, test.env, r.Path, r.Header.Get("User-Agent"))
			}
		}
	}
	code, _, stderr := agent(t, environment(), "", nil, "run", "--gateway", "https://gw.test", "--transport", "wget")
	if code != exitUsage || !strings.Contains(stderr, "--transport: a transport is auto, direct or curl") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
