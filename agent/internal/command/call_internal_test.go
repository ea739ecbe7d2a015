package command

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

// heard is a gateway's answer to each of the two questions of call.
type heard struct {
	name           string
	release, ready gatewaytest.Reply
	good           bool
}

// askedOf runs call against a gateway that answers so.
func askedOf(t *testing.T, h heard) {
	t.Helper()
	g := gatewaytest.New(t)
	g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
		copied := h.release
		if q.Path == wire.PathReady {
			copied = h.ready
		}
		return &copied
	}
	j := judge{base: enrolled(t, g, gatewaytest.Listen(t, g, nil)), way: transport.Direct, log: slog.New(slog.DiscardHandler)}
	if err := j.call(t.Context()); (err == nil) != h.good {
		t.Errorf("%s: error %v", h.name, err)
	}
	for _, r := range g.Requests("") {
		if r.Method != "GET" || r.Path != wire.PathRelease && r.Path != wire.PathReady || r.Path == wire.PathRelease && r.Signature == nil {
			t.Errorf("%s: asked for %s %s, signed: %t", h.name, r.Method, r.Path, r.Signature != nil)
		}
	}
}

// TestCall: what counts is whether the gateway provably answers, whatever it says, and can write. Nothing is sent but the two questions,
// and no heartbeat.
func TestCall(t *testing.T) {
	ready := gatewaytest.Reply{Status: 200, Body: []byte(`{"status":"ready"}`), Unproven: true}
	full := *gatewaytest.Refusal(503, wire.CodeUnavailable)
	unsigned := full
	unsigned.Unproven = true
	release := gatewaytest.Reply{Status: 200, Body: []byte(`{}`)}
	page := gatewaytest.Reply{Status: 404, Body: []byte(`<html>`), Unproven: true}
	for _, h := range []heard{
		{"a release", release, ready, true},
		{"none", gatewaytest.Reply{Status: 204}, ready, true},
		{"a gateway in trouble", *gatewaytest.Refusal(500, wire.CodeInternal), ready, false},
		{"one that ends", full, ready, false},
		{"one with too much to do", *gatewaytest.Refusal(429, wire.CodeTooManyRequests), ready, false},
		{"something between", gatewaytest.Reply{Status: 200, Body: []byte(`<html>`), Unproven: true}, ready, false},
		{"a full disk", release, unsigned, false},
		{"a full disk, and a connection that is proof enough", release, full, false},
		{"a full disk, and a node that is refused", *gatewaytest.Refusal(403, wire.CodeBanned), unsigned, false},
		{"it goes while it is asked", release, gatewaytest.Reply{Hangup: true}, false},
		{"a proxy keeps the second question to itself", release, page, true},
		{"a gateway that does not know the second question", release, *gatewaytest.Refusal(404, wire.CodeNotFound), true},
	} {
		askedOf(t, h)
	}
}

// TestCallRefused: a provable refusal says that the gateway is there, also if it refuses this node for good, or knows it no more since
// the node was enrolled afresh. Then the version before is as well off as the one on trial, and the node need not wait for the gateway.
func TestCallRefused(t *testing.T) {
	ready := gatewaytest.Reply{Status: 200, Unproven: true}
	for code, status := range map[string]int{
		wire.CodeNoIdentity: 401, wire.CodeUnknownCertificate: 401, wire.CodeSupersededRetry: 401, wire.CodeIdentityMismatch: 401,
		wire.CodeBadSignature: 401, wire.CodeExpired: 403, wire.CodeSuperseded: 403, wire.CodeRevoked: 403, wire.CodeRetired: 403,
		wire.CodeBanned: 403, wire.CodeWrongNode: 403, wire.CodeIdentityConflict: 403, wire.CodeForbidden: 403, wire.CodeNotFound: 404,
		wire.CodeMethodNotAllowed: 405, wire.CodeBadRequest: 400, wire.CodeReleaseUnknown: 404, wire.CodeChannelUnknown: 404,
		"a_later_gateways": 409,
	} {
		askedOf(t, heard{code, *gatewaytest.Refusal(status, code), ready, true})
	}
	for _, code := range []string{wire.CodeClockSkew, wire.CodeStaleNonce, wire.CodeReplayed} { // not even this version gets through
		askedOf(t, heard{code, *gatewaytest.Refusal(401, code), ready, false})
	}
}

// TestCallAsAnother: the identity is the one that the node has now, which may be a later one than at the beginning of the trial.
func TestCallAsAnother(t *testing.T) {
	g := gatewaytest.New(t)
	base := enrolled(t, g, gatewaytest.Listen(t, g, nil))
	directory, err := identity.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	state := g.Node(t)
	state.NodeID = "another"
	state.Gateway.URL = gatewaytest.Listen(t, g, nil)
	if err := directory.Save(state); err != nil {
		t.Fatal(err)
	}
	directory.Close()
	j := judge{base: base, way: transport.Direct, log: slog.New(slog.DiscardHandler)}
	if err := j.call(t.Context()); err != nil {
		t.Error(err)
	}
	id, err := state.Transport()
	if err != nil {
		t.Fatal(err)
	}
	asked := g.Requests(wire.PathRelease)
	if len(asked) == 0 {
		t.Fatal("not asked")
	}
	for _, q := range asked { // the second one knows the epoch
		if q.Signature == nil || q.Signature.Fingerprint != id.Signer.Fingerprint {
			t.Errorf("asked as %+v", q.Signature)
		}
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
