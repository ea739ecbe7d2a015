package adminapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// TestPSKInACall: a PSK where a name, a label, an id or an API token goes is refused and recorded, and stored nowhere.
func TestPSKInACall(t *testing.T) {
	for name, chosen := range map[string]string{"words": "correct horse battery staple", "base64": "q/8xKz3+Jd0aV7//mP2s/TgHorseYcNb"} {
		t.Run(name, func(t *testing.T) { pskInACall(t, chosen) })
	}
}

func pskInACall(t *testing.T, chosen string) {
	h := newHouse(t).withScripts()
	set := func(body string) api.NewPSK {
		return decode[api.NewPSK](t, second(h.ask("POST", "psk", "", body)))
	}
	first := set(`{"secret":"` + chosen + `"}`)
	made := decode[api.NewPSK](t, second(h.ask("POST", "psk/rotate", "", `{"generate":true}`)))
	if sign.CheckPSK(made.Secret) != nil || !strings.HasPrefix(made.Secret, sign.PSKPrefix) || first.ID == "" {
		t.Fatalf("made %+v and %+v", first, made.ID)
	}
	h.ask("POST", "nodes", "", `{"name":"gpu-7"}`)
	account := h.account("ops", "", api.ScopeAll)
	for _, psk := range []string{chosen, made.Secret} {
		for name, c := range map[string]struct{ method, path, token, body string }{
			"a node's name":     {"POST", "nodes", "", `{"name":"` + psk + `"}`},
			"a node's tenant":   {"POST", "nodes", "", `{"name":"x","tenant":"` + psk + `"}`},
			"a node's label":    {"POST", "nodes", "", `{"name":"x","labels":{"a":"` + psk + `"}}`},
			"a label":           {"POST", "nodes/gpu-7/labels", "", `{"set":{"a":"` + psk + `"}}`},
			"a token's label":   {"POST", "tokens", "", `{"labels":{"a":"x` + "=" + psk + `"}}`},
			"an account's name": {"POST", "accounts", "", `{"name":"` + psk + `","scopes":["nodes:read"]}`},
			"a node":            {"POST", "nodes/" + url.PathEscape(psk) + "/drain", "", ""},
			"a token's id":      {"DELETE", "tokens/" + url.PathEscape(psk), account, ""},
			"the id to keep":    {"DELETE", "psk?keep=" + url.QueryEscape(psk), "", ""},
			"an API token":      {"GET", "nodes", psk, ""},
		} {
			status, body := h.ask(c.method, c.path, c.token, c.body)
			if status != 400 || code(body) != wire.CodePlaintextSecret || strings.Contains(string(body), psk) {
				t.Errorf("%s: got %d %s", name, status, body)
			}
		}
	}
	events, err := h.store.Events(t.Context(), store.EventQuery{Kind: "admin.refused"})
	kept, _ := json.Marshal(events)
	if err != nil || len(events) != 20 || strings.Contains(string(kept), "horse") || strings.Contains(string(kept), made.Secret[4:10]) {
		t.Errorf("%d events, %v: %s", len(events), err, kept)
	}
	if !strings.Contains(string(kept), first.ID) || !strings.Contains(string(kept), made.ID) {
		t.Errorf("no event says which PSK it was: %s", kept)
	}
	for path, body := range map[string]string{"nodes": `{"name":"msk_1"}`, "nodes/gpu-7/labels": `{"set":{"dc":"msk_2"}}`} {
		if status, answer := h.ask("POST", path, "", body); status >= 400 {
			t.Errorf("what only begins so: %d %s", status, answer)
		}
	}
}
