package adminapi_test

import (
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
)

const noRelease = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestReleaseRefusals: what cannot be done is refused with the next step, before anything has changed.
func TestReleaseRefusals(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "node-agent-releases", `{"digest":"latest"}`, 400, wire.CodeBadRequest},
		{"POST", "node-agent-releases", `{"digest":"` + noRelease + `","channel":"a b"}`, 400, wire.CodeBadRequest},
		{"GET", "node-agent-releases/0.9.9", "", 404, wire.CodeReleaseUnknown},
		{"DELETE", "node-agent-releases/0.9.9", "", 404, wire.CodeReleaseUnknown},
		{"GET", "channels/stable", "", 404, wire.CodeChannelUnknown},
		{"GET", "channels/a%20b", "", 400, wire.CodeBadRequest},
		{"PATCH", "channels/stable", `{}`, 400, wire.CodeBadRequest},
		{"PATCH", "channels/a%20b", `{"digest":"x"}`, 400, wire.CodeBadRequest},
		{"PATCH", "channels/stable", `{"digest":"0.9.9"}`, 404, wire.CodeReleaseUnknown},
		{"PATCH", "channels/stable", `{"digest":"0.9.9","wave":{"canary":1}}`, 400, wire.CodeBadRequest},
		{"PATCH", "channels/stable", `{"digest":"0.9.9","wave":{"canaries":"1"}}`, 400, wire.CodeBadRequest},
		{"POST", "channels/stable/rollback", `{"wave":[]}`, 400, wire.CodeBadRequest},
		{"POST", "channels/stable/rollback", `{}`, 404, wire.CodeChannelUnknown},
		{"POST", "channels/stable/pause", `{}`, 404, wire.CodeChannelUnknown},
		{"POST", "channels/stable/resume", `{}`, 404, wire.CodeChannelUnknown},
		{"POST", "channels/stable/abort", `{}`, 404, wire.CodeChannelUnknown},
		{"POST", "channels/a%20b/pause", `{}`, 400, wire.CodeBadRequest},
		{"POST", "channels/a%20b/abort", `{}`, 400, wire.CodeBadRequest},
		{"POST", "channels/a%20b/rollback", `{}`, 400, wire.CodeBadRequest},
		{"GET", "channels/stable/pointer?digest=0.9.9", "", 404, wire.CodeReleaseUnknown},
		{"GET", "channels/a%20b/pointer", "", 400, wire.CodeBadRequest},
		{"GET", "channels/stable/nodes?phase=odd", "", 400, wire.CodeBadRequest},
		{"GET", "channels/a%20b/nodes", "", 400, wire.CodeBadRequest},
		{"GET", "channels/stable/nodes", "", 404, wire.CodeChannelUnknown},
		{"POST", "pins", `{}`, 400, wire.CodeBadRequest},
		{"POST", "pins", `{"nodes":["nobody"]}`, 404, wire.CodeNotFound},
		{"POST", "pins", `{"nodes":["n"],"digest":"0.9.9"}`, 404, wire.CodeReleaseUnknown},
		{"POST", "pins/drop", `{"nodes":["n"],"digest":"0.9.9"}`, 400, wire.CodeBadRequest},
		{"POST", "pins/drop", `{}`, 400, wire.CodeBadRequest},
		{"DELETE", "pins/nobody", "", 404, wire.CodeNotFound},
		{"PUT", "registry-credentials/a%20b", `{}`, 400, wire.CodeBadName},
		{"PUT", "registry-credentials/ghcr", `{"host":"ghcr.io"}`, 400, wire.CodeBadRequest},
		{"DELETE", "registry-credentials/ghcr", "", 404, wire.CodeNotFound},
	} {
		status, body := h.ask(c.method, c.path, "", c.body)
		if status != c.status || code(body) != c.code || !strings.Contains(string(body), `"hint"`) {
			t.Errorf("%s %s %s: got %d %s, want %d %s", c.method, c.path, c.body, status, body, c.status, c.code)
		}
	}
}

// TestPins: a node without a release of its own is held if it is, until its pin is dropped in either way.
func TestPins(t *testing.T) {
	h := newHouse(t)
	h.node("n", "platform", oneGPU)
	for _, drop := range []struct{ method, path, body string }{{"DELETE", "pins/n", ""}, {"POST", "pins/drop", `{"nodes":["id-n"]}`}} {
		status, body := h.ask("POST", "pins", "", `{"nodes":["n"]}`)
		if list := decode[api.PinList](t, body); status != 200 || len(list.Pins) != 1 || list.Pins[0].NodeID != "id-n" ||
			list.Pins[0].Node != "n" || list.Pins[0].By != "operator:socket" {
			t.Fatalf("got %d %s", status, body)
		}
		if status, body := h.ask(drop.method, drop.path, "", drop.body); status != 200 {
			t.Errorf("%s: %d %s", drop.path, status, body)
		}
		if status, body := h.ask("GET", "pins", "", ""); status != 200 || len(decode[api.PinList](t, body).Pins) != 0 {
			t.Errorf("after %s: %d %s", drop.path, status, body)
		}
	}
}

// TestRegistryCredentials: a password goes in and never comes out.
func TestRegistryCredentials(t *testing.T) {
	h := newHouse(t)
	status, body := h.ask("PUT", "registry-credentials/ghcr", "", `{"host":"ghcr.io","username":"robot","password":"very-secret-word"}`)
	if set := decode[api.RegistryCredential](t, body); status != 200 || set.Name != "ghcr" || set.Username != "robot" {
		t.Errorf("got %d %s", status, body)
	}
	_, list := h.ask("GET", "registry-credentials", "", "")
	if got := decode[api.RegistryCredentialList](t, list); len(got.Credentials) != 1 || got.Credentials[0].Host != "ghcr.io" {
		t.Errorf("got %s", list)
	}
	if strings.Contains(string(body)+string(list), "very-secret-word") {
		t.Error("an answer shows the password")
	}
	if status, body := h.ask("DELETE", "registry-credentials/ghcr", "", ""); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
}

// TestEmptyLists: a gateway without releases has empty lists, and no null.
func TestEmptyLists(t *testing.T) {
	h := newHouse(t)
	for path, want := range map[string]string{"node-agent-releases": `{"releases":[]}`, "channels": `{"channels":[]}`, "pins": `{"pins":[]}`,
		"registry-credentials": `{"credentials":[]}`} {
		if status, body := h.ask("GET", path, "", ""); status != 200 || strings.TrimSpace(string(body)) != want {
			t.Errorf("%s: got %d %s", path, status, body)
		}
		if status, _ := h.ask("GET", path+"?odd=1", "", ""); status != 400 {
			t.Errorf("%s takes an unknown parameter: %d", path, status)
		}
	}
}
