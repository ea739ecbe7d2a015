package settle

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestCall: what counts is whether the gateway provably answers, whatever it says. Nothing but the one call is made, and no heartbeat.
func TestCall(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply gatewaytest.Reply
		good  bool
	}{
		{"a release", gatewaytest.Reply{Status: 200, Body: []byte(`{}`)}, true},
		{"none", gatewaytest.Reply{Status: 204}, true},
		{"a refusal", *gatewaytest.Refusal(403, wire.CodeBanned), true},
		{"an older gateway", *gatewaytest.Refusal(404, wire.CodeNotFound), true},
		{"a gateway in trouble", *gatewaytest.Refusal(500, wire.CodeInternal), false},
		{"one that ends", *gatewaytest.Refusal(503, wire.CodeUnavailable), false},
		{"one with too much to do", *gatewaytest.Refusal(429, wire.CodeTooManyRequests), false},
		{"something between", gatewaytest.Reply{Status: 200, Body: []byte(`<html>`), Unproven: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := gatewaytest.New(t)
			g.Script = func(gatewaytest.Request) *gatewaytest.Reply { copied := test.reply; return &copied }
			j := judge{base: enrolled(t, g, gatewaytest.Listen(t, g, nil)), way: transport.Direct, log: slog.New(slog.DiscardHandler)}
			if err := j.call(t.Context()); (err == nil) != test.good {
				t.Errorf("error %v", err)
			}
			for _, r := range g.Requests("") {
				if r.Path != wire.PathRelease || r.Signature == nil {
					t.Errorf("asked for %s, signed: %t", r.Path, r.Signature != nil)
				}
			}
		})
	}
}

// enrolled makes a state directory of a node of this gateway.
func enrolled(t *testing.T, g *gatewaytest.Gateway, url string) string {
	t.Helper()
	directory, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	state := g.Node(t)
	state.Gateway.URL = url
	if err := directory.Save(state); err != nil {
		t.Fatal(err)
	}
	return directory.Path()
}

func TestCallFails(t *testing.T) {
	g := gatewaytest.New(t)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	for want, base := range map[string]string{
		"not enrolled": t.TempDir(), "refused": enrolled(t, g, "http://127.0.0.1:1"), "is a URL": enrolled(t, g, "none"),
	} {
		began := time.Now()
		err := judge{base: base, way: transport.Direct, log: log}.call(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) > callTime {
			t.Errorf("%v, want %q", err, want)
		}
	}
	broken := t.TempDir()
	gatewaytest.Block(t, broken, "identity.json")
	if err := (judge{base: broken}).call(t.Context()); err == nil {
		t.Error("no error for an identity that cannot be read")
	}
}
