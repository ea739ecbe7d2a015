package main

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

func TestJoinRefusesAnotherGateway(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined("--root-pin", b.g.CA.Pin()) // the other gateway has another root
	other := newBox(t)
	args := []string{"join", "--gateway", other.url, "--state", b.base, "--token", other.token}
	code, out, errs := b.call(args...)
	if code != 1 || !strings.Contains(errs, b.url) || !strings.Contains(errs, other.url) || !strings.Contains(errs, "--force") || out != "" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online()
	code, out, errs = b.call(append(args, "--force")...)
	if code != 0 || !strings.Contains(out, "kept in ") {
		t.Errorf("forced: exit %d\n%s%s", code, out, errs)
	}
	other.online()
	if got := b.read("etc/muster/agent.env"); !strings.Contains(got, "MUSTER_GATEWAY="+other.url+"\n") || strings.Contains(got, "ROOT_PIN") {
		t.Errorf("settings %s", got)
	}
}

// TestJoinUnderAnotherAddress: no token is needed where the same gateway has another address.
func TestJoinUnderAnotherAddress(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	moved := gatewaytest.Listen(t, b.g, b.g.Serving(t))
	code, out, errs := b.call("join", "--gateway", moved, "--state", b.base, "--force")
	if code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ := b.call("join", "--gateway", moved, "--state", b.base); code != 0 || !strings.HasPrefix(out, "already joined") {
		t.Errorf("again: exit %d\n%s", code, out)
	}
	if n := len(b.g.Requests(wire.PathRegister)); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

// TestJoinAfterBeingRefused: where the gateway refuses the identity for good, join enrols afresh with a token.
func TestJoinAfterBeingRefused(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.g.Forget()
	b.until("the agent is refused", func() bool { return b.status().Phase == identity.PhaseRefused })
	again := newBox(t)
	b.rule(nil)
	if code, out, errs := b.call("join", "--state", b.base); code != 1 || !strings.Contains(out, "unknown_certificate") {
		t.Errorf("without a token: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs := b.call("join", "--gateway", again.url, "--state", b.base, "--force", "--token", again.token)
	if code != 0 || !strings.Contains(out, "enrolled as gpu-1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

// TestJoinForcedInVain: where the other gateway refuses, the node works on with the first one.
func TestJoinForcedInVain(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	other := newBox(t)
	other.rule(func(q gatewaytest.Request) *gatewaytest.Reply {
		return gatewaytest.Refusal(403, wire.CodeTokenRevoked)
	})
	code, out, errs := b.call("join", "--gateway", other.url, "--state", b.base, "--token", other.token, "--force")
	if code != 1 || !strings.Contains(out, "nothing has changed") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	b.online()
	state := identity.State{}
	if err := json.Unmarshal([]byte(b.read("base/identity.json")), &state); err != nil || state.Current == nil || state.Gateway.URL != b.url {
		t.Errorf("%v, the identity is of %q", err, state.Gateway.URL)
	}
}
