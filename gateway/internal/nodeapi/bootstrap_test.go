package nodeapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func TestBootstrapScript(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	for _, c := range []struct {
		method, token string
		secure        bool
		want          string
	}{
		{"GET", m.Token.FetchPart(), false, m.FetchSum}, {"POST", m.Token.FetchPart(), true, m.FetchSum},
		{"GET", m.Token.Reveal(), true, m.ScriptSum}, {"POST", m.Token.Reveal(), true, m.ScriptSum},
	} {
		a := h.ask(c.method, wire.BootstrapScriptPath(c.token), c.secure)
		if a.status != http.StatusOK || hexSum(a.body) != c.want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/x-shellscript") ||
			!strings.Contains(a.header.Get("Cache-Control"), "no-store") {
			t.Errorf("%s: got %d %.80s", c.method, a.status, a.body)
		}
	}
	if n, err := h.fleet.Node(t.Context(), "", "gpu-7"); err != nil || n.State != string(fleet.Deploying) {
		t.Errorf("state %s, %v", n.State, err)
	}
	if e := h.events("bootstrap.fetched"); len(e) != 2 || e[0].Detail["part"] != "whole" || e[1].Detail["part"] != "fetch" {
		t.Errorf("%d events: %+v", len(e), e)
	}
	if e := h.events("node.script_fetched"); len(e) != 1 || e[0].Actor != "token:"+m.Token.Public() {
		t.Errorf("events: %+v", e)
	}
}

func TestBootstrapCredential(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	if a := h.ask("GET", wire.RegistryCredentialPath(m.Token.Reveal()), true); a.status != http.StatusNoContent || len(a.body) != 0 {
		t.Errorf("none: got %d %s", a.status, a.body)
	}
	c := bootstrap.RegistryCredential{Registry: "registry.example", Username: "robot", Password: "hidden"}
	if err := h.scripts.SetRegistryCredential(t.Context(), c, store.Actor{Name: "gateway"}); err != nil {
		t.Fatal(err)
	}
	if a := h.ask("GET", wire.RegistryCredentialPath(m.Token.Reveal()), true); a.status != http.StatusOK ||
		string(a.body) != `{"registry":"registry.example","username":"robot","password":"hidden"}`+"\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := h.ask("GET", wire.RegistryCredentialPath(m.Token.Reveal()), true, "Accept", "text/plain"); a.status != http.StatusOK ||
		string(a.body) != "robot\nhidden\n" {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if e := h.events("bootstrap.credential"); len(e) != 2 || e[1].Outcome != "none" || e[0].Outcome != "ok" {
		t.Errorf("events: %+v", e)
	}
}

// TestBootstrapGone: the token of a node that was retired or banned opens nothing.
func TestBootstrapGone(t *testing.T) {
	for verb, want := range map[fleet.Verb]string{fleet.Retire: wire.CodeRetired, fleet.Ban: wire.CodeTokenRevoked} {
		h := newHall(t)
		m := h.mint(0)
		if _, err := h.fleet.Apply(t.Context(), "", "gpu-7", verb, store.Actor{Name: "operator:socket"}); err != nil {
			t.Fatal(err)
		}
		if a := h.ask("GET", wire.BootstrapScriptPath(m.Token.FetchPart()), true); a.status != http.StatusForbidden ||
			a.Error.Error.Code != want {
			t.Errorf("%s: got %d %s", verb, a.status, a.body)
		}
	}
}

// TestBootstrapRegister: a bootstrap token enrols its own node, once, under that node's name, and no other machine.
func TestBootstrapRegister(t *testing.T) {
	h := newHall(t)
	other, err := h.fleet.Create(t.Context(), api.CreateNodeRequest{Name: "gpu-8"}, store.Actor{Name: "operator:socket"})
	if err != nil {
		t.Fatal(err)
	}
	m := h.mint(0)
	secret, err := sign.EnrollKey(m.Token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	c := credential{m.Token.Public(), secret}
	if a := h.register(c, encode(t, h.application(other.Name, newKey(t)))); a.status != http.StatusForbidden ||
		a.code() != wire.CodeWrongNode {
		t.Errorf("another node's name: got %d %s", a.status, a.body)
	}
	key := newKey(t)
	a := h.register(c, encode(t, h.application("a-hostname", key)))
	var welcome wire.Welcome
	if err := json.Unmarshal(a.body, &welcome); err != nil || a.status != http.StatusOK || welcome.NodeID != h.node.ID ||
		welcome.Name != "gpu-7" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	h.clock.Forward(time.Hour)
	if again := h.register(c, encode(t, h.application("a-hostname", key))); again.status != http.StatusOK {
		t.Errorf("the same key again, after the end: got %d %s", again.status, again.body)
	}
	if a := h.register(c, encode(t, h.application("gpu-7", newKey(t)))); a.code() != wire.CodeTokenUsed && a.code() != wire.CodeTokenExpired {
		t.Errorf("another key: got %d %s", a.status, a.body)
	}
	if a := h.ask("GET", wire.BootstrapScriptPath(m.Token.FetchPart()), true); a.Error.Error.Code != wire.CodeTokenUsed ||
		a.status != http.StatusConflict {
		t.Errorf("the script after the use: got %d %s", a.status, a.body)
	}
}

// TestBootstrapThroughAProxy: the refusal of a token that a proxy has read does not claim that it crossed the network in the clear.
func TestBootstrapThroughAProxy(t *testing.T) {
	h := newHall(t)
	m := h.mint(0)
	for proxied, want := range map[string]string{"": "over plain HTTP", "1": "through a proxy that ends TLS"} {
		a := h.ask("GET", wire.RegistryCredentialPath(m.Token.Reveal()), false, "X-Test-Proxied", proxied)
		if e := h.events("bootstrap.refused"); !strings.Contains(a.Error.Error.Message, want) || !strings.Contains(e[0].Detail["reason"], want) {
			t.Errorf("proxied %q: got %s, event %+v", proxied, a.body, e[0])
		}
	}
	if a := h.ask("GET", wire.BootstrapScriptPath(m.Token.FetchPart()), false, "X-Test-Proxied", "1"); a.status != http.StatusOK {
		t.Errorf("the fetch part: got %d %s", a.status, a.body)
	}
}

// TestBootstrapHead: a HEAD request does not count as a fetch.
func TestBootstrapHead(t *testing.T) {
	h := newHall(t)
	m := h.mint(24 * time.Hour)
	a := h.ask("HEAD", wire.BootstrapScriptPath(m.Token.FetchPart()), false)
	if want := h.ask("HEAD", wire.BootstrapScriptPath(m.Token.Reveal()), true).header.Get("Content-Length"); a.status != http.StatusOK ||
		!strings.HasPrefix(a.header.Get("Content-Type"), "text/x-shellscript") || want == "" || a.header.Get("Content-Length") == "" ||
		want <= a.header.Get("Content-Length") {
		t.Errorf("got %d %v, %s", a.status, a.header, want)
	}
	if n, err := h.fleet.Node(t.Context(), "", "gpu-7"); err != nil || n.State != string(fleet.Ready) {
		t.Errorf("state %s, %v", n.State, err)
	}
	if kept, err := h.store.Bootstrap(t.Context(), m.Token.Public()); err != nil || kept.FirstFetchAt != nil ||
		len(h.events("bootstrap.fetched")) != 0 {
		t.Errorf("first fetch %v, %v", kept.FirstFetchAt, err)
	}
}
